"""What passes between intake and store: a checked batch, and what became of it."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from aggregator.group import Group
from client_sdk.report import RefusalReason

Verdict = Literal["accepted", "duplicate", "clone_suspected", "identity_revoked", "erased"]


class Candidate(NamedTuple):
    """A report that only the store can still refuse.

    Attributes:
        group: The tally it would add to.
        row: The report as the stream holds it, see `Group.row`.
        charge: Micro-epsilon it costs; with `memo`, what the first one costs.
        memo: Channel hash of a memoized metric, which is charged once in a device's life.
    """

    group: Group
    row: bytes
    charge: int
    memo: str | None


@dataclass(frozen=True, slots=True)
class Batch:
    """An upload whose MAC and form have been checked.

    Attributes:
        device: The device id, 32 hex digits.
        sequence: In 1..2**32-1.
        digest: Of the exact bytes, 16 bytes.
        verdicts: Per report a candidate, or why it is refused.
    """

    device: str
    sequence: int
    digest: bytes
    verdicts: tuple[Candidate | RefusalReason, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a batch.

    Attributes:
        verdict: Of the batch; "duplicate" is success, with the first answer.
        spent: Micro-epsilon in the device's ledger record.
        reports: Per report "accepted" or why it was refused; empty if the whole batch is.
    """

    verdict: Verdict
    spent: int
    reports: tuple[str, ...]
