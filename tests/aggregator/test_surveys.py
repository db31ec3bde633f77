"""A survey lives beside an app in one server: neither silences the other, nor takes its names."""

import os
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import psutil
import pytest
import redis
import requests

from aggregator.administration.admin_log import AdminLog
from aggregator.catalogue import Versions
from aggregator.purposes import (
    for_apps,
    foremost,
    newest_for_apps,
    of_the_foremost,
    require_apart,
    require_no_survey,
    survey_in,
)
from aggregator.recovery.restore import possible_since
from aggregator.server import prepare
from aggregator.settings import ServerSettings, SettingsError
from aggregator.store import Store
from aggregator.survey_files import surveys_in
from client_sdk.epochs import day_of
from client_sdk.errors import RegistryError
from client_sdk.registry import loads
from client_sdk.report import Report, report_to_json
from client_sdk.survey import Question, Survey, SurveyError
from tests.aggregator.conftest import NOW
from tests.aggregator.respondents import Hall
from tests.aggregator.respondents import survey_of as by_invitation
from tests.estimator.surveys import ALONE, LATE, question, survey_of, text_of
from tests.registries import Date, registry, theme

APPS = registry(theme(starts=Date("2026-11-23"), expires=Date("2026-12-07")), lifetime=2)
BEFORE = APPS.replace("2026-11-23", "2026-11-16").replace("2026-12-07", "2026-11-30")
TWICE = question("again", "randomized_response", ["yes", "no"])
SMALL = survey_of(LATE, name="small", most_epsilon=1.0)
LARGE = survey_of(*(question(f"q{i}", "randomized_response", ["yes", "no"]) for i in range(9)))


def answer(question: Question, response: int = 1) -> str:
    metric = question.metric
    return report_to_json(Report(metric.name, metric.fingerprint, 0, 0, response), metric.mechanism)


@pytest.fixture
def both(world: Any) -> Any:
    """A server that asks an app, whose devices may spend 2, and two surveys, for 1 and for 20."""
    world.registry = world.catalogue.register(BEFORE)
    world.catalogue.register(APPS)
    for survey in (SMALL, LARGE):
        world.catalogue.register(survey.registry_text)
    return world


# Caps


def test_a_survey_may_cost_more_than_an_apps_whole_life(both: Any) -> None:
    told = both.charged(both.device(), *(answer(each) for each in LARGE.questions))
    assert told == ["accepted"] * 9


def test_an_apps_devices_are_held_to_the_apps_cap_whatever_a_survey_may_cost(both: Any) -> None:
    device, now = both.device(), both.epoch("theme")
    told = [both.charged(device, both.report("theme", epoch=now - back)) for back in range(3)]
    assert told == [["accepted"], ["accepted"], ["budget_exhausted"]]


def test_a_respondent_is_held_to_what_the_survey_says_not_to_the_larger_cap(both: Any) -> None:
    # Each version alone keeps to 1, and all versions are taken: only the cap holds their sum.
    other = survey_of(TWICE, name="small", most_epsilon=1.0)
    both.catalogue.register(other.registry_text)
    device = both.device()
    assert both.charged(device, answer(SMALL.questions[0])) == ["accepted"]
    assert both.charged(device, answer(other.questions[0])) == ["budget_exhausted"]
    assert both.charged(both.device(), answer(other.questions[0])) == ["accepted"]


def test_each_batch_is_held_to_the_cap_of_what_it_reports() -> None:
    versions = Versions.of([loads(APPS), SMALL.registry, LARGE.registry])
    small, large = SMALL.questions[0].metric.name, LARGE.questions[0].metric.name
    assert versions.cap == versions.cap_for(["theme"]) == 2_000_000
    assert versions.cap_for([small]) == 1_000_000
    assert versions.cap_for([large, LARGE.questions[1].metric.name]) == 20_000_000
    assert versions.cap_for(["theme", large]) == 2_000_000  # mixed: the least
    assert versions.cap_for([small, large]) == 1_000_000
    assert versions.cap_for(["survey.unknown.late"]) == 2_000_000
    assert versions.cheapest == 1_000_000


def test_the_newest_version_of_a_survey_says_what_it_may_cost() -> None:
    more = survey_of(LATE, name="small", most_epsilon=3.0)
    versions = Versions.of([SMALL.registry, more.registry, loads(APPS)])
    assert versions.cap_for(["survey.small.late"]) == 3_000_000
    assert versions.cap == 2_000_000


def test_without_an_app_the_ledger_is_told_of_the_largest_survey() -> None:
    versions = Versions.of([LARGE.registry, SMALL.registry])
    assert (versions.cap, versions.cheapest) == (20_000_000, 0)
    assert versions.cap_for(["survey.small.late"]) == 1_000_000


def test_a_restored_store_charges_no_app_device_for_a_survey() -> None:
    metrics = Versions.of([loads(APPS), LARGE.registry]).metrics.values()
    apps_alone = Versions.of([loads(APPS)]).metrics.values()
    assert possible_since(metrics, {}, NOW) == possible_since(apps_alone, {}, NOW)


# The reserved prefix


def test_an_apps_file_may_not_use_the_names_of_surveys(both: Any, tmp_path: Path) -> None:
    alone = APPS.replace("metrics.theme", 'metrics."survey.habits.theme"')
    mixed = APPS.replace("= 2\n", "= 4\n") + "[metrics" + alone.partition("[metrics")[2]
    with pytest.raises(RegistryError, match=r"must not begin with survey\. here"):
        both.catalogue.register(mixed)
    assert mixed not in both.store.registries.texts()
    path = tmp_path / "metrics.toml"
    path.write_text(alone)
    with pytest.raises(RegistryError, match="come from a survey's own file"):
        prepare(replace(both.settings, metrics_file=path))
    require_no_survey(loads(APPS))


