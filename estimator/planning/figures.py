"""The figures of one mechanism for one question: what it tells, what it costs, what it sends."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import ceil, log2
from typing import Any, Literal

import numpy as np

from client_sdk.declaration.values import ORDERED
from client_sdk.epochs import epoch_of
from client_sdk.mechanisms import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    HierarchicalHistogram,
    Mechanism,
    RandomizedResponse,
    Rappor,
)
from client_sdk.mechanisms.thresholds import probability
from client_sdk.metric import Metric
from client_sdk.report import Report, report_to_json
from estimator.debias import Channel
from estimator.inversion.cumulative import SUMMABLE, cumulative_error
from estimator.planning.laws import Law
from estimator.planning.mechanism_laws import Unlisted, law_of, remembered_law, tree_of
from estimator.planning.poisoning import shift_range_of
from estimator.planning.question import Question
from estimator.uncertainty import variance_population


@dataclass(frozen=True)
class Figures:
    """What to expect of n reports through one mechanism; shares and errors are parts of 1.

    Of a mean all of them are parts of its range. None stands where no formula says it.

    Attributes:
        mechanism: Its name.
        of: What is estimated.
        options: What was solved for: of sketches bits, cells, hashes, cohorts and probabilities.
        epsilon: Exact loss of one report.
        epsilon_permanent: Of endlessly many reports of one value; None with fresh noise.
        epsilon_reserved: Of a device's whole life, where values are remembered.
        n: Reports.
        rare_error: Standard error of a value that nobody holds; of a mean the worst, whatever the
            numbers are.
        common_error: The same of a value with the common share; of a mean, where all numbers lie
            in the middle of the range.
        worst_error: The largest, whatever the share is.
        decision_level: Estimate above which a value is called present, over all values together.
        detection_limit: Least share that is called so in 95 of 100 epochs; None: no share is.
            Of a mean: how far it must lie above a known one to be called higher.
        interval_width: Of the interval of a value that nobody holds; of a mean, the widest.
        simultaneous_width: Of those intervals that hold for all values together.
        averaged_error: Of a value that nobody holds, in the average of endlessly many epochs, if no
            value changes: remembered noise stays. None with fresh noise, which goes.
        range_error: Largest standard error of the share of all values below one, of ordered ones
            that are held alike: what quantiles have.
        worst_shift: The most by which 1 % of fake reports can move an estimate.
        shift_range: By how much they can move the estimate of the smallest share that matters, down
            and up, if they come in place of honest ones.
        bits: Of a response and its cohort, as information.
        bytes: Of a report on the wire.
        counters: Of a tally in the store.
    """

    mechanism: str
    of: Literal["share", "mean"]
    options: Mapping[str, float]
    epsilon: float
    epsilon_permanent: float | None
    epsilon_reserved: float | None
    n: float
    rare_error: float | None
    common_error: float | None
    worst_error: float | None
    decision_level: float | None
    detection_limit: float | None
    interval_width: float | None
    simultaneous_width: float | None
    averaged_error: float | None
    range_error: float | None
    worst_shift: float | None
    shift_range: tuple[float, float] | None
    bits: int
    bytes: int
    counters: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return asdict(self) | {"options": dict(self.options)}


def figures_of(
    metric: Metric, question: Question, law: Law | None, reports: float | None = None
) -> Figures:
    """Return the figures of a metric.

    Args:
        metric: Its mechanism, and what its values are.
        question: Says how many reports there are, and about which shares.
        law: The mechanism's, from `metric_law`.
        reports: Instead of the question's.
    """
    mechanism, n = metric.mechanism, question.reports if reports is None else reports
    permanent = mechanism.epsilon_permanent
    memoize = metric.memoize
    errors: dict[str, float | None] = dict.fromkeys(_ERRORS)
    if law is not None:
        errors = _errors(law, question, n, cells_of(metric))
    return Figures(
        mechanism=mechanism.name,
        of="mean" if mechanism.encodes == "number" else "share",
        options=options_of(mechanism),
        epsilon=float(mechanism.epsilon),
        epsilon_permanent=None if permanent is None else float(permanent),
        epsilon_reserved=None if memoize is None else metric.charge / 1e6,
        n=n,
        averaged_error=_averaged_error(metric, n * metric.every),
        range_error=_range_error(metric, n),
        shift_range=shift_range_of(mechanism, question.smallest_share),
        bits=bits_of(mechanism),
        bytes=bytes_of(metric),
        counters=mechanism.cohorts * mechanism.cells,
        **errors,
    )


_ERRORS = (
    "rare_error",
    "common_error",
    "worst_error",
    "decision_level",
    "detection_limit",
    "interval_width",
    "simultaneous_width",
    "worst_shift",
)


def _errors(law: Law, question: Question, n: float, cells: int) -> dict[str, float | None]:
    level = question.level
    mean = law.of == "mean"
    # A mean is nobody's: the widest interval stands for all.
    at = 0.5 if mean else 0.0
    stretch = law.worst_error(n) / law.error(0.5, n) if mean else 1.0
    return {
        "rare_error": law.worst_error(n) if mean else law.error(0.0, n),
        "common_error": law.error(0.5 if mean else question.common, n),
        "worst_error": law.worst_error(n),
        "decision_level": law.decision_level(n, level, cells),
        "detection_limit": law.detection_limit(n, level, cells),
        "interval_width": stretch * law.interval_width(at, n, level, 1),
        "simultaneous_width": stretch * law.interval_width(at, n, level, cells),
        "worst_shift": law.worst_shift,
    }


def metric_law(metric: Metric, unlisted: Unlisted | None = None) -> Law | None:
    """Return the law of a metric's reports; None where no formula says it."""
    return law_of(metric.mechanism, metric.candidates, unlisted)


