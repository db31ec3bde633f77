"""What a client is doing, for people."""

from typing import NamedTuple


class Status(NamedTuple):
    """What a client is doing, for people.

    Attributes:
        summary: "collecting", or "disabled: " and the reason.
        spent_epsilon: Lifetime epsilon spent, None before the first record of this process.
        lifetime_epsilon: The most that this device may ever spend.
        queued: Reports that wait to be sent.
        dropped: Values not reported, by reason; and, though reported, clamped ones.
        refused: Reports that left the queue without being accepted, by reason: the server's, or
            too_old, or unanswered (refused for days by something that is not known to be the
            server), or identity_revoked (the device enrols anew).
    """

    summary: str
    spent_epsilon: float | None
    lifetime_epsilon: float
    queued: int
    dropped: dict[str, int]
    refused: dict[str, int]
