"""The privacy page: what one device may spend in its life, what devices have, and what is left."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache

from aggregator.canary import is_canary
from aggregator.connection import StoreRefused, StoreUnavailable
from aggregator.purposes import of_the_foremost
from aggregator.store.ledger_sample import LedgerSample
from client_sdk.epochs import day_of
from client_sdk.metric import Metric
from client_sdk.registry import Registry
from client_sdk.survey import is_survey
from estimator.dashboard.pages.inputs import Inputs
from estimator.dashboard.pages.standing import MOST_SAMPLE_SECONDS, Finding, trouble
from estimator.errors import NotPublishable
from estimator.ledger.fitting import Fit, Life, fullest_life, without_a_report
from estimator.ledger.lifetime import MICRO
from estimator.ledger.spending import MetricSpending, Prices, Sampled, sampled


@dataclass(frozen=True)
class Share:
    """What one metric of the newest file may spend of a life, and whether there is room for it.

    Attributes:
        name: Of the metric.
        reserved: Epsilon.
        part: Of the cap.
        used: Epsilon spent on it so far, on average over devices; None: unknown.
        cost: Epsilon of the next report; of a memoized metric what the first one pays for all.
        memoized: Whether it is paid for once.
        fit: Whether it fits into the fullest life.
        short: How many devices have less left than `cost`, at least and at most; None: unknown.
    """

    name: str
    reserved: float
    part: float
    used: float | None
    cost: float
    memoized: bool
    fit: Fit
    short: tuple[int, int] | None


@dataclass(frozen=True)
class Spend:
    """What all devices together have spent on a metric.

    Attributes:
        name: Of the metric.
        standing: Why the newest file does not have it, in words; empty where it has.
        total: Over all of its versions.
    """

    name: str
    standing: str
    total: MetricSpending


@dataclass(frozen=True)
class Ledger:
    """What the store says.

    Attributes:
        registry: The newest file for apps; without any, a survey's.
        seen: The last look at the devices' ledger; None: there was none yet.
        age: Seconds since it.
        shares: Metrics of the newest file, in its order.
        spends: The same, then metrics that it does not have.
        life: Of a device that has taken part in everything.
        files: Registry versions of that kind.
    """

    registry: Registry
    seen: Sampled | None
    age: float | None
    shares: tuple[Share, ...]
    spends: tuple[Spend, ...]
    life: Life
    files: int

    @property
    def cap(self) -> float:
        """Epsilon that one device may spend."""
        return self.registry.lifetime_micro / MICRO

    @property
    def free(self) -> float:
        """Epsilon of a life that no metric of the newest file reserves."""
        reserved = sum(round(share.reserved * MICRO) for share in self.shares)
        return max(0, self.registry.lifetime_micro - reserved) / MICRO

    @property
    def devices(self) -> int | None:
        """Devices that ever reported; None: nobody has looked."""
        return None if self.seen is None else self.seen.sample.devices

    @property
    def stale(self) -> bool:
        """Whether the last look is older than it should be."""
        return self.age is not None and self.age > MOST_SAMPLE_SECONDS

    @property
    def memoizes(self) -> bool:
        """Whether the two bounds of memoized metrics differ for any metric shown."""
        return any(spend.total.devices_paid is not None for spend in self.spends)

    @property
    def classes(self) -> list[tuple[float, float, int]]:
        """Ends in epsilon of equal classes of what was spent, and the devices in them."""
        if self.seen is None:
            return []
        counts = self.seen.sample.histogram
        width = self.seen.cap / len(counts)
        return [(i * width, (i + 1) * width, count) for i, count in enumerate(counts)]


@dataclass(frozen=True)
class Privacy:
    """The page: the ledger, or why there is none to show."""

    ledger: Ledger | None
    trouble: Finding | None = None


def privacy(inputs: Inputs) -> Privacy:
    """Gather the page; whatever the store answers, there is one."""
    try:
        return Privacy(ledger(inputs))
    except (StoreUnavailable, StoreRefused, NotPublishable) as error:
        return Privacy(None, trouble(error))


def ledger(inputs: Inputs) -> Ledger:
    """Gather what the store says.

    Raises:
        StoreUnavailable, StoreRefused: The store is away, or must not be used.
        NotPublishable: No registry was registered yet.
    """
    source, now = inputs.source, inputs.clock()
    registry = source.newest()
    texts = tuple(source.store.registries.texts())
    files, life = _lived(texts, day_of(now))
    versions = source.catalogue.load()
    sample = source.store.figures.ledger_sample()
    seen = None
    if sample is not None:
        metrics = list(versions.metrics.values())
        reports, sample = _coarse(source.store.figures.folded(), sample, metrics)
        seen = sampled(sample, reports, Prices.of(metrics), versions.cap)
    return Ledger(
        registry=registry,
        seen=seen,
        age=None if sample is None else max(0.0, now - sample.taken_at),
        shares=_shares(registry, seen, life),
        spends=_spends(registry, {} if seen is None else seen.metrics),
        life=life,
        files=files,
    )


def _coarse(
    reports: Mapping[tuple[str, str], int], sample: LedgerSample, metrics: Iterable[Metric]
) -> tuple[Mapping[tuple[str, str], int], LedgerSample]:
    """Round down what is counted of a version to whole multiples of its min_reports.

    Exact, it would tell by subtraction how many reports a withheld release has.
    """
    least: dict[str, int] = {}
    for metric in metrics:
        for name in (metric.fingerprint, metric.channel_hash):
            least[name] = max(1, metric.min_reports, least.get(name, 1))
    payers = {name: n - n % least.get(name, 1) for name, n in sample.payers.items()}
    counted = {key: n - n % least.get(key[1], 1) for key, n in reports.items()}
    return counted, replace(sample, payers=payers)


@lru_cache(maxsize=1)
def _lived(texts: tuple[str, ...], today: date) -> tuple[int, Life]:
    """Work out the fullest life, and with how many files; both change once a day at most."""
    files = of_the_foremost(texts)
    return len(files), fullest_life(files, today)


def _shares(registry: Registry, seen: Sampled | None, life: Life) -> tuple[Share, ...]:
    found = []
    cap = registry.lifetime_micro
    devices = 0 if seen is None else seen.sample.devices
    cheapest = min(metric.charge for metric in registry.metrics.values())
    for metric, fit in zip(registry.metrics.values(), life.fits, strict=True):
        reserved = metric.share(metric.starts)
        used = short = None
        if seen is not None and devices:
            used = seen.metrics[metric.name].epsilon / devices
            short = _short(seen.sample, cap, metric.charge, cheapest)
        found.append(
            Share(
                name=metric.name,
                reserved=reserved / MICRO,
                part=reserved / cap,
                used=used,
                cost=metric.charge / MICRO,
                memoized=metric.memoize is not None,
                fit=fit,
                short=short,
            )
        )
    return tuple(found)


def _short(sample: LedgerSample, cap: int, charge: int, cheapest: int) -> tuple[int, int]:
    """Return how many devices have less left than a charge; those who cannot pay the cheapest one
    are counted themselves."""
    if charge == cheapest:
        return sample.exhausted, sample.exhausted
    least, most = without_a_report(sample.histogram, cap, charge)
    return max(least, sample.exhausted), max(most, sample.exhausted)


def _spends(registry: Registry, totals: Mapping[str, MetricSpending]) -> tuple[Spend, ...]:
    names = [name for name in registry.metrics if name in totals]
    names += [name for name in totals if name not in registry.metrics]
    return tuple(Spend(name, _standing(name, registry), totals[name]) for name in names)


def _standing(name: str, registry: Registry) -> str:
    if name in registry.metrics:
        return ""
    if is_survey(name):
        return "a survey's question"
    return "the operator's canary" if is_canary(name) else "asked no more"
