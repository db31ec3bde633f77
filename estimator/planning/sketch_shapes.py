"""Which shape of a sketch is best for a list of candidates: bits, hashes, cohorts, by trying.

Errors within a few per cent are equal, and then the shape is taken that tells least about devices:
fewest cohorts first, then fewest bits. A device keeps its cohort for life where noise is
remembered, and each remembered bit is one more that tells it from others.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from math import log2
from typing import Any

from client_sdk.errors import RegistryError
from client_sdk.mechanisms import Mechanism, Rappor
from client_sdk.metric import Metric
from estimator.errors import DecodeError
from estimator.planning.figures import bits_of, metric_law, options_of
from estimator.planning.question import Question

EQUAL = 1.02
"""Errors that differ by less are taken for equal."""
_BITS = (32, 64, 128, 256)
_RAPPOR_HASHES = (1, 2)
_COHORTS = (4, 8, 16, 32, 64, 128, 256)
_MORE = 1.005
_SHAPE = ("bits", "cells", "hashes", "cohorts")
MOST_TRIED = 100
"""Candidates in a trial; more change little, and take long."""
STRONG_FINGERPRINT = 32
"""Bits of remembered noise by which four thousand million devices could be told apart."""


def best_shape(name: str, question: Question) -> Metric:
    """Return the metric with the least error, or of equal ones that which tells least.

    The error is that of a candidate with the smallest share that matters, with the question's
    reports, five unlisted strings of 1 % among them.

    Raises:
        RegistryError: No shape can be declared.
        DecodeError: None tells the candidates apart.
    """
    trial = question.with_values(min(len(question.candidates), MOST_TRIED))
    tried: list[tuple[float, tuple[int, int, int], Mapping[str, Any]]] = []
    failed: Exception | None = None
    for shapes in _families(name):
        last = float("inf")
        for options in shapes:
            try:
                metric = trial.metric(options)
                law = metric_law(metric)
            except (RegistryError, DecodeError) as error:
                failed = error
                continue
            assert law is not None
            mechanism, error_there = (
                metric.mechanism,
                law.error(trial.smallest_share, trial.reports),
            )
            told = (mechanism.cohorts, mechanism.cells, options["hashes"])
            tried.append((error_there, told, options))
            if error_there > last / _MORE:
                break  # still more cohorts would not help either
            last = error_there
    if not tried:
        assert failed is not None
        raise failed
    least = min(error_there for error_there, _, _ in tried)
    equal = [each for each in tried if each[0] <= least * EQUAL]
    return question.metric(min(equal, key=lambda each: each[1])[2])


def _families(name: str) -> Iterator[list[dict[str, Any]]]:
    """Yield shapes that differ in the number of cohorts alone, fewest first."""
    if name == Rappor.name:
        for bits, hashes in product(_BITS, _RAPPOR_HASHES):
            shape = {"name": name, "bits": bits, "hashes": hashes}
            yield [shape | {"cohorts": cohorts} for cohorts in _COHORTS]
        return
    for cells in _BITS:
        yield [{"name": name, "cells": cells, "hashes": rows} for rows in _COHORTS]


def declared_as(mechanism: Mechanism) -> str | dict[str, Any]:
    """Return what a file says under `mechanism` to get it, epsilons apart."""
    shape = {name: value for name, value in options_of(mechanism).items() if name in _SHAPE}
    return {"name": mechanism.name, **shape} if shape else mechanism.name


def fingerprint_note(mechanism: Mechanism, devices: int) -> str | None:
    """Say how well remembered noise tells devices apart; None where nothing is remembered."""
    if not mechanism.memoizes:
        return None
    cohorts = (
        f"its cohort, one of {mechanism.cohorts}, is shared by about "
        f"{devices / mechanism.cohorts:,.0f} devices and kept for life"
    )
    if not isinstance(mechanism, Rappor):
        return cohorts if mechanism.cohorts > 1 else None
    strength = (
        "a strong fingerprint" if bits_of(mechanism) > STRONG_FINGERPRINT else "a fingerprint"
    )
    return (
        f"{mechanism.cells} remembered bits are {strength} of a device, seen through the noise of "
        f"each report; {cohorts} ({log2(mechanism.cohorts):g} bits more)"
    )
