"""Reading a request's body, only if it is plain and short: checked before a byte is read."""

import re
from collections.abc import Mapping

from flask import Request
from werkzeug.exceptions import ClientDisconnected

from aggregator.problems import Problem
from client_sdk.report import MAX_BATCH_BYTES, SEALED_TYPE
from client_sdk.sealing import OVERHEAD_BYTES

JSON_TYPE = "application/json"
_PLAIN = {JSON_TYPE: MAX_BATCH_BYTES}
_LENGTH = re.compile(r"[0-9]{1,18}")
_SEALED = {SEALED_TYPE: MAX_BATCH_BYTES + OVERHEAD_BYTES}


def read_json_body(request: Request) -> bytes:
    """Return a JSON body, or nothing if none was sent.

    Raises:
        Problem: No length in advance, too long, encoded, not JSON by its header, or cut off.
    """
    if "Transfer-Encoding" not in request.headers and not _length(request):
        return b""
    return _read(request, _PLAIN)


def read_upload(request: Request, *, plain: bool) -> tuple[bytes, bool]:
    """Return the body of an upload, and whether it is sealed.

    Args:
        plain: Whether uploads that are not sealed are taken.

    Raises:
        Problem: As above.
    """
    sealed = request.mimetype == SEALED_TYPE
    if not sealed and not plain and request.mimetype == JSON_TYPE:
        detail = f"plain uploads are switched off here; seal them and send {SEALED_TYPE}"
        raise Problem("sealing_required", detail, "Content-Type")
    return _read(request, (_PLAIN if plain else {}) | _SEALED), sealed


def _read(request: Request, limits: Mapping[str, int]) -> bytes:
    """Read a body of one of some types, each with its limit in bytes."""
    length = _length(request)
    if "Transfer-Encoding" in request.headers or length is None:
        raise Problem("length_required", "Content-Length is required", "Content-Length")
    most = limits.get(request.mimetype, MAX_BATCH_BYTES)
    if length > most:
        limit = f"the body must have at most {most} bytes"
        raise Problem("too_large", limit, "Content-Length")
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise Problem("unsupported_media", "the body must not be encoded", "Content-Encoding")
    if request.mimetype not in limits:
        raise Problem("unsupported_media", f"must be {' or '.join(limits)}", "Content-Type")
    try:
        body = request.get_data(cache=False)
    except ClientDisconnected as error:
        raise Problem("malformed", "the body ends before its length", "body") from error
    if len(body) != length:
        raise Problem("malformed", "the body ends before its length", "body")
    return body


def _length(request: Request) -> int | None:
    # Not request.content_length, which is 0 for whatever is no number.
    text = request.headers.get("Content-Length")
    if not text:
        return None
    if not _LENGTH.fullmatch(text):
        raise Problem("malformed", "must be a number of bytes", "Content-Length")
    return int(text)
