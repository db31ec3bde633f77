"""The catalogue: every registry version that the server was ever given.

Apps in the field run old files, so a report is judged by the version that its fingerprint names.
Versions are only ever added. Where several describe one fingerprint the newest does, except that
it is accepted as long as any of them accepts it.
"""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from aggregator.administration.record import Record, unrecorded
from aggregator.connection import StoreUnavailable
from aggregator.purposes import for_apps, require_apart, survey_in
from aggregator.store import Store
from aggregator.terms import Terms
from client_sdk.metric import Metric
from client_sdk.registry import Registry, loads
from client_sdk.survey import survey_of

LOOK_SECONDS = 10.0
"""The longest that a process goes by versions which are no longer all."""


@dataclass(frozen=True)
class Versions:
    """All metrics of all versions, at one moment.

    Attributes:
        metrics: (name, fingerprint) -> metric.
        names: Names of all metrics.
        cap: Lifetime cap of a device in micro-epsilon, from the newest version for apps; without
            any the largest of `survey_caps`, or 0.
        cheapest: Least micro-epsilon that a first report of any metric costs in that version; 0
            without any.
        by_invitation: Name of a metric -> the survey to which a device must be admitted to report
            it. If one version asks for that, all versions of the metric do.
        survey_caps: What a respondent may spend at most, by survey, from its newest version.
    """

    metrics: Mapping[tuple[str, str], Metric]
    names: frozenset[str]
    cap: int
    cheapest: int
    by_invitation: Mapping[str, str]
    survey_caps: Mapping[str, int]
    _terms: dict[tuple[str, str, int], Terms] = field(default_factory=dict, repr=False)

    def terms(self, name: str, fingerprint: str, epoch: int, now: float) -> Terms | None:
        """Return what a report must be and costs, None if its metric is unknown here.

        Args:
            now: Unix time in seconds. Only the terms of epochs that have begun are kept, so that
                what devices claim does not decide how many there are.
        """
        key = (name, fingerprint, epoch)
        terms = self._terms.get(key)
        if terms is None:
            metric = self.metrics.get((name, fingerprint))
            if metric is None:
                return None
            terms = Terms.of(metric, epoch)
            if terms.in_life and terms.begins <= now:
                self._terms[key] = terms
        return terms

    def cap_for(self, names: Iterable[str]) -> int:
        """Return what a device may have spent in its life once it has reported these metrics.

        A batch is held to the cap of what it reports: a survey's own to its `most_epsilon`, which
        is all that its page promises, and an app's to the app's, whichever is larger. So neither
        lets a device spend more than it was told, and neither silences the other: a respondent
        reports nothing but one survey, and an app nothing of any. A batch that mixes them is no
        client's of ours, and is held to the least cap in it.
        """
        if not self.survey_caps:
            return self.cap
        surveys = set(map(survey_of, names))
        return min((self.survey_caps.get(name or "", self.cap) for name in surveys), default=0)

    @classmethod
    def of(cls, registries: Iterable[Registry]) -> "Versions":
        """Merge registries, oldest first."""
        metrics: dict[tuple[str, str], Metric] = {}
        by_invitation: dict[str, str] = {}
        cap = cheapest = 0
        survey_caps: dict[str, int] = {}
        for registry in registries:
            if registry.by_invitation is not None:
                by_invitation |= dict.fromkeys(registry.metrics, registry.by_invitation)
            survey = survey_in(registry)
            if survey is not None:
                survey_caps[survey] = registry.lifetime_micro
            if for_apps(registry):
                cap = registry.lifetime_micro
                cheapest = min(metric.charge for metric in registry.metrics.values())
            for metric in registry.metrics.values():
                key = (metric.name, metric.fingerprint)
                known = metrics.get(key, metric)
                metrics[key] = metric._replace(
                    starts=min(known.starts, metric.starts),
                    expires=max(known.expires, metric.expires),
                )
        names = frozenset(name for name, _ in metrics)
        cap = cap or max(survey_caps.values(), default=0)
        frozen = MappingProxyType(metrics), names, cap, cheapest
        return cls(*frozen, MappingProxyType(by_invitation), MappingProxyType(survey_caps))


class Catalogue:
    """The store's registry versions, kept at hand; safe for threads.

    Args:
        store: What keeps them.
        record: Told of each new version.
        monotonic: Seconds since any moment.
    """

    def __init__(
        self,
        store: Store,
        record: Record = unrecorded,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._record = record
        self._monotonic = monotonic
        self._looked_at = -LOOK_SECONDS
        self._lock = threading.Lock()
        self._versions = Versions.of(())
        self._parsed: dict[str, Registry] = {}

    def register(self, text: str) -> Registry:
        """Add a version, if it is new, and load all.

        The administrators' log says so before, with what each metric charges.

        Raises:
            RegistryError: The text is no valid registry; nothing is added.
            StoreUnavailable: The store cannot be reached.
        """
        registry = loads(text)
        require_apart(registry)
        if text not in self._store.registries.texts():
            self._record(
                "registry_registered",
                digest=registry.digest,
                project=registry.project,
                lifetime_epsilon=registry.lifetime_micro / 1e6,
                metrics={name: metric.charge / 1e6 for name, metric in registry.metrics.items()},
            )
        self._store.registries.add(registry.digest, text)
        self.load()
        return registry

    def load(self) -> Versions:
        """Read all versions from the store."""
        with self._lock:
            return self._load()

    def current(self) -> Versions:
        """Return the versions at hand, at most ten seconds behind the store's.

        A newer version may say something else about what is known here: cap, lives of metrics.
        """
        now = self._monotonic()
        if self._versions.names and now - self._looked_at < LOOK_SECONDS:
            return self._versions
        self._looked_at = now  # before it is asked: other threads go on with what is at hand
        try:
            return self.refreshed()
        except StoreUnavailable:
            if not self._versions.names:
                raise
            return self._versions  # in a cluster, other servers may be there to take reports

    def refreshed(self) -> Versions:
        """Return the versions, read anew if the store has more of them.

        For a report that would be refused: another process may have registered a moment ago what
        lets it in. Devices can send as many of those as they like, so asking must be cheap:
        versions are only ever added, so their number tells.
        """
        with self._lock:
            if self._store.registries.count() == len(self._parsed):
                return self._versions
            return self._load()

    def _load(self) -> Versions:
        texts = self._store.registries.texts()
        self._parsed = {text: self._parsed.get(text) or loads(text) for text in texts}
        self._versions = Versions.of(self._parsed.values())
        return self._versions
