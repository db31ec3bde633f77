"""Hears everything that a process says while a block runs, for `canary`.

Logs at every level, whatever the loggers' own levels and handlers are; warnings, ignored ones
too; standard output and error, of Python and of C code and child processes; every byte handed to
a socket, before TLS; names that are looked up; and exceptions that nobody caught.

Not heard: C code that opens sockets or files itself. For tests only: it replaces functions of the
standard library while it listens.
"""

import logging
import os
import socket
import ssl
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Any, TextIO


class Overheard:
    """What was heard, by place.

    Attributes:
        own: Files whose frames may hold the value: the test that put it there.
    """

    def __init__(self, own: str = "") -> None:
        self.own = own
        self._said: dict[tuple[str, int], list[bytes]] = {}

    def hear(self, place: str, said: str | bytes, stream: int = 0) -> None:
        """Keep what was said; the parts of one stream belong together."""
        piece = said.encode("utf-8", "surrogatepass") if isinstance(said, str) else said
        self._said.setdefault((place, stream), []).append(piece)

    def places(self) -> Iterator[tuple[str, bytes]]:
        """Yield each place and all that was said there."""
        for (place, _), pieces in list(self._said.items()):
            yield place, b"".join(pieces)

    def hear_exception(self, place: str, error: BaseException | None) -> None:
        """Hear an exception, those behind it, and the local variables of their frames."""
        seen: set[int] = set()
        waiting = [error]
        while waiting:
            each = waiting.pop()
            if each is None or id(each) in seen:
                continue
            seen.add(id(each))
            notes = getattr(each, "__notes__", ())
            self.hear(place, f"{_shown(each)} {each.args!r} {each} {notes}\n")
            self._hear_locals(place, each.__traceback__)
            waiting += [each.__cause__, each.__context__]
            waiting += getattr(each, "exceptions", ())

    def _hear_locals(self, place: str, trace: TracebackType | None) -> None:
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_filename != self.own:
                shown = [f"{name}={_shown(it)}" for name, it in trace.tb_frame.f_locals.items()]
                self.hear(place, f"{code.co_name}: {', '.join(shown)}\n")
            trace = trace.tb_next


@contextmanager
def listening(overheard: Overheard) -> Iterator[None]:
    """Hear everything while the block runs."""
    ears = (_logs, _warnings, _streams, _descriptors, _network, _uncaught)
    with ExitStack() as stack:
        for ear in ears:
            stack.enter_context(ear(overheard))
        yield


@contextmanager
def _logs(overheard: Overheard) -> Iterator[None]:
    was_enabled, handle = logging.Logger.isEnabledFor, logging.Logger.handle

    def hear(logger: logging.Logger, record: logging.LogRecord) -> None:
        overheard.hear("a log record", f"{_shown(record.__dict__)} {_message(record)}\n")
        if record.exc_info:
            overheard.hear_exception("the traceback of a log record", record.exc_info[1])
        if was_enabled(logger, record.levelno):
            handle(logger, record)

    with (
        _replaced(logging.Logger, "isEnabledFor", lambda logger, level: True),
        _replaced(logging.Logger, "handle", hear),
    ):
        yield


@contextmanager
def _warnings(overheard: Overheard) -> Iterator[None]:
    """Hear all warnings, then give them to the filters that were in force before."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for each in caught:
        overheard.hear("a warning", f"{each.category.__name__}: {each.message}\n")
        overheard.hear("a warning", _shown(getattr(each.message, "args", "")))
    for each in caught:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


class _Tee:
    """A text stream that is heard while it goes where it went before."""

    def __init__(self, stream: TextIO, overheard: Overheard, place: str) -> None:
        self._stream = stream
        self._overheard = overheard
        self._place = place

    def write(self, text: str) -> int:
        self._overheard.hear(self._place, text)
        return self._stream.write(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def _streams(overheard: Overheard) -> Iterator[None]:
    with (
        _replaced(sys, "stdout", _Tee(sys.stdout, overheard, "standard output")),
        _replaced(sys, "stderr", _Tee(sys.stderr, overheard, "standard error")),
    ):
        yield


@contextmanager
def _descriptors(overheard: Overheard) -> Iterator[None]:
    with (
        _descriptor(1, overheard, "standard output"),
        _descriptor(2, overheard, "standard error"),
    ):
        yield


@contextmanager
def _descriptor(number: int, overheard: Overheard, place: str) -> Iterator[None]:
    _flush()
    try:
        saved = os.dup(number)
    except OSError:  # closed: nothing can be said there
        yield
        return
    with tempfile.TemporaryFile() as kept:
        os.dup2(kept.fileno(), number)
        try:
            yield
        finally:
            _flush()
            os.dup2(saved, number)
            os.close(saved)
            kept.seek(0)
            said = kept.read()
            overheard.hear(place, said, stream=1)
            with suppress(OSError), os.fdopen(os.dup(number), "wb") as whence:
                whence.write(said)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()


@contextmanager
def _network(overheard: Overheard) -> Iterator[None]:
    def eared(original: Callable[..., Any]) -> Callable[..., Any]:
        def send(sender: Any, data: Any, *more: Any, **options: Any) -> Any:
            overheard.hear("the network", _bytes_of(data), id(sender))
            return original(sender, data, *more, **options)

        return send

    def look_up(host: Any, *more: Any, **options: Any) -> Any:
        overheard.hear("a name that was looked up", f"{host}\n")
        return found(host, *more, **options)

    found = socket.getaddrinfo
    senders: list[tuple[Any, str]] = [
        (socket.socket, "send"),
        (socket.socket, "sendall"),
        (socket.socket, "sendto"),
        (socket.socket, "sendmsg"),
        (ssl.SSLSocket, "send"),
        (ssl.SSLSocket, "write"),
        (ssl.SSLObject, "write"),
    ]
    with ExitStack() as stack:
        stack.enter_context(_replaced(socket, "getaddrinfo", look_up))
        for owner, name in senders:
            stack.enter_context(_replaced(owner, name, eared(getattr(owner, name))))
        yield


def _bytes_of(data: Any) -> bytes:
    try:
        return bytes(memoryview(data))
    except TypeError:
        return b"".join(bytes(memoryview(part)) for part in data)  # sendmsg takes many


@contextmanager
def _uncaught(overheard: Overheard) -> Iterator[None]:
    def eared(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def hook(unhandled: Any) -> None:
            overheard.hear_exception("an exception that nobody caught", unhandled.exc_value)
            original(unhandled)

        return hook

    with (
        _replaced(threading, "excepthook", eared(threading.excepthook)),
        _replaced(sys, "unraisablehook", eared(sys.unraisablehook)),
    ):
        yield


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    inherited = name not in vars(owner)
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # the host's mistake: logging itself reports it
        return type(error).__name__


def _shown(thing: object) -> str:
    try:
        return repr(thing)
    except Exception as error:
        return f"a repr that raises {type(error).__name__}"
