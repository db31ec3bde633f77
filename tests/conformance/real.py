"""Real reports: what the client's code makes of an answer, and the server's of uploads."""

import os

import numpy as np

from aggregator.batch import Candidate
from aggregator.catalogue import Versions
from aggregator.fold import summed
from aggregator.group import Group
from aggregator.intake import judge, parse
from aggregator.tally import Tally
from client_sdk import Registry
from client_sdk.metric import Metric
from client_sdk.pending import current_epoch
from client_sdk.randomness import Coin
from client_sdk.recorder import cohort_of_report, permanent_response
from client_sdk.report import MAX_BATCH_REPORTS, Report, encode_batch, report_to_json

NOW = 1_796_083_200.0  # 1 December 2026


def report_of(metric: Metric, answer: object) -> str:
    """What a new device makes of an answer, as the recorder and a fleet do."""
    encoded, _ = metric.encode(answer)
    secret, coin = os.urandom(32), Coin()
    cohort = cohort_of_report(secret, metric, coin)
    if metric.memoize is None:
        permanent = metric.mechanism.permanent(encoded, cohort, coin)
    else:
        permanent = permanent_response(secret, metric, encoded, cohort)
    response = metric.mechanism.instantaneous(permanent, coin)
    epoch = current_epoch(metric, NOW)
    report = Report(metric.name, metric.fingerprint, epoch, cohort, response)
    return report_to_json(report, metric.mechanism)


def tally_of(registry: Registry, metric: Metric, reports: list[str]) -> Tally:
    """What the server makes of uploads: intake, rows, and the fold's sums."""
    versions = Versions.of([registry])
    rows: dict[Group, list[bytes]] = {}
    for start in range(0, len(reports), MAX_BATCH_REPORTS):
        part = reports[start : start + MAX_BATCH_REPORTS]
        batch = judge(parse(encode_batch("a" * 32, 1, "b" * 32, part)), versions, NOW)
        for verdict in batch.verdicts:
            assert isinstance(verdict, Candidate), verdict
            rows.setdefault(verdict.group, []).append(verdict.row)
    ((group, parts),) = rows.items()
    table = np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), -1)
    cohorts, sums = summed(group, table)
    tally = Tally.zero(metric.mechanism)
    tally.reports[cohorts], tally.counts[cohorts] = sums[:, 0], sums[:, 1:]
    return tally
