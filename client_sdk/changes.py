"""What changes for devices and releases when an edited metrics.toml replaces an older one.

Errors weaken a promise that users were given, or make published figures mix what does not
belong together. Notes cost something: a series that ends or begins anew, epsilon, silence.
"""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

from client_sdk.metric import Metric
from client_sdk.registry import Registry
from client_sdk.review import Finding

ROUNDING = Decimal("0.000001")
"""Epsilons that differ by no more are the same, as in the ledger."""


def changes(old: Registry, new: Registry) -> list[Finding]:
    """Return what a reviewer of the new file must know, with the consequences in words."""
    found = list(_of_project(old, new))
    for name, before in old.metrics.items():
        after = new.metrics.get(name)
        if after is None:
            found.append(_removed(before, new))
        else:
            found += _of_metric(before, after)
    renamed = [each for each in _added(old, new) if _same_question(each, old, new)]
    return found + [_renamed(each) for each in renamed]


def _of_project(old: Registry, new: Registry) -> Iterator[Finding]:
    if old.project != new.project:
        yield Finding(
            "error",
            "project_renamed",
            "project.name",
            f"{old.project} becomes {new.project}: a device keeps its state by the project's "
            "name, so each starts anew, with its whole lifetime budget and fresh noise for old "
            "values",
        )
    if new.lifetime_epsilon > old.lifetime_epsilon:
        yield Finding(
            "error",
            "lifetime_raised",
            "project.lifetime_epsilon",
            f"raised from {old.lifetime_epsilon} to {new.lifetime_epsilon}: devices spend more in "
            "their lives than their users were promised",
        )
    elif new.lifetime_epsilon < old.lifetime_epsilon:
        yield Finding(
            "note",
            "lifetime_lowered",
            "project.lifetime_epsilon",
            f"lowered from {old.lifetime_epsilon} to {new.lifetime_epsilon}: a device that has "
            "spent as much falls silent, and one that has reserved more takes nothing new on",
        )
    if old.window is not None and (
        new.window is None
        or new.window.epsilon > old.window.epsilon
        or new.window.days < old.window.days
    ):
        yield Finding(
            "error",
            "window_weakened",
            "project.window",
            f"at most {old.window.epsilon} epsilon in any {old.window.days} days was promised; "
            + (
                "the promise is gone"
                if new.window is None
                else f"now it is {new.window.epsilon} in any {new.window.days}"
            ),
        )
    if old.seal is not None and new.seal is None:
        yield Finding(
            "error",
            "seal_removed",
            "project.seal",
            "uploads were sealed to the aggregator's key; now whoever ends TLS on the way can "
            "read them",
        )
    needed = sum(metric.share(metric.starts) for metric in new.metrics.values())
    gone = sum(_kept_spent(before, new) for before in old.metrics.values())
    if gone and needed + gone > new.lifetime_micro:
        yield Finding(
            "note",
            "does_not_fit",
            "project.lifetime_epsilon",
            f"what is asked now needs {needed / 1e6:g}, and up to {gone / 1e6:g} stays spent on "
            f"what was removed or changed, more than {new.lifetime_epsilon} together: on devices "
            "that have spent it, the last metrics of the file are off",
        )


def _kept_spent(before: Metric, new: Registry) -> int:
    """Return what a device may have spent on a metric that nothing in the new file takes over."""
    after = new.metrics.get(before.name)
    rechannelled = after is not None and after.channel_hash != before.channel_hash
    if after is None or (before.memoize is not None and rechannelled):
        return before.share(before.starts)
    return 0


def _removed(before: Metric, new: Registry) -> Finding:
    return Finding(
        "note",
        "removed",
        f"metrics.{before.name}",
        "removed: no device records it any more, and reports that wait on devices are still sent "
        f"and counted; what was not spent of its {before.share(before.starts) / 1e6:g} epsilon is "
        f"given back, what was spent stays spent",
    )


def _added(old: Registry, new: Registry) -> list[Metric]:
    return [metric for name, metric in new.metrics.items() if name not in old.metrics]


def _same_question(added: Metric, old: Registry, new: Registry) -> bool:
    gone = (metric for name, metric in old.metrics.items() if name not in new.metrics)
    return any((each.question, each.type) == (added.question, added.type) for each in gone)


def _renamed(added: Metric) -> Finding:
    fresh = (
        "; and fresh permanent noise answers for values that were answered before"
        if added.memoize is not None
        else ""
    )
    return Finding(
        "note" if added.memoize is None else "error",
        "renamed",
        f"metrics.{added.name}",
        "asks what a removed metric asked: a new name is a new metric, which takes a share of "
        f"{added.share(added.starts) / 1e6:g} epsilon of its own{fresh}",
    )


def _of_metric(old: Metric, new: Metric) -> Iterator[Finding]:
    yield from _of_channel(old, new)
    yield from _of_epochs(old, new)
    yield from _of_share(old, new)
    yield from _of_meaning(old, new)
    yield from _of_releases(old, new)


def _of_channel(old: Metric, new: Metric) -> Iterator[Finding]:
    key = f"metrics.{new.name}"
    # Another domain realises the same epsilon by other thresholds, a rounding away.
    realised = new.mechanism.epsilon - old.mechanism.epsilon
    if new.epsilon > old.epsilon or realised > ROUNDING:
        yield Finding(
            "error",
            "epsilon_raised",
            f"{key}.epsilon",
            f"raised from {old.mechanism.epsilon:.6f} to {new.mechanism.epsilon:.6f}: each report "
            "tells more than users were told",
        )
    if new.channel_hash == old.channel_hash:
        return
    reasons = ", ".join(_channel_reasons(old, new))
    if new.memoize is None:
        yield Finding(
            "note",
            "new_fingerprint",
            key,
            f"{reasons}: a new channel and a new fingerprint; releases of the old version end, and "
            "the epoch of the update is counted in two parts that are not added",
        )
    else:
        yield Finding(
            "error",
            "new_reservation",
            f"{key}.memoize",
            f"{reasons}: a new channel and a new fingerprint; beside what it has paid each device "
            f"pays a new reservation of {new.charge / 1e6:g} epsilon where that fits, else the "
            "metric is off, and fresh permanent noise answers for values that were answered before",
        )


