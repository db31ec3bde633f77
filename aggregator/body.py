"""Reading a request's body, only if it is plain and short: checked before a byte is read."""

from flask import Request
from werkzeug.exceptions import ClientDisconnected

from aggregator.problems import Problem
from client_sdk.report import MAX_BATCH_BYTES


def read_json_body(request: Request, *, may_be_empty: bool = False) -> bytes:
    """Return the body.

    Raises:
        Problem: No length in advance, too long, encoded, not JSON by its header, or cut off.
    """
    chunked = "Transfer-Encoding" in request.headers
    if may_be_empty and not chunked and not request.content_length:
        return b""
    if chunked or request.content_length is None:
        raise Problem("length_required", "Content-Length is required", "Content-Length")
    if request.content_length > MAX_BATCH_BYTES:
        limit = f"the body must have at most {MAX_BATCH_BYTES} bytes"
        raise Problem("too_large", limit, "Content-Length")
    if request.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise Problem("unsupported_media", "the body must not be encoded", "Content-Encoding")
    if request.mimetype != "application/json":
        raise Problem("unsupported_media", "must be application/json", "Content-Type")
    try:
        body = request.get_data(cache=False)
    except ClientDisconnected as error:
        raise Problem("malformed", "the body ends before its length", "body") from error
    if len(body) != request.content_length:
        raise Problem("malformed", "the body ends before its length", "body")
    return body
