"""From uploads to a release through the real parts: intake, store, fold, closing, estimate."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from aggregator.app import create_app
from aggregator.catalogue import Catalogue
from aggregator.keyring.keys import Keys
from aggregator.settings import ServerSettings
from aggregator.store import Store
from client_sdk.authentication import MAC_HEADER, batch_mac
from client_sdk.epochs import parse
from client_sdk.report import REPORTS_PATH, Report, encode_batch, report_to_json
from estimator.errors import NotPublishable
from estimator.publish import publish_due, publish_epoch
from estimator.releases.files import read
from estimator.source import StoreSource
from tests.registries import registry, theme

REGISTRY = registry(theme(min_reports=20))
WEEK = parse("week", "2026-W49")


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.fixture
def server(redis_url: str, tmp_path: Path):
    settings = ServerSettings(redis_url=redis_url, keys_file=tmp_path / "keys.json")
    keys = Keys.load_or_create(settings.keys_file)
    store = Store.connect(settings, keys.pseudonym_key)
    store.check()
    yield keys, store
    store.close()


def upload(app, keys, metric, responses) -> list[str]:
    """One device and one upload for each response; returns the verdicts."""
    verdicts = []
    for response in responses:
        device, key = keys.enrol()
        report = Report("theme", metric.fingerprint, WEEK, 0, response)
        body = encode_batch(device, 1, "0" * 32, [report_to_json(report, metric.mechanism)])
        headers = {MAC_HEADER: batch_mac(key, body), "Content-Type": "application/json"}
        answer = app.test_client().post(REPORTS_PATH, data=body, headers=headers)
        verdicts += json.loads(answer.data)["reports"]
    return verdicts


def test_acknowledged_reports_are_in_the_release_and_later_ones_in_none(server, tmp_path):
    keys, store = server
    catalogue = Catalogue(store)
    source, releases = StoreSource(store, catalogue), tmp_path / "releases"
    with pytest.raises(NotPublishable, match="no registry"):
        source.project()
    metric = catalogue.register(REGISTRY).metrics["theme"]
    now = at("2026-12-01T12:00")
    app = create_app(store=store, keys=keys, catalogue=catalogue, clock=lambda: now)
    responses = [0] * 15 + [1] * 10 + [2] * 5
    assert upload(app, keys, metric, responses) == ["accepted"] * 30
    # Nothing is folded yet: closing sees to that.
    assert publish_due(source, releases, now) == []
    (outcome,) = publish_epoch(source, releases, now, "theme", "2026-W49", early=True)
    release = read(outcome.path)
    assert (release.project, release.estimates.n) == ("shop-app", 30)
    assert (release.lifetime.devices, release.lifetime.highest) == (30, 1.0)
    assert release.lifetime.cap == 1000
    p, q = float(metric.mechanism.p_true), float(metric.mechanism.p_false)
    for entry, count in zip(release.estimates.entries, (15, 10, 5), strict=True):
        assert entry.share == pytest.approx((count / 30 - q) / (p - q))
    assert upload(app, keys, metric, [0]) == ["epoch_closed"]
    assert publish_due(source, releases, at("2026-12-10")) == []
    assert source.tally(metric, WEEK).n == 30
