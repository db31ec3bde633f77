"""One metric: its question, its domain, its channel, and what a report of it costs.

A metric maps whatever the host app records into its domain before anything is drawn. That
mapping is total over values of the right type (strangers become the catch-all, numbers are
clamped, NaN and None become `missing`), so that neither a report's existence nor its charge
depends on a value.
"""

import json
import math
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Sequence
from datetime import date, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import Literal, NamedTuple

from client_sdk.epochs import EpochLength, epoch_of
from client_sdk.errors import WrongType
from client_sdk.hashing import sha256
from client_sdk.mechanisms import POSITIONS, Mechanism, Value
from client_sdk.mechanisms.thresholds import floor_threshold, micro, probability

MetricType = Literal["boolean", "category", "ordinal", "number", "string", "multi_select"]
Label = bool | int | str
"""A value of a closed domain as people write it."""

FOREVER = date(9000, 1, 1)
"""When a metric without an end expires; only a memoized one may have none."""

LONGEST_STRING = 1024
"""Characters of a string that take part; what follows is cut off, as a clamp."""

_MOST_SELECTED = 1024  # looked at: a host may hand over a list of millions by mistake
# A host may have set the thread's context to three digits, or to raise at every rounding.
_OWN = Context(prec=60, rounding=ROUND_HALF_EVEN, traps=[])
_MOST_BITS = 256  # of an integer that is still compared: far above any bucket edge


class Memoize(NamedTuple):
    """What one device may spend on remembered responses of a metric.

    Attributes:
        epsilon_permanent: Loss of endlessly many reports of one distinct value.
        distinct_values: How many distinct values are paid for, reserved as a whole.
    """

    epsilon_permanent: Decimal
    distinct_values: int


class _Declared(NamedTuple):
    name: str
    question: str
    type: MetricType
    mechanism: Mechanism
    epsilon: Decimal
    epoch: EpochLength
    starts: date
    expires: date
    sensitivity: str
    owners: tuple[str, ...]
    labels: tuple[Label, ...] = ()
    edges: tuple[Decimal, ...] = ()
    catch_all: int | None = None
    missing: Value = 0
    memoize: Memoize | None = None
    candidates: tuple[str, ...] = ()
    min_reports: int = 100
    grace_days: int = 3
    every: int = 1
    sample: Decimal = Decimal(1)
    when_absent: Value | None = None
    most: int = 0


