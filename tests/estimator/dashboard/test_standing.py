"""Whether the system does its work: each finding is provoked, and names a section that exists."""

import ast
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from aggregator.keyring.key_file import KeyFile
from aggregator.keyring.keys import Keys
from aggregator.recovery.witness import Witness
from aggregator.store.layout import COUNTERS, SHAPE
from estimator.dashboard.pages import standing as module
from estimator.dashboard.pages.inputs import Inputs
from estimator.dashboard.pages.standing import Standing, standing
from estimator.dashboard.published import Published
from estimator.dashboard.shelf import Shelf
from estimator.publish_figures import note
from estimator.releases import failures
from tests.aggregator.conftest import NOW
from tests.estimator.dashboard.conftest import ROOT, Desk


def looked(desk: Desk, **changes: Any) -> Standing:
    keys = KeyFile(desk.world.settings.keys_file)
    shelf = Shelf(changes.pop("releases", desk.releases))
    given: dict[str, Any] = {"source": desk.source, "keys": keys, "clock": lambda: desk.world.now}
    log: Any = None  # the standing does not read it
    return standing(Inputs(published=Published(shelf), log=log, **given | changes))


@pytest.fixture
def sound(desk: Desk) -> Desk:
    """A system in which nothing is wrong."""
    note(desk.world.store.figures, [], NOW - 20)
    return desk


def client(desk: Desk) -> "redis.Redis":
    return redis.Redis.from_url(desk.world.redis_url)


def only(found: Standing) -> str:
    """The one finding, in words."""
    (finding,) = found.findings
    return f"{finding.what} {finding.do}"


def test_nothing_wrong_is_healthy(sound: Desk) -> None:
    found = looked(sound)
    assert (found.word, found.findings, found.reached) == ("healthy", (), True)
    assert found.registry is not None and found.registry.text == sound.world.registry.text


