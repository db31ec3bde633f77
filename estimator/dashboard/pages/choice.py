"""Which release of a metric a query asks for, and how far back it looks."""

from dataclasses import dataclass

from werkzeug.datastructures import MultiDict

from estimator.dashboard.api.queries import matching, single
from estimator.dashboard.pages.inputs import Inputs
from estimator.dashboard.problems import ReadProblem
from estimator.dashboard.shelf import EPOCH, FINGERPRINT, Entry
from estimator.releases.release import POOLED, Release

EPOCHS = 60
"""So many a page looks back on, unless it is told otherwise."""
MOST_EPOCHS = 365
_NUMBER = r"[1-9][0-9]{0,2}"


@dataclass(frozen=True)
class Choice:
    """What a query asks to see.

    Attributes:
        entry: One release.
        epochs: How many epochs up to it.
    """

    entry: Entry
    epochs: int

    NAMES = ("epoch", "fingerprint", "epochs")

    @property
    def query(self) -> dict[str, str]:
        """The query that names this release for good."""
        return query_of(self.entry) | (
            {"epochs": str(self.epochs)} if self.epochs != EPOCHS else {}
        )


def choice(inputs: Inputs, name: str, given: "MultiDict[str, str]", *more: str) -> Choice | None:
    """Read what is asked for; None: the metric has no release, and none is named.

    Args:
        inputs: Where to look.
        name: The metric's.
        given: The query.
        more: Further parameters that the address takes.

    Raises:
        ReadProblem: A parameter breaks its rule, or there is no such release.
    """
    query = single(given, (*Choice.NAMES, *more))
    epoch = matching(query, "epoch", EPOCH)
    fingerprint = matching(query, "fingerprint", FINGERPRINT)
    epochs = int(matching(query, "epochs", _NUMBER) or EPOCHS)
    if epochs > MOST_EPOCHS:
        raise ReadProblem("malformed", f"must be at most {MOST_EPOCHS}", "epochs")
    shelf = inputs.published.shelf
    if epoch is None and fingerprint is None:
        chosen = inputs.published.chosen(name)
        return Choice(chosen[-1], epochs) if chosen else None
    found = [
        entry
        for entry in shelf.entries(name)
        if epoch in (None, entry.epoch) and fingerprint in (None, entry.fingerprint)
    ]
    if not found:
        field = "epoch" if epoch is not None else "fingerprint"
        raise ReadProblem("not_found", "there is no such release of this metric", field)
    pooled = [entry for entry in found if entry.fingerprint == POOLED]
    best = pooled[-1] if pooled and pooled[-1].epoch == found[-1].epoch else found[-1]
    return Choice(best, epochs)


def shown_history(inputs: Inputs, chosen: Choice) -> list[Release]:
    """Return the releases that a choice looks back on, it included, oldest first."""
    return inputs.published.comparable(chosen.entry, chosen.epochs)


def query_of(entry: Entry) -> dict[str, str]:
    """Return the query that names a release."""
    return {"epoch": entry.epoch, "fingerprint": entry.fingerprint}
