"""`sottovoce survey serve`, `results` and `export`: a survey from its file to checked figures."""

import csv
import json
import re
import shlex
import socket
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from client_sdk.authentication import MAC_HEADER, batch_mac
from client_sdk.randomness import Coin
from client_sdk.report import DEVICES_PATH, REPORTS_PATH, Report, encode_batch, report_to_json
from client_sdk.survey import Survey, load_survey, loads_survey
from sottovoce import system
from sottovoce.__main__ import main
from sottovoce.commands.survey import ACTS
from sottovoce.commands.up import told_of_survey
from sottovoce.surveys import serve
from sottovoce.surveys.new import starter
from sottovoce.system import free_port, require_port
from tests.estimator.surveys import ILL, LATE, put, survey_of, tally_of, text_of
from tests.registries import Date
from tests.sottovoce.conftest import processes_naming, wait_until

# Alive whenever the tests run; of few people, so that each run sends few reports.
ALIVE = {"starts": Date("2024-01-01"), "expires": Date("2028-12-01"), "min_reports": 5}
LIVING = text_of(LATE, ILL, **ALIVE)
SHARES = {"late": [0.7, 0.3], "ill": [0.5, 0.3, 0.1, 0.1]}


@pytest.fixture
def releases(tmp_path: Path) -> Path:
    directory = tmp_path / "releases"
    directory.mkdir()
    return directory


def told(capsys: Any, *arguments: object, status: int = 0) -> str:
    assert main(["survey", *map(str, arguments)]) == status
    captured = capsys.readouterr()
    return str(captured.out if status == 0 else captured.err)


def respond(endpoint: str, write_key: str, survey: Survey) -> list[str]:
    """Do what a page does after Send: enrol, and send one report per question."""
    bearer = {"Authorization": f"Bearer {write_key}"}
    enrolled = requests.post(f"{endpoint}{DEVICES_PATH}", headers=bearer, timeout=20).json()
    reports = []
    for question in survey.questions:
        metric = question.metric
        mechanism, value = metric.mechanism, metric.encode(question.answers[0].value)[0]
        coin = Coin()
        permanent = mechanism.permanent(value, 0, coin)
        response = mechanism.instantaneous(permanent, coin)
        report = Report(metric.name, metric.fingerprint, 0, 0, response)
        reports.append(report_to_json(report, mechanism))
    body = encode_batch(enrolled["device"], 1, "0" * 32, reports)
    mac = batch_mac(bytes.fromhex(enrolled["key"]), body)
    headers = {MAC_HEADER: mac, "Content-Type": "application/json"}
    answer = requests.post(f"{endpoint}{REPORTS_PATH}", data=body, headers=headers, timeout=20)
    return list(answer.json()["reports"])


def other_than(path: Path) -> Path:
    """Return the file of a survey of another name."""
    other = path.with_name("other.toml")
    other.write_text(path.read_text().replace('"habits"', '"other"'))
    return other


def shown(address: str) -> str:
    """Return a page of the dashboard, once that has started."""
    texts: list[str] = []

    def there() -> bool:
        with suppress(requests.ConnectionError):
            answer = requests.get(address, headers={"Accept": "text/html"}, timeout=20)
            assert answer.status_code == 200, answer.text
            texts.append(answer.text)
        return bool(texts)

    wait_until(there, 60)
    return texts[0]