def test_one_version_is_of_one_survey() -> None:
    text = LARGE.registry_text + SMALL.registry_text.split("\n\n", 2)[2]
    assert {"survey.small.late", "survey.habits.q0"} <= set(loads(text).metrics)
    with pytest.raises(RegistryError, match=r"must not begin with survey\."):
        require_apart(loads(text))
    require_apart(LARGE.registry)


def test_a_store_is_shown_by_its_newest_app_and_without_one_by_its_newest_survey() -> None:
    old, new = BEFORE, APPS
    texts = [SMALL.registry_text, old, new, LARGE.registry_text]
    shown, apps = foremost(texts), newest_for_apps(texts)
    assert shown is not None and apps is not None
    assert shown.text == apps.text == new
    assert [each.text for each in of_the_foremost(texts)] == [old, new]
    surveys = [LARGE.registry_text, SMALL.registry_text]
    alone = foremost(surveys)
    assert alone is not None and survey_in(alone) == "small" and not for_apps(alone)
    assert newest_for_apps(surveys) is None
    assert [each.text for each in of_the_foremost(surveys)] == [SMALL.registry_text]
    assert foremost([]) is None and of_the_foremost([]) == []


# Settings


def written(directory: Path, *surveys: Survey) -> tuple[Path, ...]:
    paths = []
    for number, survey in enumerate(surveys):
        path = directory / f"{number}.toml"
        path.write_text(survey.text)
        paths.append(path)
    return tuple(paths)


def test_the_environment_names_several_files(tmp_path: Path) -> None:
    paths = written(tmp_path, SMALL, LARGE)
    named = {"SOTTOVOCE_SURVEYS": os.pathsep.join(map(str, paths)) + os.pathsep}
    settings = ServerSettings.from_env(named)
    assert settings.survey_files == paths
    assert [each.name for each in surveys_in(settings)] == ["small", "habits"]
    assert ServerSettings.from_env({}).survey_files == ()


def test_a_survey_is_named_once(tmp_path: Path) -> None:
    paths = written(tmp_path, SMALL, SMALL)
    with pytest.raises(SettingsError, match="SOTTOVOCE_SURVEYS must name each survey once"):
        surveys_in(ServerSettings(survey_files=paths))


def test_pages_send_plain_uploads_so_these_must_be_taken(tmp_path: Path) -> None:
    settings = ServerSettings(survey_files=written(tmp_path, SMALL), plain_uploads=False)
    with pytest.raises(SettingsError, match="SOTTOVOCE_PLAIN_UPLOADS must be accept while"):
        surveys_in(settings)
    assert surveys_in(replace(settings, survey_files=())) == ()


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(text_of(ALONE).replace("epsilon = 1.0", "epsilon = 0"))
    with pytest.raises(SurveyError, match=r"broken\.toml: questions\.alone"):
        surveys_in(ServerSettings(survey_files=(path,)))
    with pytest.raises(SurveyError, match="absent"):
        surveys_in(ServerSettings(survey_files=(tmp_path / "absent.toml",)))


def test_a_server_registers_its_surveys_and_the_log_says_so(world: Any, tmp_path: Path) -> None:
    settings = replace(world.settings, survey_files=written(tmp_path, SMALL, LARGE))
    for _ in range(2):
        prepare(settings)
    store = Store.connect(settings, world.keys.pseudonym_key)
    texts = store.registries.texts()
    store.close()
    assert texts == [world.registry.text, SMALL.registry_text, LARGE.registry_text]
    log = AdminLog.beside(settings.keys_file, world.keys.pseudonym_key)
    last = log.last("registry_registered")
    assert last is not None and last.details["project"] == "survey habits"


def test_a_later_last_day_keeps_invitations_that_are_out_and_an_earlier_one_ends_none(
    world: Any, tmp_path: Path
) -> None:
    today, day = day_of(NOW), timedelta(days=1)
    late, later = (by_invitation(around=today + n * day) for n in (0, 7))
    hall = Hall(world, around=today)
    assert hall.survey.expires == late.expires < later.expires
    for survey in (later, late, SMALL):
        prepare(replace(world.settings, survey_files=written(tmp_path, survey)))
    world.store.invitations.forget_over(late.expires + day)
    world.now = datetime.combine(later.expires, time(), UTC).timestamp()
    assert hall.enrol(hall.admission(hall.tokens[0])).status_code == 201
    world.store.invitations.forget_over(later.expires + day)
    assert hall.ask(hall.tokens[1], hall.drawn().blinded).status_code == 404
    prepare(replace(world.settings, survey_files=written(tmp_path, later)))  # makes no key
    with redis.Redis.from_url(world.redis_url) as client:
        kept = client.hkeys("{meta}:invitations")
    assert sorted(kept) == [b"habits made", b"habits used"]


def test_a_worker_that_begins_later_asks_what_the_others_ask(
    world: Any, serve: Any, tmp_path: Path
) -> None:
    """Also when the file is being edited: else it would ask what no server has registered."""
    (path,) = written(tmp_path, by_invitation(around=datetime.now(UTC).date()))
    server = serve(world, SOTTOVOCE_SURVEYS=str(path), SOTTOVOCE_WORKERS="1")
    page = requests.get(f"{server.url}/s/habits", timeout=5)
    assert page.status_code == 200
    path.write_text("half a fi")
    (worker,) = psutil.Process(server.process.pid).children()
    worker.kill()
    worker.wait(15)
    deadline = monotonic() + 30
    while True:
        with suppress(requests.RequestException):
            assert requests.get(f"{server.url}/s/habits", timeout=5).text == page.text
            return
        assert server.process.poll() is None and monotonic() < deadline, "no worker came"
        sleep(0.05)
