"""What one server process counts of its requests: how long, how large, and why refused.

Everything is read off the answer, so it is what devices were told. Nothing is counted by device,
address or anything else that a request could choose.

Several processes of one server add up through files in PROMETHEUS_MULTIPROC_DIR, which must be set
before this module is imported.
"""

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from flask import Flask, Response, g, request
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.multiprocess import MultiProcessCollector

from aggregator.problems import REFUSALS
from client_sdk.report import DEVICES_PATH, MAX_BATCH_BYTES, PROBLEM_TYPE, REPORTS_PATH

PROBLEM_MEDIA_TYPE = "application/problem+json"
_DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BODY_BYTES = (256, 1024, 4096, 16_384, MAX_BATCH_BYTES)
_BATCH_REPORTS = (1, 2, 5, 10, 20, 50, 100, 256)
_PATHS = (REPORTS_PATH, DEVICES_PATH)


class Meter:
    """The series of one process; made after the fork."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        self.workers = Gauge(
            "ldp_server_workers",
            "Server processes that are running.",
            multiprocess_mode="livesum",
            registry=self.registry,
        )
        self.workers.set(1)
        self.refusals = Counter(
            "ldp_reports_rejected",
            "Reports, and whole uploads and enrolments, that were refused, by reason.",
            ["reason"],
            registry=self.registry,
        )
        for reason in REFUSALS:
            self.refusals.labels(reason)
        self.violations = Counter(
            "dp_sensitivity_violation",
            "Uploads with a valid MAC and a report that its mechanism cannot have made.",
            registry=self.registry,
        )
        self.duration = self._histogram(
            "ldp_upload_duration_seconds", "Time to answer an upload.", _DURATIONS
        )
        self.body = self._histogram(
            "ldp_upload_body_bytes", "Length of uploads with a valid MAC, as sent.", _BODY_BYTES
        )
        self.reports = self._histogram(
            "ldp_upload_batch_reports", "Reports in uploads with a valid MAC.", _BATCH_REPORTS
        )

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self.registry)

    def collect(self) -> Iterable[Metric]:
        """Return the series of this process alone."""
        return self.registry.collect()


def of_all_processes() -> Iterable[Metric]:
    """Return the sums over the processes of this server."""
    found = Path(os.environ["PROMETHEUS_MULTIPROC_DIR"]).glob("*.db")
    files = [str(path) for path in found if _can_be_read(path)]
    series: Iterable[Metric] = MultiProcessCollector.merge(files)
    return series


def _can_be_read(path: Path) -> bool:
    """A process that is starting has empty files for a moment; one that has ended loses some."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False


def watch(app: Flask, meter: Meter, timer: Callable[[], float] = time.perf_counter) -> None:
    """Let a meter see every upload and enrolment.

    Args:
        app: It notes in `flask.g.verified_reports` how many reports an upload has whose MAC is
            right.
        meter: Counts.
        timer: Seconds since anything.
    """

    @app.before_request
    def begin() -> None:
        g.began = timer()

    @app.after_request
    def count(answer: Response) -> Response:
        if request.method == "POST" and request.path in _PATHS:
            kind = _problem(answer)
            if kind in REFUSALS:
                meter.refusals.labels(kind).inc()
            if request.path == REPORTS_PATH:
                meter.duration.observe(timer() - g.began)
                if "verified_reports" in g:
                    _count_verified(meter, g.verified_reports, kind)
        return answer


def _count_verified(meter: Meter, reports: int, kind: str | None) -> None:
    meter.body.observe(request.content_length or 0)
    meter.reports.observe(reports)
    if kind == "malformed":
        meter.violations.inc()


def _problem(answer: Response) -> str | None:
    if answer.mimetype != PROBLEM_MEDIA_TYPE:
        return None
    kind: str = answer.get_json()["type"]
    return kind.removeprefix(PROBLEM_TYPE)