@pytest.mark.slow
def test_a_survey_is_served_answered_shown_closed_and_exported(
    sottovoce: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    path = tmp_path / "habits.toml"
    path.write_text(LIVING)
    survey = loads_survey(LIVING)
    data = tmp_path / "habits-data"
    closed = tmp_path / "closed.toml"
    closed.write_text(text_of(LATE, ILL, **ALIVE, name="closed", admission="invitation"))
    process = sottovoce(
        "survey", "serve", path, closed, "--data", data, "--port", free_port(), "--workers", 1
    )
    lines = []
    while not (lines and lines[-1].startswith("Ctrl-C")):
        lines.append(process.stdout.readline())
        assert lines[-1], process.stderr.read()
    head, of_habits, of_closed = re.split(r"^survey \w+\n", "".join(lines), flags=re.MULTILINE)
    printed = dict(re.findall(r"^  (\w+(?: key)?) +(.*)$", head + of_habits, re.MULTILINE))
    endpoint = printed["link"].removesuffix("/s/habits")
    assert printed["data"].startswith(f"{data} (")
    assert not {"endpoint", "write key", "ledger", "metrics"} & printed.keys()  # those are of apps
    assert printed["results"] == f"{printed['dashboard']}surveys/habits"
    assert printed["invite"] == "anybody who has the link; until 2028-12-01"
    page = requests.get(f"{printed['link']}?language=en", timeout=20)
    assert page.status_code == 200 and "Habits at work" in page.text
    (write_key,) = re.findall(r'"write_key": "([^"]+)"', page.text)

    assert (data / "surveys" / "habits.toml").read_text() == LIVING  # what all processes read

    monkeypatch.chdir(tmp_path)
    invite = dict(re.findall(r"^  (\w+) +(.*)$", of_closed, re.MULTILINE))["invite"]
    assert main(shlex.split(invite)[1:]) == 0
    links = (tmp_path / "links.csv").read_text().split()[1:]
    assert len(links) == 100
    assert all(link.startswith(f"{endpoint}/s/closed#i=") for link in links)
    invited = "100 made, fewer than 5 of them used"
    assert invited in shown(f"{printed['dashboard']}surveys/closed")
    out = told(capsys, "results", closed, "--data", data)
    assert out.splitlines()[1] == f"Invitations: {invited}"
    out = told(capsys, "results", closed, "--data", data, "--json")
    assert json.loads(out)["invitations"] == invited
    for _ in range(6):
        assert respond(endpoint, write_key, survey) == ["accepted"] * 2

    def so_far() -> list[dict[str, Any]]:
        shown = told(capsys, "results", path, "--data", data, "--json")
        return list(json.loads(shown)["questions"])

    # Once they are folded; a look at five is renewed by ten only.
    wait_until(lambda: all((each["release"] or {"n": None})["n"] for each in so_far()), 60)
    assert {each["stage"] for each in so_far()} == {"so far"}
    assert {each["release"]["n"] for each in so_far()} <= {5, 6}
    results = shown(printed["results"])
    assert "Were you late?" in results and "So far, as of" in results

    assert "has never asked the survey 'other'; its surveys: closed, habits" in told(
        capsys, "results", other_than(path), "--data", data, status=2
    )
    close = printed["close"].partition("before: ")[2]
    assert main(shlex.split(close)[1:]) == 0
    ended = capsys.readouterr()
    assert re.findall(r"^OK +survey\.habits\.(\w+) once", ended.out, re.M) == ["late", "ill"]
    wait_until(lambda: requests.get(printed["link"], timeout=20).status_code == 410, 60)
    assert main(["survey", "close", str(closed), "--data", str(data)]) == 1  # nobody answered
    ended = capsys.readouterr()
    assert re.findall(r"survey\.closed\.(\w+): epoch once is closed", ended.err) == ["late", "ill"]
    assert main(["survey", "close", str(other_than(path)), "--data", str(data)]) == 2
    capsys.readouterr()
    out = told(capsys, "results", path, "--data", data)
    assert out.count("final: 6 reports") == 2
    assert respond(endpoint, write_key, survey) == ["epoch_closed"] * 2
    assert shown(printed["results"]).count("Final: 6 people answered.") == 2
    told(capsys, "export", path, "--data", data, "--out", tmp_path / "r")
    with open(tmp_path / "r" / "responses_ill.csv", newline="") as file:
        assert len(list(csv.DictReader(file))) == 6

    process.terminate()
    process.wait(30)
    wait_until(lambda: not processes_naming(data), 40)


def test_results_are_a_table_with_what_is_impossible_in_words(
    releases: Path, tmp_path: Path, capsys: Any
) -> None:
    survey = survey_of(LATE, ILL)
    path = tmp_path / "habits.toml"
    path.write_text(survey.text)
    late, ill = survey.questions
    low = tally_of(late, [1.0, 0.0], 1000)
    low.counts[0, 0] -= 20
    put(releases, late, low, taken_at=1_796_040_000.0)
    put(releases, ill, tally_of(ill, [0.5, 0.2, 0.1, 0.2], 49))
    out = told(capsys, "results", path, "--releases", releases)
    lines = out.splitlines()
    assert lines[0] == (
        "Habits at work (habits): 2026-11-01 to 2026-12-31, anybody who has the link, "
        "epsilon 2 in all"
    )
    assert "  so far, as of 2026-11-30 12:00 UTC, provisional: 1,000 reports; of 100 people" in out
    assert re.search(r"^Yes +-\d\.\d\d %", out, re.MULTILINE)
    assert "below zero" in out and "above 100 %" in out
    assert "  final: withheld, fewer than 50 reports" in out and "49" not in out
    document = json.loads(told(capsys, "results", path, "--releases", releases, "--json"))
    assert document["questions"][0]["release"]["estimates"][1]["share"] < 0
    assert document["questions"][1]["release"]["n"] is None


def test_non_response_is_told_as_an_estimate(releases: Path, tmp_path: Path, capsys: Any) -> None:
    survey = survey_of(LATE, ILL)
    path = tmp_path / "habits.toml"
    path.write_text(survey.text)
    ill = survey.questions[1]
    put(releases, ill, tally_of(ill, [0.5, 0.2, 0.1, 0.2], 4000))
    out = told(capsys, "results", path, "--releases", releases)
    assert re.search(r"^Non-response: an estimated (19|20)\.\d\d % prefer not to answer;", out, 8)
    assert "no report has been seen yet" in out


def test_an_answer_that_no_report_says_is_not_called_certain(
    releases: Path, tmp_path: Path, capsys: Any
) -> None:
    survey = survey_of(LATE, ILL)
    path = tmp_path / "habits.toml"
    path.write_text(survey.text)
    late, ill = survey.questions
    none = tally_of(ill, [1.0, 0.0, 0.0, 0.0], 60)
    none.counts[0] = [40, 8, 12, 0]
    put(releases, ill, none)
    put(releases, late, tally_of(late, [0.5, 0.5], 60))
    out = told(capsys, "results", path, "--releases", releases)
    assert out.count("is 0 because no report says it, or every one. That is no certainty") == 1
    # How far a true share may reach stands in the interval, and the sentence says it.
    (high,) = re.findall(r"^Once .* to (\d+\.\d\d %) .*$", out, re.MULTILINE)
    assert "“Once” is estimated at −" in out and f"probably below {high}" in out


def test_nothing_is_exported_before_there_is_anything(
    releases: Path, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "habits.toml"
    path.write_text(survey_of(LATE).text)
    where = ("--releases", releases, "--out", tmp_path / "r")
    assert "has no figures yet" in told(capsys, "export", path, *where, status=2)
    assert not (tmp_path / "r").exists()
    absent = tmp_path / "absent"
    error = told(capsys, "results", path, "--releases", absent, status=2)
    assert "is no directory; --data, --releases or SOTTOVOCE_RELEASES names it" in error
    assert "keeps all in habits-data unless told otherwise: --data habits-data" in error


def test_reports_of_other_versions_are_said_to_be_there(
    releases: Path, tmp_path: Path, capsys: Any
) -> None:
    path = tmp_path / "habits.toml"
    late = survey_of(LATE).questions[0]
    put(releases, late, tally_of(late, [0.5, 0.5], 1000))
    text = survey_of(LATE).text
    path.write_text(text)
    assert "other versions" not in told(capsys, "results", path, "--releases", releases)
    path.write_text(text.replace("epsilon = 1.0", "epsilon = 0.9"))
    out = told(capsys, "results", path, "--releases", releases)
    assert "there are also reports of other versions of this question" in out


def test_a_port_that_is_taken_is_said_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(system, "PORT_TRIES", 1)
    path = tmp_path / "habits.toml"
    path.write_text(LIVING)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        error = told(
            *(capsys, "serve", path, "--data", tmp_path / "data", "--port", port), status=2
        )
    assert f"port {port} of 127.0.0.1 is taken" in error and "--port" in error
    assert not (tmp_path / "data").exists()


def test_a_port_that_is_given_back_soon_is_waited_for() -> None:
    taken = socket.create_server(("127.0.0.1", 0))
    timer = threading.Timer(0.3, taken.close)
    timer.start()
    require_port("127.0.0.1", taken.getsockname()[1])
    assert taken.fileno() == -1  # closed before, not after
    timer.join()


@pytest.mark.parametrize(
    ("starts", "expires", "days"),
    [
        (-1, 1, "anybody who has the link; until {1}"),
        (1, 2, "anybody who has the link; not open yet: from {0} (UTC) until {1}"),
        (-2, -1, "anybody who has the link; over: the last day was {1}"),
    ],
)
def test_who_serves_a_survey_is_told_whether_it_is_open(
    starts: int, expires: int, days: str
) -> None:
    today = datetime.now(UTC).date()
    ends = [today + timedelta(days=each) for each in (starts, expires)]
    survey = survey_of(LATE, starts=Date(ends[0]), expires=Date(ends[1]))
    where = ("http://h", "http://h/surveys/habits", Path("habits.toml"), Path("d"))
    assert days.format(*ends) in told_of_survey(survey, *where)


def test_a_new_survey_passes_the_check_and_overwrites_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "sottovoce survey serve Work-2026.toml" in told(capsys, "new", "Work-2026.toml")
    survey = load_survey("Work-2026.toml")
    assert survey.name == "work_2026" and survey.phase(datetime.now(UTC).date()) == "open"
    assert survey.expires - survey.starts == timedelta(days=30)
    told(capsys, "check", "Work-2026.toml", "--strict")
    text = Path("Work-2026.toml").read_text()
    assert "FILE must be new" in told(capsys, "new", "Work-2026.toml", status=2)
    assert Path("Work-2026.toml").read_text() == text


@pytest.mark.parametrize("called", ["2026", "_", "Ö", "a" * 40, "x y.z"])
def test_a_new_survey_has_a_name_whatever_its_file_is_called(called: str) -> None:
    assert loads_survey(starter(called, datetime.now(UTC).date())).name


def test_up_asks_apps_or_people_but_not_nobody(tmp_path: Path, capsys: Any) -> None:
    assert main(["up", "--data", str(tmp_path / "data")]) == 2
    assert "--metrics or --survey must say what is asked" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


def test_a_survey_is_asked_beside_its_file_unless_data_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[tuple[Any, ...]] = []
    monkeypatch.setattr(serve, "keep_running", lambda *each: given.append(each) or 0)
    assert main(["survey", "serve", "a/habits.toml", "b.toml", "--port", "9000"]) == 0
    assert main(["survey", "serve", "b.toml", "--data", "c"]) == 0
    assert [each[2] for each in given] == [Path("habits-data"), Path("c")]
    settings = given[0][1]
    assert settings.survey_files == (Path("a/habits.toml"), Path("b.toml"))
    assert settings.port == 9000 and given[0][0] is None


def test_a_survey_is_not_served_where_plain_uploads_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("SOTTOVOCE_PLAIN_UPLOADS", "refuse")
    path = tmp_path / "habits.toml"
    path.write_text(survey_of(LATE).text)
    error = told(capsys, "serve", path, "--data", tmp_path / "data", status=2)
    assert "SOTTOVOCE_PLAIN_UPLOADS must be accept while SOTTOVOCE_SURVEYS names a survey" in error
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("act", sorted(ACTS))
def test_each_act_says_what_it_does(act: str, capsys: Any) -> None:
    assert act in ACTS
    with pytest.raises(SystemExit) as ended:
        main(["survey", act, "--help"])
    assert ended.value.code == 0 and "usage: sottovoce survey" in capsys.readouterr().out
