"""Reports of the shipped client, drawn for an audit through the path that real ones take.

A host's value goes through `Metric.encode` and `recorder.Recorder` over a SQLite `State` with a
fresh device secret, charged and spooled; what is read back is the spooled text that would leave.
The registry is the given one, but for a life, a budget and a frequency that suffice for an audit;
no channel depends on those.

A metric with fresh noise needs one device for many reports. A memoized one is drawn once per
device, so there each draw is a device of its own with several reports of one value. Every slice is
drawn by a process of its own: a generator that starts from the same seed everywhere then repeats.
"""

import json
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from client_sdk.mechanisms import Mechanism, Value
from client_sdk.metric import FOREVER, Metric
from client_sdk.pending import Pending
from client_sdk.randomness import Coin
from client_sdk.recorder import Recorder
from client_sdk.registry import Registry, loads
from client_sdk.state import State
from estimator.empirical_audit import Rows, collision_chance, noise_repeats

METHOD = "Metric.encode and client_sdk.recorder.Recorder over SQLite states with fresh secrets"
"""The path that reports took, for people."""
REPORTS_OF_ONE_VALUE = 32
"""Reports that each device of a memoized metric makes."""
_REPORTS_PER_DEVICE_DRAW = 8  # a new state costs about as much time as so many reports
_SLICES = 2
_FROM = date(1970, 1, 1)
_ENOUGH_EPSILON = Decimal(10) ** 9
_MOST_STRINGS = 24
_MOST_COHORTS = 64

Response = tuple[int, int]
"""Cohort and response of one report."""


@dataclass(frozen=True)
class Drawn:
    """Responses of the shipped client to one value, one row per draw, see `describe`.

    Attributes:
        single: The first report of each draw.
        together: All reports of each draw, summed; None for metrics with fresh noise.
        slices: The first reports again, as they are, by the process that drew them.
    """

    single: Rows
    together: Rows | None
    slices: tuple[tuple[Response, ...], ...]


def hardest_pair(metric: Metric) -> tuple[object, object]:
    """Return the two values, as a host records them, that the mechanism tells apart best.

    Of several options, as many as can be selected from either end of the list.

    Of a closed domain, two of those that the mechanism gives for a sample. Of
    strings, two that set as few common bits as possible over the cohorts.
    """
    if metric.type == "number":
        return metric.edges[0], metric.edges[-1]
    if metric.type == "multi_select":
        return list(metric.labels[: metric.most]), list(metric.labels[-metric.most :])
    if metric.type != "string":
        first, last = metric.mechanism.sample(2)
        return metric.labels[int(first)], metric.labels[int(last)]
    mechanism = metric.mechanism
    made_up = [f"value {number}" for number in range(_MOST_STRINGS)]
    strings = [*metric.candidates, *made_up][:_MOST_STRINGS]
    cells = {
        text: [
            set(mechanism.cells_for(text, c)) for c in range(min(mechanism.cohorts, _MOST_COHORTS))
        ]
        for text in strings
    }

    def common(pair: tuple[str, str]) -> int:
        return sum(len(x & y) for x, y in zip(cells[pair[0]], cells[pair[1]], strict=True))

    return min(combinations(strings, 2), key=common)


