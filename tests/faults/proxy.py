"""A TCP proxy that loses, delays and cuts what passes, on command or by seeded chance."""

import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

Fault = Literal["drop_request", "cut_request", "drop_reply", "cut_reply", "delay_reply"]
FAULTS: tuple[Fault, ...] = (
    "drop_request",
    "cut_request",
    "drop_reply",
    "cut_reply",
    "delay_reply",
)
Connect = Callable[[], socket.socket]


def to_unix(path: str) -> Connect:
    """Connect to a unix socket."""

    def connect() -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.connect(path)
        except OSError:
            made.close()
            raise
        return made

    return connect


def to_port(port: int) -> Connect:
    """Connect to a port of this machine."""
    return lambda: socket.create_connection(("127.0.0.1", port))


@dataclass
class _Rule:
    fault: Fault
    times: int
    needle: bytes
    after: int


class FaultProxy:
    """Stands between clients and a server that answers each request before the next.

    A fault meets one exchange: "drop_request" ends the connection before the server sees anything,
    "cut_request" after half of it; "drop_reply" and "cut_reply" let the server do its work first;
    "delay_reply" holds the answer back for `delay_seconds`.

    Attributes:
        met: How often each fault happened.
    """

    def __init__(self, connect: Connect, delay_seconds: float = 0.05) -> None:
        self._connect, self._delay_seconds = connect, delay_seconds
        self._lock = threading.Lock()
        self._rules: list[_Rule] = []
        self._chance: tuple[random.Random, float, bytes] | None = None
        self._open: set[socket.socket] = set()
        self.met: Counter[Fault] = Counter()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def arm(self, fault: Fault, needle: bytes, times: int = 1, after: int = 0) -> None:
        """Spoil the next exchanges whose request holds `needle`, once `after` more have passed."""
        with self._lock:
            self._rules.append(_Rule(fault, times, needle, after))

    def chaos(self, seed: int, rate: float, needle: bytes = b"") -> None:
        """Spoil each exchange whose request holds `needle` with a chance of `rate`."""
        with self._lock:
            self._chance = (random.Random(seed), rate, needle)

    def calm(self) -> None:
        """Spoil nothing more."""
        with self._lock:
            self._rules, self._chance = [], None

    def close(self) -> None:
        """End all connections."""
        # Shut down first: closing alone does not wake a thread in accept().
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _draw(self, request: bytes) -> Fault | None:
        with self._lock:
            fault = self._due(request)
            if fault is not None:
                self.met[fault] += 1
        return fault

    def _due(self, request: bytes) -> Fault | None:
        for rule in self._rules:
            if rule.times and rule.needle in request:
                if rule.after:
                    rule.after -= 1
                    return None
                rule.times -= 1
                return rule.fault
        if self._chance is not None:
            chance, rate, needle = self._chance
            if needle in request and chance.random() < rate:
                return chance.choice(FAULTS)
        return None

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = self._connect()
        except OSError:
            _reset(client)
            return
        both = {client, server}
        with self._lock:
            self._open |= both
        try:
            with suppress(OSError):
                self._pass(client, server)
        finally:
            with self._lock:
                self._open -= both
            for connection in both:
                _reset(connection)

    def _pass(self, client: socket.socket, server: socket.socket) -> None:
        """Carry exchanges until one side ends or a fault ends both."""
        now = _Exchange()
        replies = threading.Thread(target=self._replies, args=(client, server, now), daemon=True)
        replies.start()
        try:
            while request := client.recv(1 << 17):
                if now.answered:  # else this is more of the same request
                    now.answered, now.fault = False, self._draw(request)
                if now.fault == "drop_request":
                    return
                if now.fault == "cut_request":
                    server.sendall(request[: len(request) // 2])
                    return
                server.sendall(request)
        finally:
            _end(client, server)
            replies.join()

    def _replies(self, client: socket.socket, server: socket.socket, now: "_Exchange") -> None:
        with suppress(OSError):
            while reply := server.recv(1 << 17):
                now.answered = True
                if now.fault == "drop_reply":
                    break
                if now.fault == "cut_reply":
                    client.sendall(reply[: len(reply) // 2])
                    break
                if now.fault == "delay_reply":
                    time.sleep(self._delay_seconds)
                client.sendall(reply)
        _end(client, server)


@dataclass
class _Exchange:
    """The request that is under way on one connection, and its answer."""

    answered: bool = True
    fault: Fault | None = None


def _end(*connections: socket.socket) -> None:
    for connection in connections:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def _reset(connection: socket.socket) -> None:
    """Close at once, with a reset where that exists."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
