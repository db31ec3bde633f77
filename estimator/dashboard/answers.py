"""Answers that a client may keep, and ask after by their digest."""

import hashlib
import json
from collections.abc import Mapping

from flask import Response, request

FOR_GOOD = "private, max-age=31536000, immutable"
"""What never changes: a release that was asked for by its version."""
ASK_AGAIN = "private, no-cache"
"""May be kept, and must be asked after: then a 304 is all that travels."""
NEVER = "no-store"


def kept(body: bytes, content_type: str, caching: str = ASK_AGAIN) -> Response:
    """Return a body with its ETag, or 304 to whoever has it."""
    etag = hashlib.sha256(body).hexdigest()[:32]
    if request.if_none_match.contains_weak(etag):
        answer = Response(status=304)
    else:
        answer = Response(body, content_type=content_type)
    answer.set_etag(etag)
    answer.headers["Cache-Control"] = caching
    return answer


def as_json(document: Mapping[str, object]) -> bytes:
    """Return a document's bytes."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