def draws_for(metric: Metric, reports: int) -> int:
    """Return how many independent draws per value an audit of `reports` reports makes."""
    return reports if metric.memoize is None else max(40, reports // _REPORTS_PER_DEVICE_DRAW)


def collect(
    registry: Registry, metric: Metric, reports: int, processes: int
) -> tuple[Drawn, Drawn]:
    """Draw reports of the two values of `hardest_pair`, in processes of their own."""
    draws = -(-draws_for(metric, reports) // _SLICES)
    jobs = [(registry.text, metric.name, side, draws) for side in (0, 1) for _ in range(_SLICES)]
    with get_context("spawn").Pool(processes, _leave_signals, maxtasksperchild=1) as pool:
        slices = pool.starmap(_draw_slice, jobs, chunksize=1)
    pair = hardest_pair(metric)
    return (
        _described(metric, pair, slices[:_SLICES]),
        _described(metric, pair, slices[_SLICES:]),
    )


def repeats(metric: Metric, value: object, drawn: Drawn, confidence: float) -> bool | None:
    """Say whether two processes drew the same noise for `value`; None if they drew too little."""
    encoded, _ = metric.encode(value)
    return noise_repeats(drawn.slices, collision_chance(metric.mechanism, encoded), confidence)


def cohorts(drawn: Drawn) -> Rows:
    """Return the cohort of each draw's first report, one a row: it must tell nothing at all."""
    return np.array([[cohort] for part in drawn.slices for cohort, _ in part], np.int64)


def _leave_signals() -> None:
    """Ctrl-C is the owner's to handle; it ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _draw_slice(text: str, name: str, side: int, draws: int) -> list[list[Response]]:
    registry = loads(text)
    metric = registry.metrics[name]
    return draw(registry, metric, hardest_pair(metric)[side], draws)


def draw(
    registry: Registry, metric: Metric, value: object, draws: int, coin: Callable[[], Coin] = Coin
) -> list[list[Response]]:
    """Record `value` with the shipped recorder and return the spooled responses of each draw.

    Args:
        registry: Where the metric stands.
        metric: A metric of it.
        value: As a host would record it.
        draws: How many independent draws.
        coin: Makes a device's fresh randomness; tests replace it.
    """
    busy = metric._replace(
        epoch="day",
        starts=_FROM,
        expires=FOREVER,
        every=1,
        sample=Decimal(1),
        when_absent=None,
    )
    roomy = registry._replace(lifetime_epsilon=_ENOUGH_EPSILON, metrics={metric.name: busy})
    with tempfile.TemporaryDirectory(prefix="sottovoce-audit-") as folder:
        if metric.memoize is None:
            reports = _device(Path(folder), roomy, value, draws, coin())
            return [[report] for report in reports]
        return [
            _device(Path(folder) / str(device), roomy, value, REPORTS_OF_ONE_VALUE, coin())
            for device in range(draws)
        ]


def _device(
    directory: Path, registry: Registry, value: object, epochs: int, coin: Coin
) -> list[Response]:
    (metric,) = registry.metrics.values()
    state = State(directory)
    recorder = Recorder(state, registry, 0.0, coin)
    dropped = recorder.store([Pending(metric, e, metric.encode(value)[0]) for e in range(epochs)])
    if dropped:
        raise RuntimeError(f"the recorder dropped {len(dropped)} reports of an audit: {dropped[0]}")
    with state.transaction() as connection:
        spooled = connection.execute("SELECT report FROM spool ORDER BY id").fetchall()
    state.close()
    return [_response(json.loads(text)) for (text,) in spooled]


def _response(report: dict[str, int | str]) -> Response:
    response = report["response"]
    return int(report["cohort"]), int(response, 16) if isinstance(response, str) else response


def _described(
    metric: Metric, pair: tuple[object, object], slices: list[list[list[Response]]]
) -> Drawn:
    draws = [each for part in slices for each in part]
    single = describe(metric, pair, [each[:1] for each in draws])
    together = None if metric.memoize is None else describe(metric, pair, draws)
    return Drawn(single, together, tuple(tuple(each[0] for each in part) for part in slices))


def describe(metric: Metric, pair: tuple[object, object], draws: list[list[Response]]) -> Rows:
    """Return draws as rows that hold what can tell the two values of a pair apart.

    Of a cell: how often it is the one value's alone and the other's alone, and its index in the
    first report.
    Of bit vectors: the bits of the one value's cells, of the other value's, and the number of all
    further ones; cells that a value has in other cohorts only stay 0. Reports of one draw are
    summed. (Leaks through a single further bit are the exact audit's.)
    """
    mechanism = metric.mechanism
    encoded = [metric.encode(value)[0] for value in pair]
    if mechanism.kind == "cell":
        return _cell_rows(mechanism, encoded, draws)
    cohorts = {cohort for each in draws for cohort, _ in each}
    own = {
        cohort: (mechanism.cells_for(encoded[0], cohort), mechanism.cells_for(encoded[1], cohort))
        for cohort in cohorts
    }
    most = [max(len(cells[side]) for cells in own.values()) for side in (0, 1)]
    places = {
        cohort: [*one, *[None] * (most[0] - len(one)), *other, *[None] * (most[1] - len(other))]
        for cohort, (one, other) in own.items()
    }
    rows = []
    for each in draws:
        row = [0] * (sum(most) + 1)
        for cohort, response in each:
            bits = [0 if cell is None else response >> cell & 1 for cell in places[cohort]]
            bits.append(_others(mechanism, response, own[cohort][0] + own[cohort][1]))
            row = [x + y for x, y in zip(row, bits, strict=True)]
        rows.append(row)
    return np.array(rows, np.int64)


def _cell_rows(mechanism: Mechanism, encoded: list[Value], draws: list[list[Response]]) -> Rows:
    @cache
    def alone(cohort: int) -> tuple[frozenset[int], frozenset[int]]:
        one, other = (frozenset(mechanism.cells_for(value, cohort)) for value in encoded)
        return one - other, other - one

    rows = [
        [
            *(sum(cell in alone(cohort)[side] for cohort, cell in each) for side in (0, 1)),
            each[0][1],
        ]
        for each in draws
    ]
    return np.array(rows, np.int64)


def _others(mechanism: Mechanism, response: int, own: tuple[int, ...]) -> int:
    mask = (1 << mechanism.cells) - 1
    for cell in own:
        mask &= ~(1 << cell)
    return (response & mask).bit_count()