def test_every_finding_names_a_section_of_the_operators_manual() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "docs" / "operations.md").read_text(), re.M)
    calls = [
        node
        for node in ast.walk(ast.parse(Path(module.__file__).read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding"
    ]
    named = {ast.literal_eval(call.args[3]) for call in calls}
    assert len(calls) >= 15 and named <= set(headings)


def test_a_store_that_is_away_is_told_and_asked_once(sound: Desk) -> None:
    found = looked(sound, source=sound.away())
    assert (found.word, found.registry, found.reached) == ("not publishing", None, False)
    assert only(found).startswith("The store cannot be reached")


def test_a_store_that_may_evict_is_told(sound: Desk) -> None:
    with client(sound) as store:
        store.config_set("maxmemory-policy", "allkeys-lru")
        try:
            found = looked(sound)
        finally:
            store.config_set("maxmemory-policy", "noeviction")
    assert found.word == "not publishing" and found.reached
    assert "maxmemory-policy must be noeviction" in only(found)


def test_a_restored_store_is_told(sound: Desk) -> None:
    sound.world.store.raise_generation(NOW)
    Witness.beside(sound.world.settings.keys_file).remember(7)
    assert "it was restored from a backup" in only(looked(sound))


def test_a_store_of_another_version_is_told(sound: Desk) -> None:
    with client(sound) as store:
        store.hset(SHAPE, "schema", 99)
    assert "written by a newer version" in only(looked(sound))


def test_a_store_without_a_registry_is_told(sound: Desk) -> None:
    with client(sound) as store:
        store.delete(*[key for key in store.scan_iter("*regist*")])
    assert only(looked(sound)).startswith("Nothing is asked yet")


def test_reports_that_nobody_folds_are_told(sound: Desk) -> None:
    sound.world.charged(sound.world.device(), sound.world.report("theme"))
    real = sound.world.store.figures
    assert looked(sound).word == "healthy"  # just sent
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(real), "oldest_seconds", lambda self: 61.0)  # a minute is long
        found = looked(sound)
    assert found.word == "not publishing" and "waited for 1 minute" in only(found)


def test_a_schedule_that_never_passed_or_stopped_is_told(desk: Desk) -> None:
    assert "has not passed without a failure yet" in only(looked(desk))
    note(desk.world.store.figures, [], NOW - 599)
    assert looked(desk).word == "healthy"
    desk.world.now += 2
    found = looked(desk)
    assert found.word == "not publishing" and "for 10 minutes" in only(found)


def test_a_store_that_fills_up_is_told(sound: Desk) -> None:
    with client(sound) as store:
        before = store.config_get("maxmemory")["maxmemory"]
        used = store.info("memory")["used_memory"]
        store.config_set("maxmemory", int(used * 1.1))
        try:
            found = looked(sound)
        finally:
            store.config_set("maxmemory", before)
    assert found.word == "degraded" and "of its memory" in only(found)


def test_a_store_that_cannot_write_to_its_disk_is_told(
    sound: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = sound.world.store.figures
    failed = replace(figures.memory(), log_written=False)
    monkeypatch.setattr(type(figures), "memory", lambda self: failed)
    assert "last write to its disk failed" in only(looked(sound))


def survey(desk: Desk, cheapest: int, at: float) -> None:
    for _ in range(5):
        desk.world.charged(desk.world.device(), desk.world.report("theme"))
    desk.world.folder.fold_once()
    desk.world.store.figures.sample_ledger(
        cap=1_000_000, cheapest=cheapest, now=at, sample=lambda numbers, k: list(numbers)[:k]
    )


def test_a_look_at_the_ledger_that_is_old_is_told(sound: Desk) -> None:
    survey(sound, 0, NOW - 3590)
    assert looked(sound).word == "healthy"
    sound.world.now += 20
    found = looked(sound)
    assert found.word == "degraded" and "last looked at 1 hour ago" in only(found)


def test_devices_without_budget_are_told(sound: Desk) -> None:
    survey(sound, 1_000_000, NOW)
    found = looked(sound)
    assert found.word == "degraded" and only(found).startswith("100% of devices can pay for no")


def test_a_directory_of_releases_that_is_missing_is_told(sound: Desk) -> None:
    found = looked(sound, releases=sound.releases / "nowhere")
    assert found.word == "not publishing" and "does not exist" in only(found)


def test_failed_releases_are_told_five_by_name(sound: Desk) -> None:
    for number in range(7):
        failures.note(sound.releases, f"m{number}", "2026-W47", [("", "full disk")], NOW)
    found = looked(sound)
    told = [finding.what for finding in found.findings]
    assert found.word == "not publishing" and len(told) == 6
    assert told[0] == "m0 2026-W47 could not be published: full disk."
    assert told[-1] == "2 more releases could not be published."


def test_a_disk_that_fills_up_is_told_and_one_that_cannot_be_looked_at_is_not(sound: Desk) -> None:
    assert looked(sound, free_share=lambda: 0.2).word == "healthy"
    found = looked(sound, free_share=lambda: 0.19)
    assert found.word == "degraded" and "19% free" in only(found)

    def gone() -> float:
        raise OSError("gone")

    assert looked(sound, free_share=gone).word == "healthy"


@pytest.mark.parametrize(("days", "word"), [(364, "healthy"), (366, "degraded")])
def test_a_key_that_is_older_than_a_year_is_told(sound: Desk, days: int, word: str) -> None:
    made = datetime.fromtimestamp(NOW, UTC).date() - timedelta(days=days)
    found = looked(sound, keys=Keys.fresh(made))
    assert found.word == word
    assert [finding.do for finding in found.findings] == (
        []
        if word == "healthy"
        else [
            f"Replace it: `sottovoce keys rotate {kind}`."
            for kind in ("master", "write", "signing")
        ]
    )


def test_what_keeps_releases_back_is_told_first(desk: Desk) -> None:
    found = looked(desk, free_share=lambda: 0.1)
    assert [finding.publishing for finding in found.findings] == [True, False]
    assert found.word == "not publishing"
    with client(desk) as store:
        assert not store.hget(COUNTERS, "published_at")