def cells_of(metric: Metric) -> int:
    """Return over how many values at once a release decides which are present (Bonferroni)."""
    if isinstance(metric.mechanism, RandomizedResponse) or metric.mechanism.encodes == "number":
        return 1  # "no" is the same event as "yes"
    if metric.candidates:
        return len(metric.candidates) + 1  # all other strings together are one more
    return len(metric.labels)


def options_of(mechanism: Mechanism) -> dict[str, float]:
    """Return what a sketch of strings was made with; for other mechanisms nothing."""
    if isinstance(mechanism, Rappor):
        return {
            "bits": mechanism.cells,
            "hashes": mechanism.hashes,
            "cohorts": mechanism.cohorts,
            "f": float(mechanism.f),
            "p": float(probability(mechanism.report_if_zero)),
            "q": float(probability(mechanism.report_if_one)),
        }
    if isinstance(mechanism, HadamardCountMeanSketch):
        return {"cells": mechanism.places, "hashes": mechanism.cohorts}
    if isinstance(mechanism, CountMeanSketch):
        return {"cells": mechanism.cells, "hashes": mechanism.cohorts}
    return {}


def bits_of(mechanism: Mechanism) -> int:
    """Return the bits of a response and its cohort."""
    if mechanism.kind == "cell":
        return ceil(log2(mechanism.cells * mechanism.cohorts))
    return mechanism.cells + ceil(log2(mechanism.cohorts))


def bytes_of(metric: Metric) -> int:
    """Return the bytes of the longest report of a metric, without those of its batch."""
    mechanism = metric.mechanism
    longest = mechanism.cells - 1 if mechanism.kind == "cell" else 0
    epoch = epoch_of(metric.epoch, metric.starts)
    report = Report(metric.name, metric.fingerprint, epoch, mechanism.cohorts - 1, longest)
    return len(report_to_json(report, mechanism))


def _averaged_error(metric: Metric, devices: float) -> float | None:
    law = remembered_law(metric.mechanism, metric.candidates) if metric.memoize else None
    return None if law is None else law.error(0.0, devices)


def _range_error(metric: Metric, n: float) -> float | None:
    mechanism, values = metric.mechanism, len(metric.labels)
    if metric.type not in ORDERED or not values:
        return None
    even = np.full(values, 1 / values)
    if isinstance(mechanism, HierarchicalHistogram):
        sums = tree_of(mechanism)
        scale = float(sums.reports.sum()) / n
        return float(sums.cumulative().errors(even)[0].max() * scale**0.5)
    if not isinstance(mechanism, SUMMABLE):
        return None
    channel = Channel.of_values(mechanism)
    if isinstance(mechanism, RandomizedResponse):
        return float(variance_population(0.5, n, channel) ** 0.5)
    errors = cumulative_error(even, 1, channel, mechanism.kind)
    return float(errors.max() / n**0.5)
