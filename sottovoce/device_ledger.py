"""A device's own ledger, in words that its user understands."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client_sdk.ledger import ELSEWHERE, Ledger, Share
from client_sdk.preview import NOT_OF_A_METRIC
from client_sdk.state import FILE_NAME, State
from sottovoce.table import table

MICRO = 1e6


@dataclass(frozen=True)
class DeviceLedger:
    """What a device's state says about its life.

    Attributes:
        shares: One per metric, and one for what was erased or only the server's ledger knows.
        queued: Reports that wait to be sent.
        suspended: Why the device will never report again, None while it may.
        leaving: Whether the server has still to confirm that it erased an earlier life.
    """

    shares: Sequence[Share]
    queued: int
    suspended: str | None
    leaving: bool

    def as_json(self) -> dict[str, Any]:
        """Return the figures; null where there is no bound."""
        changes = [share.changes for share in self.shares]
        return {
            "spent_epsilon": sum(share.spent for share in self.shares) / MICRO,
            "spent_epsilon_covering_changes": (
                None if None in changes else sum(change or 0 for change in changes) / MICRO
            ),
            "queued": self.queued,
            "suspended": self.suspended,
            "leaving": self.leaving,
            "metrics": {
                share.metric or "elsewhere": {
                    "reports": share.reports,
                    "spent": share.spent / MICRO,
                    "spent_covering_changes": (
                        None if share.changes is None else share.changes / MICRO
                    ),
                    "reserved": share.reserved / MICRO,
                    "left": (share.reserved - share.spent) / MICRO,
                    "collecting": share.fits,
                }
                for share in self.shares
            },
        }

    def in_words(self) -> str:
        """Return a table and what it means."""
        rows = [
            (
                NOT_OF_A_METRIC if share.metric == ELSEWHERE else share.metric,
                str(share.reports),
                f"{share.spent / MICRO:g}",
                "no bound" if share.changes is None else f"{share.changes / MICRO:.6g}",
                f"{share.reserved / MICRO:g}",
                f"{(share.reserved - share.spent) / MICRO:g}",
                "" if share.fits or share.metric == ELSEWHERE else "off: its share does not fit",
            )
            for share in self.shares
        ]
        document = self.as_json()
        lines = [
            table(("metric", "reports", "spent", "with changes", "reserved", "left", ""), rows),
            f"This device has spent {document['spent_epsilon']:g} of its lifetime epsilon; "
            f"{self.queued} reports wait to be sent.",
            _MEANING,
        ]
        if self.suspended:
            lines.append(f"Reporting has ended: {self.suspended}.")
        if self.leaving:
            lines.append(
                "The server has not confirmed yet that it has erased this device's earlier life."
            )
        return "\n".join(lines)


_MEANING = """\
Every report left this device with noise in it. The smaller epsilon is, the less all reports
together tell: their odds under one set of answers and another differ at most by a factor of
e^spent. "with changes" covers in addition whether and when answers changed. What is reserved for
one metric cannot be used by another, and what is spent never comes back."""


def read(directory: Path) -> DeviceLedger:
    """Read a state directory.

    Raises:
        ValueError: It holds no state.
        StateError: The state cannot be used.
    """
    if not (directory / FILE_NAME).exists():
        raise ValueError(f"--state must hold a {FILE_NAME}, {directory} does not")
    state = State(directory)
    try:
        with state.transaction() as connection:
            shares = list(Ledger(connection, 0).shares())
        return DeviceLedger(shares, state.queued(), state.suspended, state.is_leaving)
    finally:
        state.close()
