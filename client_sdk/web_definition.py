"""What a browser is told of a metric: the definition document that `client_sdk/web/` randomizes by;
and of a whole file: what its telemetry client needs besides.

All that shapes the law is written here as the integers in use, so that no law is worked out twice.
Thresholds travel as decimal text: a JavaScript number holds 53 bits.
"""

from typing import Any

from client_sdk.errors import ParameterError
from client_sdk.mechanisms import Mechanism
from client_sdk.mechanisms.thresholds import written_up
from client_sdk.metric import Metric
from client_sdk.randomness import ONE
from client_sdk.registry import Registry

VERSION = 1
MECHANISMS = (
    "randomized_response",
    "generalized_randomized_response",
    "symmetric_unary",
    "optimized_unary",
    "optimized_local_hashing",
    "binary_local_hashing",
    "one_bit_mean",
    "rappor",
)
"""Those that the browser module has."""

_LARGEST = 2**53 - 1  # integer that JavaScript reads from JSON as it is written


def definition(metric: Metric) -> dict[str, Any]:
    """Return the document, ready for JSON.

    It ships with the page, as metrics.toml ships with an app: a browser believes it.

    Raises:
        ParameterError: Browsers cannot answer this metric; says why.
    """
    _require(metric.every == 1, "every must be 1: a page asks whoever opens it", metric.every)
    _require(
        metric.sample_threshold == ONE,
        "sample must be 1: a page asks whoever opens it",
        metric.sample,
    )
    return _definition(metric)


def definitions(registry: Registry) -> dict[str, Any]:
    """Return what `telemetry.js` needs of a file, ready for JSON.

    The promise of a `window` is kept by the file itself: it was checked at load.

    Raises:
        ParameterError: Browsers cannot answer one of its metrics, or cannot keep what the file
            promises; says why.
    """
    _require(
        registry.seal is None,
        "project.seal must be left out: browsers do not seal uploads",
        registry.seal,
    )
    return {
        "version": VERSION,
        "project": registry.project,
        "lifetime": registry.lifetime_micro,
        "metrics": [_told(metric) for metric in registry.metrics.values()],
    }


def _told(metric: Metric) -> dict[str, Any]:
    try:
        stated = _definition(metric)
    except ParameterError as error:
        raise ParameterError(f"metrics.{metric.name}: {error}") from error
    return {
        "definition": stated,
        "epoch": metric.epoch,
        "every": metric.every,
        "sample": str(metric.sample_threshold),
        "starts": metric.starts.isoformat(),
        "expires": metric.expires.isoformat(),
        "grace_days": metric.grace_days,
        "distinct_values": 0 if metric.memoize is None else metric.memoize.distinct_values,
        "charge": metric.charge,
    }


def _definition(metric: Metric) -> dict[str, Any]:
    mechanism = metric.mechanism
    _require(
        mechanism.name in MECHANISMS,
        f"mechanism must be one of {', '.join(MECHANISMS)}",
        mechanism.name,
    )
    _require(
        metric.when_absent is None,
        "when_absent must be left out: a page that is not opened reports nothing",
        metric.when_absent,
    )
    for label in metric.labels:
        _require(
            isinstance(label, str) or abs(label) <= _LARGEST,
            "labels must be integers up to 2**53 - 1",
            label,
        )
    permanent = mechanism.epsilon_permanent
    return {
        "version": VERSION,
        "metric": metric.name,
        "fingerprint": metric.fingerprint,
        "channel": metric.channel_hash,
        "type": metric.type,
        "labels": list(metric.labels),
        "edges": [f"{edge:f}" for edge in metric.edges],
        "missing": metric.missing,
        "catch_all": metric.catch_all,
        "mechanism": {
            "name": mechanism.name,
            "kind": mechanism.kind,
            "cells": mechanism.cells,
            "cohorts": mechanism.cohorts,
            "parameters": {name: str(number) for name, number in _parameters(mechanism).items()},
        },
        "epsilon": written_up(mechanism.epsilon),
        "epsilon_permanent": None if permanent is None else written_up(permanent),
    }


def _parameters(mechanism: Mechanism) -> dict[str, int]:
    """Return what fixes the law, and what follows from it that JavaScript is not to work out."""
    from client_sdk.mechanisms.local_hashing import LocalHashing
    from client_sdk.mechanisms.one_bit_mean import OneBitMean

    parameters = dict(mechanism.parameters())
    if isinstance(mechanism, LocalHashing):
        parameters |= {"seeds": mechanism.seeds, "modulus": mechanism.hashing.modulus}
    if isinstance(mechanism, OneBitMean):
        parameters["step"] = mechanism.threshold(1) - mechanism.threshold(0)
    return parameters


def _require(holds: bool, rule: str, value: object) -> None:
    if not holds:
        raise ParameterError(f"{rule}, got {value!r}")
