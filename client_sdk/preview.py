"""What would be sent: the exact bytes, what they mean, what they cost; for the user to see.

Reads a device's state and changes nothing in it.
"""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from client_sdk import spool
from client_sdk.epochs import end_of, label
from client_sdk.ledger import ELSEWHERE, Ledger
from client_sdk.metric import Metric
from client_sdk.registry import Registry
from client_sdk.state import FILE_NAME, State
from client_sdk.uploader import batch_body

_MICRO = 1e6
_MOST_NAMED = 8
"""Answers that a report is said to speak for; of more, how many others there are."""
NOT_OF_A_METRIC = "(erased, or known to the server only)"


class WaitingReport(NamedTuple):
    """One report that has not left, or was not answered.

    Attributes:
        text: Its exact bytes in an upload, as text.
        words: What it says.
        not_before: Unix time before which it stays, 0 if it may leave.
    """

    text: str
    words: str
    not_before: float = 0.0


class Budget(NamedTuple):
    """What one metric has cost and may still cost, in epsilon.

    Attributes:
        metric: Its name; empty for what was erased, or only the server's ledger knows.
        covering_changes: Bound that covers, beside the values, when they changed; None: no bound.
    """

    metric: str
    spent: float
    reserved: float
    covering_changes: float | None

    @property
    def left(self) -> float:
        """What it may still spend."""
        return self.reserved - self.spent


class Preview(NamedTuple):
    """All that a device would send.

    Attributes:
        upload: The exact bytes of the upload that was begun and is not answered, None without
            one, or before the device has its id. The same bytes are sent until they are.
        uploaded: The reports in it.
        waiting: Reports that will go into later uploads.
        budgets: One per metric, by name.
        lifetime_epsilon: The most that the device may ever spend, None if no file says so.
        suspended: Why nothing will ever be sent again, None while it may.
        leaving: Whether the server has not confirmed yet that an earlier life of the device is
            erased; its id is sent for that before anything else.
    """

    upload: bytes | None = None
    uploaded: tuple[WaitingReport, ...] = ()
    waiting: tuple[WaitingReport, ...] = ()
    budgets: tuple[Budget, ...] = ()
    lifetime_epsilon: float | None = None
    suspended: str | None = None
    leaving: bool = False

    @property
    def spent_epsilon(self) -> float:
        """What the device has spent in its life."""
        return sum(budget.spent for budget in self.budgets)

    def as_json(self) -> dict[str, Any]:
        """Return all of it for machines."""
        return {
            "upload": None if self.upload is None else self.upload.decode(),
            "reports": [
                {
                    "report": json.loads(each.text),
                    "words": each.words,
                    "in_upload": each in self.uploaded,
                    "not_before": each.not_before or None,
                }
                for each in (*self.uploaded, *self.waiting)
            ],
            "metrics": {
                budget.metric or "elsewhere": {
                    "spent": budget.spent,
                    "spent_covering_changes": budget.covering_changes,
                    "reserved": budget.reserved,
                    "left": budget.left,
                }
                for budget in self.budgets
            },
            "spent_epsilon": self.spent_epsilon,
            "lifetime_epsilon": self.lifetime_epsilon,
            "suspended": self.suspended,
            "leaving": self.leaving,
        }

    def in_words(self) -> str:
        """Return all of it for people."""
        lines = []
        if self.upload is not None:
            lines += [
                "This upload is under way: exactly these bytes, until the server has answered "
                f"({len(self.upload)} bytes, the rest of them spaces):",
                self.upload.decode().rstrip(),
                "It says:",
                *(f"  {each.words}" for each in self.uploaded),
            ]
        elif self.uploaded:
            lines.append(
                "The server has given the device no id yet. As soon as it has, this leaves, each "
                "report exactly so:"
            )
            for each in self.uploaded:
                lines += [f"  {each.text}", f"    {each.words}"]
        if self.waiting:
            lines.append("Waiting for a later upload, each exactly so:")
        for each in self.waiting:
            lines += [f"  {each.text}", f"    {each.words}"]
        if not lines:
            lines.append("Nothing waits to be sent.")
        if self.suspended:
            lines.append(f"Nothing will be sent any more: {self.suspended}.")
        if self.leaving:
            lines.append(
                "The server has not confirmed yet that it has erased this device's earlier life; "
                "its old id is sent for that, before anything else."
            )
        for budget in self.budgets:
            lines.append(
                f"{budget.metric or NOT_OF_A_METRIC}: epsilon {budget.spent:g} spent, "
                f"{budget.reserved:g} reserved, {budget.left:g} left{_changes(budget)}"
            )
        cap = "" if self.lifetime_epsilon is None else f" of {self.lifetime_epsilon:g}"
        lines.append(f"This device has spent {self.spent_epsilon:g}{cap} lifetime epsilon.")
        return "\n".join(lines)


