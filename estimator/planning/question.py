"""A question as a planner knows it: what is asked, of how many devices, at which price.

It becomes a table of metrics.toml, and that a metric, by the same rules that devices apply: what
cannot be declared cannot be planned.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import Any, Self

from client_sdk.declaration import Table, metric_from
from client_sdk.epochs import EpochLength
from client_sdk.mechanisms import CATALOGUE
from client_sdk.metric import Label, Memoize, Metric, MetricType

NAME = "planned"
LEVEL = 0.95
LEAST_SHARE, LARGEST_SHARE = 0.01, 0.05
"""Between them lies the smallest share that matters, unless somebody says it."""
COMMON_SHARE = 0.3
MOST_DEVICES = 10**12
LEAST_ASKED = 1e-9
"""Smaller shares and errors are never to be seen: not with so many devices."""
LEAST_LEVEL = 0.5
_STARTS, _EXPIRES = date(2026, 1, 1), date(2027, 1, 1)


@dataclass(frozen=True)
class Question:
    """What a team wants to know, and what it is ready to spend.

    Attributes:
        type: As in metrics.toml.
        epsilon: Loss of one report.
        devices: That are there in an epoch; `reports` of them have their turn and take part.
        values: The list, of a category, an ordinal or several options; empty for other types.
        most: Of several options, how many can be selected.
        range: Ends of a number.
        buckets: Of a number; 0 if only its mean is asked for.
        candidates: Strings to look for.
        memoize: What may be remembered, None for fresh noise on each report.
        mechanism: A mechanism or its table; None compares all that can answer.
        epoch: How often it is asked.
        every: A device reports in one of so many epochs.
        sample: Part of the devices that take part.
        share: The smallest share that matters; None for a usual one, see `smallest_share`.
        common: A share that stands for those of common values.
        level: Of intervals and decisions.
    """

    type: MetricType
    epsilon: Decimal
    devices: int
    values: tuple[Label, ...] = ()
    most: int = 0
    range: tuple[Decimal, Decimal] | None = None
    buckets: int = 0
    candidates: tuple[str, ...] = ()
    memoize: Memoize | None = None
    mechanism: str | Mapping[str, Any] | None = None
    epoch: EpochLength = "week"
    every: int = 1
    sample: Decimal = Decimal(1)
    share: float | None = None
    common: float = COMMON_SHARE
    level: float = LEVEL

    def __post_init__(self) -> None:
        if self.devices < 1:
            raise ValueError(f"devices must be at least 1, got {self.devices}")
        if self.devices > MOST_DEVICES:
            raise ValueError("devices must be at most 1,000,000,000,000, got more")
        for name, least in (
            ("share", LEAST_ASKED),
            ("common", LEAST_ASKED),
            ("level", LEAST_LEVEL),
        ):
            given = getattr(self, name)
            if given is not None and not least <= given < 1:
                raise ValueError(
                    f"{name} must lie between 0 and 1, at least {least:g}, got {given}"
                )
        if self.type == "number" and (self.buckets < 0 or self.buckets == 1):
            raise ValueError(
                f"buckets must be at least 2, or 0 for a mean alone, got {self.buckets}"
            )
        if self.type == "string" and not self.candidates:
            raise ValueError("candidates must name at least one string to look for, got none")

    @classmethod
    def of(cls, metric: Metric, devices: int) -> Self:
        """The question that a metric asks, whatever its mechanism."""
        number = metric.type == "number"
        return cls(
            type=metric.type,
            epsilon=metric.epsilon,
            devices=devices,
            values=() if metric.type in ("boolean", "number") else metric.labels,
            most=metric.most,
            range=(metric.edges[0], metric.edges[-1]) if number else None,
            buckets=len(metric.labels) if number else 0,
            candidates=metric.candidates,
            memoize=metric.memoize,
            epoch=metric.epoch,
            every=metric.every,
            sample=metric.sample,
        )

    @property
    def inclusion(self) -> Fraction:
        """The probability that a device reports in an epoch."""
        return Fraction(self.sample) / self.every

    @property
    def reports(self) -> float:
        """Reports to expect of an epoch."""
        return float(self.devices * self.inclusion)

    @property
    def listed(self) -> int:
        """How many values are estimated: of a list, of buckets, of candidates; 0: a mean alone."""
        if self.type == "boolean":
            return 2
        return len(self.values) or self.buckets or len(self.candidates)

    @property
    def smallest_share(self) -> float:
        """The smallest share that matters: unless it was said, the even one, within bounds."""
        if self.share is not None:
            return self.share
        even = 1 / max(self.listed, 1)
        return min(max(even, LEAST_SHARE), LARGEST_SHARE)

    def table(self, mechanism: str | Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the keys of metrics.toml that shape the channel."""
        table: dict[str, Any] = {"type": self.type, "epsilon": self.epsilon, "epoch": self.epoch}
        if self.type in ("category", "ordinal", "multi_select"):
            table["values"] = list(self.values)
        if self.type == "category":
            table["catch_all"] = self.values[-1]
        if self.type == "ordinal":
            table["missing"] = self.values[0]
        if self.type == "multi_select" and self.most:
            table["most"] = self.most
        if self.type == "number":
            low, high = self.range or (Decimal(0), Decimal(1))
            table |= {"range": [low, high], "missing": low}
            if not measures_mean(mechanism):
                table["buckets"] = self.buckets
        if self.type == "string":
            table["candidates"] = list(self.candidates)
        if self.memoize is not None:
            table["memoize"] = self.memoize._asdict()
        if mechanism is not None:
            table["mechanism"] = mechanism
        return table | {"every": self.every, "sample": self.sample}

    def metric(self, mechanism: str | Mapping[str, Any] | None = None) -> Metric:
        """Return the metric that a file with this question would declare.

        Args:
            mechanism: Its name, or a table with name and options; None for the default.

        Raises:
            RegistryError: No file could.
        """
        told: dict[str, Any] = {"question": "planned", "sensitivity": "product"}
        told |= {"starts": _STARTS, "expires": _EXPIRES}
        with localcontext(Context(prec=28)):
            return metric_from(NAME, Table("", told | self.table(mechanism)), "planner")

    def at(self, epsilon: Decimal) -> Self:
        """The same question at another price; what is remembered keeps its own, if it has one."""
        memoize = self.memoize
        if memoize is not None and memoize.epsilon_permanent == self.epsilon:
            memoize = memoize._replace(epsilon_permanent=epsilon)
        return replace(self, epsilon=epsilon, memoize=memoize)

    def with_values(self, values: int) -> Self:
        """The same question over so many values."""
        if self.type == "number":
            return replace(self, buckets=values)
        if self.type == "string":
            return replace(self, candidates=self.candidates[:values])
        return replace(self, values=self.values[:values], most=min(self.most, values))


def measures_mean(mechanism: str | Mapping[str, Any] | None) -> bool:
    """Return whether a mechanism takes a number as it is, without buckets."""
    name = mechanism.get("name") if isinstance(mechanism, Mapping) else mechanism
    return isinstance(name, str) and name in CATALOGUE and CATALOGUE[name].encodes == "number"


def made_up(kind: str, count: int) -> tuple[str, ...]:
    """Return stand-ins for values that are not written down yet."""
    return tuple(f"{kind} {number}" for number in range(1, count + 1))