class Metric(_Declared):
    """A metric as the registry declares it; see docs/registry.md for each key.

    Attributes:
        labels: The closed domain in order, empty for strings and for numbers that are not cut
            into buckets; what estimates are named by.
        edges: For numbers, the inner and outer bucket edges, ascending; without buckets the ends
            of the range.
        missing: Index (or string) that NaN and None are reported as.
        catch_all: Index that values outside the list are reported as.
        grace_days: Days after an epoch's end during which its reports are still accepted.
        every: Each device reports in one of so many epochs.
        sample: Share of devices that take part, in (0, 1].
        when_absent: What is reported for an epoch in which nothing was recorded; None: nothing,
            and estimates are about devices that recorded.
        candidates: For strings, the values that a release looks for.
        most: How many options can be selected, 0 where only one value can be.
    """

    def encode(self, value: object) -> tuple[Value, bool]:
        """Map what the host recorded into the domain.

        Returns:
            The index or string to randomize, and whether the value had to be clamped: it was
            outside the list or the range, or too long.

        Raises:
            WrongType: The value's type cannot answer this metric; says which type was wanted.
        """
        if value is None or _is_nan(value):
            return self.missing, False
        return _ENCODERS[self.type](self, value)

    def decode(self, value: Value) -> object:
        """Return an encoded value as a host could have recorded it: what `encode` undoes."""
        if isinstance(value, str):
            return value
        if self.most:
            return [label for index, label in enumerate(self.labels) if value >> index & 1]
        if self.labels:
            return self.labels[value]
        return number_at(value, self.edges)

    @cached_property
    def index_of(self) -> dict[object, int]:
        """Where each label stands in the domain."""
        return {label: index for index, label in enumerate(self.labels)}

    @cached_property
    def channel_hash(self) -> str:
        """Names everything that shapes the channel; keys permanent responses. 32 hex digits."""
        shape: dict[str, object] = {
            "metric": self.name,
            "type": self.type,
            "labels": list(self.labels),
            "edges": [str(edge) for edge in self.edges],
            "mechanism": self.mechanism.name,
            "parameters": dict(self.mechanism.parameters()),
        }
        if self.most:
            shape["most"] = self.most
        return _digest(shape)[:32]

    @cached_property
    def fingerprint(self) -> str:
        """Names this version of the metric on the wire and in tallies. 16 hex digits."""
        version = {
            "channel": self.channel_hash,
            "epoch": self.epoch,
            "every": self.every,
            "sample": self.sample_threshold,
            "when_absent": self.when_absent,
        }
        return _digest(version)[:16]

    @property
    def endless(self) -> bool:
        """Whether the file names no end."""
        return self.expires == FOREVER

    @property
    def sample_threshold(self) -> int:
        """The sampling rate as a threshold out of 2**64."""
        return floor_threshold(self.sample)

    @property
    def inclusion(self) -> Fraction:
        """The probability that a device reports in a given epoch."""
        return probability(self.sample_threshold) / self.every

    def block_of(self, epoch: int) -> int:
        """Return the block of `every` epochs that an epoch belongs to."""
        return epoch // self.every

    def blocks(self, since: date, until: date) -> int:
        """Return how many blocks share a day with [since, until): the most reports in it."""
        if until <= since:
            return 0
        last = self.block_of(epoch_of(self.epoch, until - timedelta(days=1)))
        return last - self.block_of(epoch_of(self.epoch, since)) + 1

    @cached_property
    def charge(self) -> int:
        """What one report costs, in micro-epsilon; for memoized metrics the reservation, paid
        once with the first report."""
        if self.memoize is None:
            return micro(self.mechanism.epsilon)
        assert self.mechanism.epsilon_permanent is not None
        return micro(self.mechanism.epsilon_permanent, self.memoize.distinct_values)

    def most_reports_in(self, days: int) -> int:
        """Return the most reports that one device can make in any `days` consecutive UTC days."""
        # Enough starting days to meet every way in which a window can lie across epochs.
        period = {"day": 1, "week": 7, "month": 366, "once": 1}[self.epoch] * self.every
        first = max(self.starts, date(1972, 1, 1))
        last = min(self.expires - timedelta(days=1), first + timedelta(days=min(period, 4000)))
        starting = (first + timedelta(days=shift) for shift in range((last - first).days + 1))
        return max(
            self.blocks(day, min(day + timedelta(days=days), self.expires)) for day in starting
        )

    def share(self, since: date) -> int:
        """Return the micro-epsilon that the metric can still spend from a UTC date on."""
        reports = self.blocks(max(self.starts, since), self.expires)
        if self.memoize is not None:
            return self.charge if reports else 0
        return self.charge * reports

    @cached_property
    def change_charge(self) -> int | None:
        """What one report adds to the bound that also covers changes, in micro-epsilon.

        A memoized metric's `charge` compares histories that change at the same times, that is,
        whose reports share memories alike: to return to an earlier value is a change too. Any two
        histories differ per report by at most the loss of the fresh stage (reference 10.3).
        None where there is no bound: the remembered response itself is sent.
        """
        loss = self.mechanism.epsilon_instantaneous
        return None if loss.is_infinite() else micro(loss)


def _digest(shape: object) -> str:
    text = json.dumps(shape, sort_keys=True, separators=(",", ":"))
    return sha256(b"sottovoce metric\x00" + text.encode()).hexdigest()


def _encode_boolean(metric: Metric, value: object) -> tuple[Value, bool]:
    if not isinstance(value, bool):
        raise WrongType(f"{metric.name} takes True, False or None")
    return int(value), False


