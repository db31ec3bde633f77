"""The registry's page: what is asked, by whom, until when, at what cost, and in which versions."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from aggregator.purposes import of_the_foremost
from client_sdk.epochs import day_of
from client_sdk.metric import Metric
from client_sdk.registry import Registry
from client_sdk.survey import is_survey
from estimator.dashboard.pages.inputs import Inputs
from estimator.ledger.lifetime import MICRO
from estimator.releases.release import Privacy

SOON_DAYS = 30
_LENGTHS = {"day": "day", "week": "week", "month": "month", "once": "once in a life"}


@dataclass(frozen=True)
class Question:
    """One metric of the newest file, or one that a device may still report by an older one.

    Attributes:
        metric: As the newest version that has it says.
        privacy: What a report costs.
        share: Epsilon reserved for it over a device's life from its start on.
        versions: Fingerprints, oldest first.
        days_left: Until it expires; None: it has no end; 0: it has ended.
    """

    metric: Metric
    privacy: Privacy
    share: float
    versions: tuple[str, ...]
    days_left: int | None

    @property
    def ends_soon(self) -> bool:
        """Whether somebody should decide about it now."""
        return self.days_left is not None and 0 < self.days_left <= SOON_DAYS

    @property
    def answers(self) -> str:
        """What a device can answer, in words."""
        metric = self.metric
        if metric.type == "string":
            return f"a text, looked for among {len(metric.candidates):,} candidates"
        if metric.type == "multi_select":
            return f"at most {metric.most} of {len(metric.labels):,} options"
        if metric.type != "number":
            return f"one of {len(metric.labels):,} values"
        low, high = (f"{end.normalize():,f}" for end in (metric.edges[0], metric.edges[-1]))
        cut = f", in {len(metric.labels):,} buckets" if metric.labels else ""
        return f"a number, counted from {low} to {high}{cut}"

    @property
    def rhythm(self) -> str:
        """How often one device reports, in words."""
        metric = self.metric
        if metric.epoch == "once":
            return _LENGTHS["once"]
        unit = _LENGTHS[metric.epoch]
        often = f"each {unit}" if metric.every == 1 else f"one {unit} in {metric.every}"
        if metric.sample < 1:
            often += f", {100 * float(metric.sample):.3g} % of devices"
        return often


@dataclass(frozen=True)
class Questions:
    """The page.

    Attributes:
        registry: The newest file for apps.
        asked: Its metrics, in file order.
        former: Metrics of older files that the newest has no more; not those of surveys.
        files: How many versions of that file the server keeps.
    """

    registry: Registry
    asked: tuple[Question, ...]
    former: tuple[Question, ...]
    files: int

    @property
    def free(self) -> float:
        """Epsilon of a life that no metric of the newest file reserves."""
        reserved = sum(round(question.share * MICRO) for question in self.asked)
        return max(0, self.registry.lifetime_micro - reserved) / MICRO


def questions(inputs: Inputs) -> Questions:
    """Gather the page.

    Raises:
        StoreUnavailable: The store is away.
        NotPublishable: No registry was registered yet.
    """
    registry = inputs.source.newest()
    today = day_of(inputs.clock())
    versions: dict[str, list[Metric]] = defaultdict(list)
    for metric in inputs.source.metrics():
        versions[metric.name].append(metric)
    asked = [_question(metric, versions[name], today) for name, metric in registry.metrics.items()]
    former = [
        _question(known[-1], known, today)
        for name, known in sorted(versions.items())
        if name not in registry.metrics and not is_survey(name)
    ]
    files = _files(tuple(inputs.source.store.registries.texts()))
    return Questions(registry, tuple(asked), tuple(former), files)


@lru_cache(maxsize=1)
def _files(texts: tuple[str, ...]) -> int:
    return len(of_the_foremost(texts))


def _question(metric: Metric, versions: Sequence[Metric], today: date) -> Question:
    left = None if metric.endless else max(0, (metric.expires - today).days)
    return Question(
        metric,
        Privacy.of(metric),
        metric.share(metric.starts) / MICRO,
        tuple(version.fingerprint for version in versions),
        left,
    )