def _changes(budget: Budget) -> str:
    """Return what is to be said about changes, where it differs from what was spent."""
    if budget.covering_changes == budget.spent:
        return ""
    figure = budget.covering_changes
    bound = "without bound" if figure is None else f"{figure:.6g}"
    return f"; {bound} spent if when an answer changed counts too"


def read(directory: str | os.PathLike[str], registry: Registry | None) -> Preview:
    """Return what waits in a state directory; an empty preview if it holds no state.

    Args:
        directory: Of the device's state.
        registry: Says what the reports mean, where it is at hand.

    Raises:
        StateError: The state cannot be used.
    """
    lifetime = None if registry is None else float(registry.lifetime_epsilon)
    if not os.path.exists(os.path.join(directory, FILE_NAME)):
        return Preview(lifetime_epsilon=lifetime)
    metrics = {} if registry is None else registry.metrics
    state = State(directory)
    try:
        with state.transaction() as connection:
            batch = spool.outstanding(connection)
            rows = connection.execute("SELECT report, not_before FROM spool ORDER BY id").fetchall()
            shares = list(Ledger(connection, 0).shares())
            device, suspended, leaving = state.device, state.suspended, state.is_leaving
    finally:
        state.close()
    sent = [] if batch is None else json.loads(b"[" + batch.reports_json + b"]")
    return Preview(
        upload=None if batch is None or device is None else batch_body(batch, device),
        uploaded=tuple(_waiting(_text(report), metrics, 0.0) for report in sent),
        waiting=tuple(_waiting(text, metrics, not_before) for text, not_before in rows),
        budgets=tuple(
            Budget(
                share.metric,
                share.spent / _MICRO,
                share.reserved / _MICRO,
                None if share.changes is None else share.changes / _MICRO,
            )
            for share in sorted(shares, key=lambda share: share.metric == ELSEWHERE)
        ),
        lifetime_epsilon=lifetime,
        suspended=suspended,
        leaving=leaving,
    )


def in_words(report: Mapping[str, Any], metric: Metric | None) -> str:
    """Return what a report says, and what it does not."""
    name = report["metric"]
    if metric is None or metric.fingerprint != report["fingerprint"]:
        version = "" if metric is None else ", of another version of the metric"
        return f"{name}, epoch number {report['epoch']}{version}: {report['response']!r}"
    when = (
        "asked once"
        if metric.epoch == "once"
        else (f"{metric.epoch} {label(metric.epoch, report['epoch'])}")
    )
    return f"{name}, {when}: {_meaning(report, metric)}"


def _meaning(report: Mapping[str, Any], metric: Metric) -> str:
    mechanism, cohort = metric.mechanism, report["cohort"]
    bits = mechanism.kind == "bits"
    response = int(report["response"], 16) if bits else report["response"]
    if mechanism.encodes == "number":
        low, high = metric.edges[0], metric.edges[-1]
        sent = (
            f"one bit, {response}, set the more often, the higher a number is"
            if bits
            else f"place {response} of 0 to {mechanism.cells - 1}, near a number's own or any other"
        )
        return f"{sent}; every number from {low} to {high} may or may not have been your answer"
    cells = set(mechanism.support(response))
    if not metric.labels:
        drawn = (
            f"{len(cells)} of {mechanism.cells} bits are set, many of them by chance"
            if bits
            else f"it is number {response} of {mechanism.cells}, drawn partly by chance"
        )
        return f"{drawn}; every text may or may not have been your answer"
    if mechanism.encodes == "several":
        listed = [_shown(metric.labels[cell]) for cell in sorted(cells)]
        return f"you may or may not have chosen any of {', '.join(listed) or 'the options'}"
    own = {value: mechanism.cells_for(index, cohort) for index, value in enumerate(metric.labels)}
    if bits:
        named = [value for value, its in own.items() if its and cells.issuperset(its)]
    else:
        # Of hashed answers each has many cells, and a report names one that several share.
        named = [value for value, its in own.items() if not cells.isdisjoint(its)]
    if not named:
        # A response without any cell speaks for the answer that has none, if there is one.
        named = [value for value, its in own.items() if not its]
    if not named:
        return "it names no answer; you may or may not have given any of them"
    listed = [*map(_shown, named[:_MOST_NAMED])]
    if len(named) > _MOST_NAMED:
        listed.append(f"one of {len(named) - _MOST_NAMED} others")
    return f"you may or may not have answered {' or '.join(listed)}"


def _shown(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else repr(value)


def _waiting(text: str, metrics: Mapping[str, Metric], not_before: float) -> WaitingReport:
    report = json.loads(text)
    metric = metrics.get(report["metric"])
    words = in_words(report, metric)
    if not_before and metric is not None:
        end = label(metric.epoch, report["epoch"])
        assert not_before == end_of(metric.epoch, report["epoch"])
        words += f"; it stays until {metric.epoch} {end} is over"
    return WaitingReport(text, words, not_before)


def _text(report: object) -> str:
    return json.dumps(report, separators=(",", ":"))
