"""What arrived and was refused over the last day, from the notes that the fold worker leaves."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from aggregator.store.history import LONGEST_STEP_SECONDS, Note, Step, steps
from client_sdk.epochs import DAY_SECONDS
from estimator.dashboard.pages.inputs import Inputs
from estimator.drawing import Palette, Spec, spec

HOUR_SECONDS = 3600
SLOT_SECONDS = 600
WIDTH, HEIGHT = 560, 240
_MOST_REASONS = 5
_OTHERS = "all others"
_ENROLLED = "enrolled"
COUNTER_OF = {"clone_suspected": "clones"}
"""Names that the store has for reasons, where they differ."""


@dataclass(frozen=True)
class Slot:
    """Ten minutes, or what is known of them.

    Attributes:
        begin: Unix time in seconds.
        accepted: Reports a second; None: unknown, at least in part.
        refused: Reports and uploads a second, by reason.
    """

    begin: float
    accepted: float | None
    refused: Mapping[str, float]


@dataclass(frozen=True)
class Day:
    """The last 24 hours.

    Attributes:
        now: Unix time at its end.
        notes: Oldest first; none: nobody noted anything.
        steps: What happened between each two neighbours.
    """

    now: float
    notes: Sequence[Note]
    steps: Sequence[Step]

    def total(self, counter: str, seconds: float = DAY_SECONDS) -> int | None:
        """Return by how much a counter has grown in the last so many seconds, as far as known.

        None where nothing is known of them.

        Args:
            counter: As in `Figures.counters`, or "enrolled".
            seconds: At most a day.
        """
        grown = [
            _of(after, counter) - _of(before, counter) for before, after in self._known(seconds)
        ]
        return sum(grown) if grown else None

    def known_seconds(self, seconds: float = DAY_SECONDS) -> float:
        """Return of how many of the last so many seconds anything is known."""
        return sum(after.at - before.at for before, after in self._known(seconds))

    @property
    def rate(self) -> float | None:
        """Accepted reports a second by the last two notes; None if they are not of now."""
        if not self.steps or self.now - self.steps[-1].end > LONGEST_STEP_SECONDS:
            return None
        return self.steps[-1].accepted

    @property
    def slots(self) -> list[Slot]:
        """All of the day, oldest first."""
        first = (self.now - DAY_SECONDS) // SLOT_SECONDS
        last = self.now // SLOT_SECONDS
        numbers = range(int(first), int(last) + 1)
        return [self._slot(float(number * SLOT_SECONDS)) for number in numbers]

    def _slot(self, begin: float) -> Slot:
        end = begin + SLOT_SECONDS
        within = [step for step in self.steps if step.begin < end and step.end > begin]
        if not within or any(step.accepted is None for step in within):
            return Slot(begin, None, {})
        passed = sum(step.end - step.begin for step in within)
        refused: dict[str, float] = defaultdict(float)
        accepted = 0.0
        for step in within:
            part = (step.end - step.begin) / passed
            accepted += part * (step.accepted or 0.0)
            for reason, rate in step.refused.items():
                refused[reason] += part * rate
        return Slot(begin, accepted, refused)

    def _known(self, seconds: float) -> Iterator[tuple[Note, Note]]:
        for pair, step in zip(pairwise(self.notes), self.steps, strict=True):
            if step.accepted is not None and step.begin >= self.now - seconds - SLOT_SECONDS / 20:
                yield pair


def day(inputs: Inputs) -> Day:
    """Read the notes of the last day.

    Raises:
        StoreUnavailable: The store is away.
    """
    now = inputs.clock()
    found = inputs.source.store.history.since(now - DAY_SECONDS - LONGEST_STEP_SECONDS)
    notes = [note for note in found if note.at <= now + LONGEST_STEP_SECONDS]
    return Day(now, notes, list(steps(notes)))


def ingest_chart(known: Day, palette: Palette) -> Spec | None:
    """Return the chart of accepted reports; None if nothing is known of the day."""
    slots = [slot for slot in known.slots if slot.accepted is not None]
    rows = [row for slot in slots for row in _stacked(slot, {"accepted": slot.accepted or 0.0})]
    return _chart(known, rows, ["accepted"], [palette.accent], "accepted reports / s", palette)


def refusals_chart(known: Day, palette: Palette) -> Spec | None:
    """Return the chart of refusals, stacked by reason; None if nothing is known of the day."""
    slots = [slot for slot in known.slots if slot.accepted is not None]
    total: dict[str, float] = defaultdict(float)
    for slot in slots:
        for reason, rate in slot.refused.items():
            total[reason] += rate
    seen = sorted(filter(total.get, total), key=lambda reason: -total[reason])
    names = seen[:_MOST_REASONS]
    if len(seen) > len(names):
        names.append(_OTHERS)
    rows: list[dict[str, Any]] = []
    for slot in slots:
        rest = sum(rate for reason, rate in slot.refused.items() if reason not in names)
        rows += _stacked(
            slot, {n: rest if n == _OTHERS else slot.refused.get(n, 0.0) for n in names}
        )
    colours = list(palette.series[: len(names)])
    return _chart(known, rows, names, colours, "refused / s", palette)


def _chart(
    known: Day,
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    colours: Sequence[str],
    title: str,
    palette: Palette,
) -> Spec | None:
    if not any(slot.accepted is not None for slot in known.slots):
        return None
    # To the minute, as notes come: until the next it is the same picture, and not drawn again.
    end = known.now // 60 * 60
    begin = end - DAY_SECONDS
    x = {
        "field": "begin",
        "type": "temporal",
        "title": "UTC",
        "scale": {"type": "utc", "domain": [begin * 1000, end * 1000]},
        "axis": {"format": "%H:%M", "tickCount": 6, "grid": False, "labelOverlap": True},
    }
    y = {
        "field": "high",
        "type": "quantitative",
        "title": title,
        "scale": {"domainMin": 0} if any(row["rate"] for row in rows) else {"domain": [0, 1]},
        "axis": {"tickCount": 4},
    }
    colour: dict[str, Any] = {"value": colours[0] if colours else palette.accent}
    if len(names) > 1:
        colour = {
            "field": "name",
            "type": "nominal",
            "sort": list(names),
            "scale": {"domain": list(names), "range": list(colours)},
            "legend": {"orient": "bottom", "columns": 2, "title": None},
        }
    layers = [
        {
            "data": {"values": list(_gaps(known))},
            "mark": {"type": "rect", "color": palette.quiet, "opacity": 0.25, "clip": True},
            "encoding": {"x": x, "x2": {"field": "end"}},
        },
        {
            "data": {"values": list(rows)},
            "mark": {"type": "rect", "clip": True},
            "encoding": {
                "x": x,
                "x2": {"field": "end"},
                "y": y,
                "y2": {"field": "low"},
                "color": colour,
            },
        },
    ]
    size = {"width": WIDTH, "height": HEIGHT, "autosize": {"type": "fit", "contains": "padding"}}
    return spec({**size, "layer": layers}, palette)


def _stacked(slot: Slot, rates: Mapping[str, float]) -> Iterator[dict[str, Any]]:
    low = 0.0
    for name, rate in rates.items():
        yield _times(slot.begin) | {"name": name, "rate": rate, "low": low, "high": low + rate}
        low += rate


def _gaps(known: Day) -> Iterator[dict[str, Any]]:
    for slot in known.slots:
        if slot.accepted is None:
            yield _times(slot.begin)


def _times(begin: float) -> dict[str, Any]:
    return {"begin": begin * 1000, "end": (begin + SLOT_SECONDS) * 1000}


def _of(note: Note, counter: str) -> int:
    return (
        note.enrolled
        if counter == _ENROLLED
        else note.counters.get(COUNTER_OF.get(counter, counter), 0)
    )