def _channel_reasons(old: Metric, new: Metric) -> Iterator[str]:
    if old.type != new.type:
        yield f"type {old.type} becomes {new.type}"
    if old.edges != new.edges:
        yield "other buckets" if new.labels else "another range"
    elif old.labels != new.labels:
        added = [str(label) for label in new.labels if label not in old.labels]
        removed = [str(label) for label in old.labels if label not in new.labels]
        if added:
            yield f"values added ({', '.join(added)})"
        if removed:
            yield f"values removed ({', '.join(removed)})"
        if not added and not removed:
            yield "values in another order"
    if old.mechanism.name != new.mechanism.name:
        yield f"mechanism {old.mechanism.name} becomes {new.mechanism.name}"
    elif _law(old) != _law(new) and len(old.labels) == len(new.labels):
        yield "other probabilities or sizes"


def _law(metric: Metric) -> dict[str, int]:
    return dict(metric.mechanism.parameters())


def _of_epochs(old: Metric, new: Metric) -> Iterator[Finding]:
    key = f"metrics.{new.name}"
    anew = "a new fingerprint, so releases of the old version end"
    if old.epoch != new.epoch:
        yield Finding(
            "note",
            "epoch",
            f"{key}.epoch",
            f"{old.epoch} becomes {new.epoch}: {anew}; a device that has reported for one may "
            "report, and pay, again for the same days",
        )
    elif old.every != new.every:
        yield Finding(
            "note",
            "every",
            f"{key}.every",
            f"{old.every} becomes {new.every}: {anew}; turns are drawn anew, and a device whose "
            "new block holds a report already waits for the next",
        )
    if old.sample_threshold != new.sample_threshold:
        who = "who took part still does" if new.sample > old.sample else "some fall silent"
        yield Finding(
            "note",
            "sample",
            f"{key}.sample",
            f"{old.sample} becomes {new.sample}: {anew}; {who}",
        )
    if _said_when_absent(old) != _said_when_absent(new):
        yield Finding(
            "note",
            "when_absent",
            f"{key}.when_absent",
            f"changed: {anew}; the old ones and the new ones are about different devices",
        )
    if new.starts > old.starts or new.expires < old.expires:
        days = f"{new.starts} to {new.expires - timedelta(days=1)}"
        yield Finding(
            "note",
            "life_shortened",
            f"{key}.expires" if new.expires < old.expires else f"{key}.starts",
            f"collects from {days} only: releases outside of it do not come, and what devices "
            "reserved for it is not given back",
        )


def _said_when_absent(metric: Metric) -> object:
    value = metric.when_absent
    return None if value is None else metric.decode(value)


def _of_share(old: Metric, new: Metric) -> Iterator[Finding]:
    before, after = old.share(old.starts), new.share(new.starts)
    same_channel = old.channel_hash == new.channel_hash
    if after > before and new.memoize is None:
        yield Finding(
            "note",
            "share_raised",
            f"metrics.{new.name}",
            f"its share grows from {before / 1e6:g} to {after / 1e6:g} epsilon: a device on which "
            "the difference does not fit switches the metric off at once",
        )
    elif after > before and same_channel:
        yield Finding(
            "error",
            "reservation_raised",
            f"metrics.{new.name}.memoize",
            f"raised from {before / 1e6:g} to {after / 1e6:g} epsilon: each device pays the "
            "difference where it fits, more than users were told, else the metric is off at once",
        )


def _of_meaning(old: Metric, new: Metric) -> Iterator[Finding]:
    """What changes without a new fingerprint: both versions are added up."""
    if old.fingerprint != new.fingerprint:
        return
    key = f"metrics.{new.name}"
    together = "the fingerprint stays, so answers from before and after are added together"
    if old.missing != new.missing:
        yield Finding(
            "error", "missing", f"{key}.missing", f"None and NaN mean another value: {together}"
        )
    if old.catch_all != new.catch_all:
        yield Finding(
            "error",
            "catch_all",
            f"{key}.catch_all",
            f"values outside the list mean another value: {together}",
        )
    if old.question != new.question:
        yield Finding(
            "note",
            "question",
            f"{key}.question",
            f"asked in other words: {together}; if it asks something else, give it a new name",
        )


def _of_releases(old: Metric, new: Metric) -> Iterator[Finding]:
    key = f"metrics.{new.name}"
    if old.sensitivity != new.sensitivity:
        yield Finding(
            "note",
            "sensitivity",
            f"{key}.sensitivity",
            f"{old.sensitivity} becomes {new.sensitivity}: another range of epsilon is usual",
        )
    if new.min_reports < old.min_reports:
        yield Finding(
            "note",
            "min_reports",
            f"{key}.min_reports",
            f"lowered from {old.min_reports} to {new.min_reports}: fewer devices stand behind a "
            "release than before",
        )
    if new.grace_days < old.grace_days:
        yield Finding(
            "note",
            "grace",
            f"{key}.grace",
            f"lowered from {old.grace_days} to {new.grace_days} days: devices that were offline "
            "longer are refused, and have paid",
        )