def _encode_label(metric: Metric, value: object) -> tuple[Value, bool]:
    index = _index_of(metric, value)
    if index is not None:
        return index, False
    return metric.missing if metric.catch_all is None else metric.catch_all, True


def _index_of(metric: Metric, value: object) -> int | None:
    """Return where a label stands, None if it is not in the list."""
    wanted = type(metric.labels[0])
    if isinstance(value, bool) or not isinstance(value, wanted):
        raise WrongType(f"{metric.name} takes {wanted.__name__} or None")
    return metric.index_of.get(str.__str__(value) if isinstance(value, str) else int.__int__(value))


def _encode_number(metric: Metric, value: object) -> tuple[Value, bool]:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise WrongType(f"{metric.name} takes a number or None")
    number = _number_of(value)
    if not metric.labels:
        low, high = metric.edges
        return position(min(max(number, low), high), low, high), not low <= number <= high
    bucket = bisect_right(metric.edges, number) - 1
    last = len(metric.edges) - 2
    outside = bucket < 0 or number > metric.edges[-1]
    return min(max(bucket, 0), last), outside


def position(number: Decimal, low: Decimal, high: Decimal) -> int:
    """Return the place of a number of [low, high], in steps of which the range has POSITIONS."""
    part = _OWN.divide(_OWN.subtract(number, low), _OWN.subtract(high, low))
    return int(_OWN.multiply(part, Decimal(POSITIONS)).to_integral_value(ROUND_HALF_EVEN, _OWN))


def number_at(place: Value, edges: Sequence[Decimal]) -> Decimal:
    """Return the number at a place of the range that `edges` end, as `position` counts them."""
    part = _OWN.divide(Decimal(int(place)), Decimal(POSITIONS))
    return _OWN.fma(part, _OWN.subtract(edges[-1], edges[0]), edges[0])


def _encode_several(metric: Metric, value: object) -> tuple[Value, bool]:
    if isinstance(value, str | bytes) or not isinstance(value, Collection):
        raise WrongType(f"{metric.name} takes a list of values, empty if none applies, or None")
    chosen: set[int] = set()
    strange = False
    for each in islice(value, _MOST_SELECTED):
        index = _index_of(metric, each)
        strange = strange or index is None
        chosen |= set() if index is None else {index}
    # Of too many the first are kept, in the order of the list in the file.
    kept = sorted(chosen)[: metric.most]
    clamped = strange or len(kept) < len(chosen) or len(value) > _MOST_SELECTED
    return sum(1 << index for index in kept), clamped


def _encode_string(metric: Metric, value: object) -> tuple[Value, bool]:
    if not isinstance(value, str):
        raise WrongType(f"{metric.name} takes str or None")
    text = str.__str__(value)
    return normalized(text), len(text) > LONGEST_STRING


def normalized(text: str) -> str:
    """Return the form in which strings are hashed: NFC, cut to 1024 characters."""
    # Cut twice: NFC may lengthen, and the result must be its own normal form.
    return unicodedata.normalize("NFC", text[:LONGEST_STRING])[:LONGEST_STRING]


def _is_nan(value: object) -> bool:
    if isinstance(value, Decimal):
        return Decimal.is_nan(value)
    return isinstance(value, float) and math.isnan(value)


def _number_of(value: int | float | Decimal) -> Decimal:
    """Return the exact number, free of what a subclass makes of comparison.

    Never by way of a float comparison: a host may have made those raise (FloatOperation).
    """
    if isinstance(value, float):
        return Decimal.from_float(value)
    if isinstance(value, Decimal):
        return Decimal(value)
    plain = int.__int__(value)
    if plain.bit_length() > _MOST_BITS:  # converting a million digits would take seconds
        return Decimal("Infinity") if plain > 0 else Decimal("-Infinity")
    return Decimal(plain)


_ENCODERS = {
    "boolean": _encode_boolean,
    "category": _encode_label,
    "ordinal": _encode_label,
    "number": _encode_number,
    "string": _encode_string,
    "multi_select": _encode_several,
}
