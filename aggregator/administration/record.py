"""How whoever acts tells the administrators' log: `admin_log.AdminLog.record`."""

from typing import Protocol


class Record(Protocol):
    """Records an act that is about to be done; where it raises, the act is not to be done."""

    def __call__(self, act: str, **details: object) -> None: ...


def unrecorded(act: str, **details: object) -> None:
    """For those who have nobody to answer to."""
