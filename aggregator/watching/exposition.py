"""GET /metrics: the figures of this server's processes and of the whole store, for Prometheus.

Counters of what happened to reports live in the store and are read at each scrape: restarting
servers loses none, and any number of them count each once.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Metric, make_wsgi_app
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    SummaryMetricFamily,
)

from aggregator.catalogue import Catalogue
from aggregator.connection import StoreRefused, StoreUnavailable
from aggregator.keyring.ages import ages
from aggregator.keyring.keys import KeySource
from aggregator.store import Store
from aggregator.store.figures import ShardFigures
from aggregator.store.ledger_sample import QUANTILES, RATIOS, LedgerSample
from aggregator.store.migrations import newest_schema
from aggregator.store.newest_releases import NewestRelease
from aggregator.store.verdicts import in_words
from aggregator.watching.about import version
from client_sdk.epochs import day_of
from client_sdk.mechanisms import Mechanism
from client_sdk.metric import Metric as RegistryMetric
from client_sdk.report import ACCEPTED, REFUSAL_REASONS

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

METRICS_PATH = "/metrics"
MOST_METRIC_LABELS = 1000
"""With more metrics than that, one series stands for all: a label per metric costs the scraper."""
RESULTS = ("ok", "withheld", "failed")
_SHOWN_DAYS = 31
"""So long after its end what the last release of a metric says is told."""
_REJECTED = "ldp_reports_rejected"


@dataclass(frozen=True, eq=False)  # prometheus_client keeps collectors in a dict
class Figures:
    """Collects everything; a `prometheus_client` collector.

    Attributes:
        processes: The series of all processes of this server.
        free_share: Share of the store's disk that is free, where that is on this machine.
        clock: Unix time in seconds.
    """

    store: Store
    catalogue: Catalogue
    keys: KeySource
    processes: Callable[[], Iterable[Metric]]
    free_share: Callable[[], float] | None = None
    clock: Callable[[], float] = time.time

    def collect(self) -> Iterator[Metric]:
        """Yield all families; of the store only that it is away, if it is."""
        rejected: Metric = CounterMetricFamily(_REJECTED, "")
        for family in self.processes():
            if family.name == _REJECTED:
                rejected = family
            else:
                yield family
        yield _build_info()
        yield from _key_ages(self)
        if self.free_share is not None:
            yield _gauge(
                "ldp_store_disk_free_ratio",
                "Share of the store's disk that is free.",
                self.free_share(),
            )
        try:
            found = list(self._of_the_store(rejected))
        except StoreUnavailable:
            found = [rejected]
        yield _gauge("ldp_redis_up", "Whether the store answers.", len(found) > 1)
        yield from found

    def _of_the_store(self, rejected: Metric) -> Iterator[Metric]:
        shards = self.store.figures.shards()
        counters = in_words(shard.counters for shard in shards)
        for reason in REFUSAL_REASONS:
            rejected.add_sample(f"{_REJECTED}_total", {"reason": reason}, counters[reason])
        rejected.add_sample(f"{_REJECTED}_total", {"reason": "clone_suspected"}, counters["clones"])
        yield rejected
        yield from _batches(counters)
        yield from _folding(counters, shards)
        yield from self._by_metric()
        yield from self._devices()
        yield from self._publishing()
        yield from self._state(shards)

    def _by_metric(self) -> Iterator[Metric]:
        newest = {name: metric for (name, _), metric in self.catalogue.refreshed().metrics.items()}
        yield _accepted(newest, self.store.figures.folded())
        over = day_of(self.clock()) - timedelta(days=_SHOWN_DAYS)
        current = {name for name, metric in newest.items() if metric.expires > over}
        yield from _releases(current, self.store.figures.newest_releases.all())
        if len(newest) <= MOST_METRIC_LABELS:
            noise = GaugeMetricFamily(
                "dp_noise_stddev",
                "Standard deviation of the noise in the share estimated from one report.",
                labels=["metric"],
            )
            for name, metric in newest.items():
                noise.add_metric([name], noise_stddev(metric.mechanism))
            yield noise

    def _devices(self) -> Iterator[Metric]:
        yield CounterMetricFamily(
            "ldp_devices_enrolled", "Devices ever enrolled.", self.store.figures.enrolled()
        )
        sample = self.store.figures.ledger_sample()
        if sample is not None:
            yield from _spending(sample)

    def _publishing(self) -> Iterator[Metric]:
        results, last = self.store.figures.published()
        family = CounterMetricFamily(
            "ldp_publish", "Releases that fell due, by what became of them.", labels=["result"]
        )
        for result in RESULTS:
            family.add_metric([result], results.get(result, 0))
        yield family
        suppressed = CounterMetricFamily(
            "ldp_publish_suppressed", "Releases without numbers, by reason.", labels=["reason"]
        )
        suppressed.add_metric(["min_n"], results.get("withheld", 0))
        yield suppressed
        if last is not None:
            yield _gauge(
                "ldp_publish_last_success_timestamp_seconds",
                "When everything that was due had last been published.",
                last,
            )

    def _state(self, shards: list[ShardFigures]) -> Iterator[Metric]:
        memory = self.store.figures.memory()
        yield _gauge(
            "ldp_redis_used_memory_bytes", "Memory that the store uses.", memory.used_bytes
        )
        yield _gauge(
            "ldp_redis_maxmemory_bytes", "Memory that it may use; 0: no limit.", memory.most_bytes
        )
        if memory.log_written is not None:
            yield _gauge(
                "ldp_redis_aof_last_write_ok",
                "Whether the store's last write to disk went well.",
                memory.log_written,
            )
        size = sum(shard.stream_bytes for shard in shards)
        yield _gauge("ldp_stream_bytes", "Memory of reports that wait to be folded.", size)
        generation = min(shard.generation for shard in shards)
        yield _gauge("ldp_store_generation", "Lowest generation of any shard.", generation)
        yield _gauge(
            "ldp_store_restored",
            "Whether the store was restored from a backup and awaits its recovery.",
            self._is_restored(),
        )

    def _is_restored(self) -> bool:
        try:
            self.store.check_generation()
        except StoreRefused:
            return True
        return False


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, float(value))


def _build_info() -> Metric:
    family = GaugeMetricFamily(
        "ldp_build_info", "What runs here; always 1.", labels=["version", "schema"]
    )
    family.add_metric([version(), str(newest_schema())], 1)
    return family


def _key_ages(figures: Figures) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "ldp_key_age_seconds",
        "Age of the key in use, of read keys the oldest, by kind, where it is known.",
        labels=["kind"],
    )
    for name, age in ages(figures.keys.current(), figures.clock()).items():
        family.add_metric([name], age)
    yield family


def _batches(counters: Counter[str]) -> Iterator[Metric]:
    batches = CounterMetricFamily(
        "ldp_batches", "Uploads that were answered with success, by outcome.", labels=["outcome"]
    )
    batches.add_metric(["accepted"], counters["batches"])
    batches.add_metric(["duplicate"], counters["duplicates"])
    yield batches
    yield CounterMetricFamily(
        "ldp_sequence_gaps",
        "Accepted uploads whose sequence number skips some: they, or their device's ledger record, "
        "were lost.",
        counters["gaps"],
    )
    yield CounterMetricFamily(
        "ldp_erasures",
        "Devices that were erased, at their user's wish or by the operator.",
        counters["erasures"],
    )


def _folding(counters: Counter[str], shards: list[ShardFigures]) -> Iterator[Metric]:
    waiting = counters[ACCEPTED] - counters["folded"] - counters["late"]
    yield _gauge("ldp_fold_lag_reports", "Accepted reports that are in no tally yet.", waiting)
    yield _gauge(
        "ldp_fold_lag_seconds",
        "Age of the oldest report that is in no tally yet.",
        max(shard.oldest_seconds for shard in shards),
    )
    yield CounterMetricFamily("ldp_fold_reports", "Reports added to tallies.", counters["folded"])
    yield CounterMetricFamily(
        "ldp_fold_late_reports",
        "Accepted reports that came to the fold after their epoch was final.",
        counters["late"],
    )
    yield CounterMetricFamily(
        "ldp_fold_cas_lost", "Commits in vain: another folder was faster.", counters["lost"]
    )
    yield SummaryMetricFamily(
        "ldp_fold_duration_seconds",
        "Time from reading reports to committing them.",
        counters["commits"],
        counters["microseconds"] / 1e6,
    )


def _accepted(newest: Mapping[str, RegistryMetric], folded: Counter[tuple[str, str]]) -> Metric:
    family = CounterMetricFamily(
        "ldp_reports_accepted", "Reports accepted and added to tallies.", labels=["metric"]
    )
    if len(newest) > MOST_METRIC_LABELS:
        # An empty label is no label to Prometheus.
        family.add_metric([""], folded.total())
        return family
    total: Counter[str] = Counter()
    for (name, _), count in folded.items():
        total[name] += count
    for name in newest:
        family.add_metric([name], total[name])
    return family


def _releases(current: Set[str], released: Mapping[str, NewestRelease]) -> Iterator[Metric]:
    shown = [released[name] for name in sorted(current & released.keys())]
    yield _gauge(
        "ldp_releases_alarmed",
        "Metrics whose newest release has an alarm.",
        sum(release.alarmed for release in shown),
    )
    widths = GaugeMetricFamily(
        "ldp_estimate_ci_halfwidth_ratio",
        "Half the width of the newest release's widest interval, in shares or parts of a range.",
        labels=["metric"],
    )
    odd = GaugeMetricFamily(
        "ldp_report_popcount_zscore",
        "Standard errors from the number of bits that honest devices set, in the newest release.",
        labels=["metric"],
    )
    for release in shown if len(current) <= MOST_METRIC_LABELS else ():
        if release.halfwidth is not None:
            widths.add_metric([release.metric], release.halfwidth)
        if release.popcount_z is not None:
            odd.add_metric([release.metric], release.popcount_z)
    yield from (widths, odd)


def _spending(sample: LedgerSample) -> Iterator[Metric]:
    yield _gauge(
        "ldp_ledger_scan_timestamp_seconds", "When the ledger was last looked at.", sample.taken_at
    )
    yield _gauge("ldp_devices_active", "Devices that ever reported.", sample.devices)
    yield _gauge(
        "ldp_budget_exhausted_devices",
        "Devices that cannot pay for the cheapest metric any more.",
        sample.exhausted,
    )
    counts = zip(RATIOS, sample.within, strict=True)
    buckets = [(str(ratio), float(count)) for ratio, count in counts]
    yield HistogramMetricFamily(
        "ldp_budget_spent_ratio",
        "Devices by the part of their lifetime budget that they have spent; a snapshot.",
        [*buckets, ("+Inf", float(sample.devices))],
        sample.spent_ratio_sum,
    )
    left = GaugeMetricFamily(
        "dp_budget_remaining",
        "Epsilon that devices have left of their lifetime budget.",
        labels=["statistic"],
    )
    if sample.devices:
        left.add_metric(["mean"], sample.remaining_mean)
    for quantile, epsilon in zip(QUANTILES, sample.remaining, strict=False):
        left.add_metric([f"p{quantile * 100:.0f}"], epsilon)
    yield left


def noise_stddev(mechanism: Mechanism) -> float:
    """Return the standard deviation of the share estimated from one report, for a rare value.

    Divided by sqrt(n) it is the noise of n reports.
    """
    return math.sqrt(mechanism.rare_variance)


def metrics_app(figures: Figures) -> "WSGIApplication":
    """Make the application that serves /metrics, and nothing else."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(figures)
    serve = make_wsgi_app(registry)

    def application(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        if environ["PATH_INFO"] != METRICS_PATH:
            start("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"there is only /metrics here\n"]
        answer: Iterable[bytes] = serve(environ, start)
        return answer

    return application


def on_its_own_port(
    public: "WSGIApplication", metrics: "WSGIApplication", port: int
) -> "WSGIApplication":
    """Serve one application on a TCP port of its own and the other everywhere else.

    Told apart by the socket that a request came through; what its headers say does not matter.
    """

    def application(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        here = environ["gunicorn.socket"].getsockname()
        # A unix socket's name is a text.
        chosen = metrics if isinstance(here, tuple) and here[1] == port else public
        return chosen(environ, start)

    return application
