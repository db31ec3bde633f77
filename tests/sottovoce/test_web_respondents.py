"""A survey of 2,000 respondents: node runs what their pages run, the real server counts them.

Who answers what is drawn once, with a fixed seed, so all that is left to chance is the noise of
the browser module. Its law is exact: whoever holds an answer speaks for it with probability p,
everybody else with probability q, so Bin(holders, p) + Bin(others, q) reports do. How often a right
server and a right browser fail here is summed over that law, without approximation.
"""

import json
import re
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from aggregator.settings import ServerSettings
from aggregator.tally import Tally
from client_sdk.survey import PREFER_NOT, Odds, Question, Survey, loads_survey, page_document
from estimator.debias import Channel
from estimator.estimate import estimate
from estimator.estimates import Estimates
from estimator.publish import publish_epoch
from estimator.releases.files import read
from estimator.releases.release import Release
from estimator.source import StoreSource
from estimator.uncertainty import simultaneous_interval, variance_reporters
from sottovoce.system import free_port, running
from tests.javascript import laid_out, node
from tests.surveys import question, toml

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "web" / "respondents.js"
HABITS = ROOT / "examples" / "surveys" / "habits.toml"

N = 2000
AGAIN, TWICE = 5, 7
"""Who sends the same bytes again, and who makes a second batch of the same reports."""
LEVEL = 1 - 2e-8
"""Of the intervals of one question, all its answers together."""
SIGMAS = 5.9
"""Standard errors of the noise that an estimate may lie from the truth."""
ODDS_LEVEL = 1e-8
"""Of each comparison with what the page says of 100 people."""
COINS_LEVEL = 1e-8
"""Of each pair of questions."""
POPCOUNT_LEVEL = 1e-9
"""Of the number of ticks in the reports of each question; by the chi-square law."""
MOST_FALSE_ALARMS = 1e-6
"""Of one run."""

SHARES = {
    "ever_late": (0.3, 0.7),
    "work_when_ill": (0.6, 0.3, 0.1),
    "main_way": (0.05, 0.1, 0.25, 0.4, 0.1, 0.03, 0.07),
    "worst_day": (0.5, 0.2, 0.15, 0.05, 0.0, 0.1),
    "asleep": (0.15, 0.55, 0.2, 0.1),
}
"""Of the answers, in the order of the page; last those who prefer not to answer, where they may."""


def asked() -> Survey:
    """The example, open since yesterday, and two questions more whose reports are ticks."""
    document = tomllib.loads(HABITS.read_text())
    document["survey"] |= {
        "starts": date.today() - timedelta(days=1),
        "expires": date.today() + timedelta(days=30),
        "most_epsilon": 8.0,
    }
    days = ("monday", "tuesday", "wednesday", "thursday", "friday")
    document["questions"] += [
        _in_german_too(question("worst_day", *days, mechanism="optimized_unary", epsilon=2.0)),
        _in_german_too(
            question("asleep", "often", "seldom", "never", mechanism="symmetric_unary", epsilon=1.5)
        ),
    ]
    return loads_survey(toml(document))


def _in_german_too(stated: dict[str, Any]) -> dict[str, Any]:
    for texts in (stated["text"], *stated["answers"].values()):
        texts["de"] = texts["en"]
    return stated


@dataclass(frozen=True)
class Asked:
    """One question, and who answers what.

    Attributes:
        question: From the survey.
        held: Each respondent's answer, as an index into the metric's labels.
    """

    question: Question
    held: NDArray[np.int64]

    @property
    def channel(self) -> Channel:
        """P(a report speaks for an answer | it is, is not, the respondent's)."""
        return Channel.of_values(self.question.metric.mechanism)

    @property
    def holders(self) -> list[int]:
        """How many hold each answer."""
        labels = self.question.metric.labels
        return [int(count) for count in np.bincount(self.held, minlength=len(labels))]

    @property
    def chosen(self) -> list[int]:
        """Each respondent's answer, as an index into the answers of the page."""
        values = [answer.value for answer in self.question.answers]
        return [values.index(self.question.metric.labels[index]) for index in self.held]

    @property
    def turned(self) -> list[int]:
        """The holders of another crowd: the answers have changed places."""
        return [*self.holders[-1:], *self.holders[:-1]]


def crowd(survey: Survey) -> list[Asked]:
    """Everybody's answers, each question by itself."""
    assert [each.name for each in survey.questions] == list(SHARES)
    chance, found = np.random.default_rng(20261201), []
    for each in survey.questions:
        shares = SHARES[each.name]
        labels = [each.metric.labels.index(answer.value) for answer in each.answers]
        found.append(Asked(each, np.array(labels)[chance.choice(len(shares), N, p=shares)]))
    return found


def respond(**told: Any) -> Any:
    """Let respondents answer: what each sent, and what each was told."""
    told = {"again": [], "twice": [], **told}
    return json.loads(node(PROGRAM, told=told))["respondents"]


@dataclass(frozen=True)
class Collected:
    """What came of it all.

    Attributes:
        survey: What was asked.
        questions: Who answered what.
        respondents: What each sent and was told.
        releases: Of each question.
        tallies: What they were estimated from.
        late: What one was told who answered after publication.
    """

    survey: Survey
    questions: list[Asked]
    respondents: list[dict[str, Any]]
    releases: list[Release]
    tallies: list[Tally]
    late: dict[str, Any]


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collected]:
    """The survey from the first coin to the releases, once for all tests of it."""
    survey, folder = asked(), tmp_path_factory.mktemp("survey")
    questions = crowd(survey)
    answers = [list(row) for row in zip(*(each.chosen for each in questions), strict=True)]
    page = {"site": laid_out(folder / "site"), "document": page_document(survey, "en")}
    (folder / "habits.toml").write_text(survey.text)
    settings = ServerSettings(
        port=free_port(), fold_interval_seconds=0.2, survey_files=(folder / "habits.toml",)
    )
    with running(None, folder / "data", settings=settings, with_schedule=False) as system:
        page |= {"endpoint": system.endpoint, "write_key": system.write_key}
        respondents = respond(**page, answers=answers, again=[AGAIN], twice=[TWICE])
        source = StoreSource(system.store, system.catalogue)
        releases, tallies = [], []
        for each in questions:
            name = each.question.metric.name
            (outcome,) = publish_epoch(
                source, system.releases, time.time(), name, "once", early=True
            )
            assert outcome.status == "OK" and outcome.path is not None, outcome
            releases.append(read(outcome.path))
            tallies.append(source.tally(each.question.metric, 0))
        (late,) = respond(**page, answers=answers[:1])
    yield Collected(survey, questions, respondents, releases, tallies, late)


def estimates_of(release: Release) -> Estimates:
    """What a release states."""
    assert release.estimates is not None
    return release.estimates


def supports(holders: int, channel: Channel) -> NDArray[np.float64]:
    """P(0, 1, ... N of all reports speak for an answer that so many hold)."""
    own = stats.binom.pmf(np.arange(holders + 1), holders, channel.p_true)
    others = stats.binom.pmf(np.arange(N - holders + 1), N - holders, channel.p_false)
    return np.convolve(own, others)


def far(shares: Any, share: float, channel: Channel) -> Any:
    """Whether estimates lie too many standard errors from a truth."""
    error = float(np.sqrt(variance_reporters(share, N, channel)))
    return np.abs(np.asarray(shares) - share) > SIGMAS * error


def refused(holders: int, each: Asked) -> NDArray[np.bool_]:
    """Of 0, 1, ... N reports that speak for an answer, which so many holders do not explain."""
    share, counts, answers = holders / N, np.arange(N + 1), len(each.holders)
    # Yes and No are one event: their intervals need no correction.
    cells = 1 if answers == 2 else answers
    low, high = simultaneous_interval(counts, N, each.channel, level=LEVEL, cells=cells)
    outside = (share < low) | (high < share)
    return np.asarray(outside | far(each.channel.invert(counts / N), share, each.channel))


def missed(found: Estimates, holders: Sequence[int], each: Asked) -> list[object]:
    """The answers whose estimates so many holders do not explain."""
    answers: list[object] = []
    for entry, count in zip(found.entries, holders, strict=True):
        assert entry.share is not None and entry.simultaneous_interval is not None
        low, high = entry.simultaneous_interval
        share = count / N
        if far(entry.share, share, each.channel) or not low <= share <= high:
            answers.append(entry.value)
    return answers


def test_false_alarms_are_once_in_a_million_runs_and_another_crowd_is_surely_noticed() -> None:
    alarms = COINS_LEVEL * len(list(combinations(SHARES, 2))) + POPCOUNT_LEVEL * len(SHARES)
    for each in crowd(asked()):
        laws = [supports(holders, each.channel) for holders in each.holders]
        for law, holders in zip(laws, each.holders, strict=True):
            alarms += float(law[refused(holders, each)].sum())
        alarms += ODDS_LEVEL * (1 + len(each.holders))
        unnoticed = [
            float(law[~refused(holders, each)].sum())
            for law, holders in zip(laws, each.turned, strict=True)
        ]
        assert min(unnoticed) < 1e-9, each.question.name
    assert 1e-8 < alarms < MOST_FALSE_ALARMS


@pytest.mark.slow
def test_everybody_is_counted_once(collected: Collected) -> None:
    spent = int(Decimal(collected.survey.epsilon) * 10**6)
    accepted = {"verdict": "accepted", "spent": spent, "reports": ["accepted"] * len(SHARES)}
    for number, respondent in enumerate(collected.respondents):
        first, *more = respondent["answered"]
        assert first == accepted
        assert bool(more) == (number in (AGAIN, TWICE))
    assert collected.respondents[AGAIN]["answered"][1:] == [accepted | {"verdict": "duplicate"}]
    (second,) = collected.respondents[TWICE]["answered"][1:]
    assert second == accepted | {"reports": ["already_reported"] * len(SHARES)}
    assert [estimates_of(release).n for release in collected.releases] == [N] * len(SHARES)
    for place, tally in enumerate(collected.tallies):
        (counted,) = tally.counts
        sent = spoken_for_by(collected, place).sum(axis=0)
        assert list(counted) == list(sent[-len(counted) :])  # of two answers only the second


@pytest.mark.slow
def test_the_receipt_names_what_is_counted(collected: Collected) -> None:
    for place, each in enumerate(collected.questions):
        texts = {answer.value: answer.text["en"] for answer in each.question.answers}
        for respondent, spoken in zip(
            collected.respondents, spoken_for_by(collected, place), strict=True
        ):
            labels = np.array(each.question.metric.labels, object)[spoken]
            assert respondent["said"][place] == [texts[label] for label in labels]
    (late,) = collected.late["answered"]
    assert set(late["reports"]) == {"epoch_closed"}


@pytest.mark.slow
def test_the_estimates_are_the_truth_within_their_errors_and_intervals(
    collected: Collected,
) -> None:
    for each, release, tally in zip(
        collected.questions, collected.releases, collected.tallies, strict=True
    ):
        published = estimates_of(release)
        # Its own alarm is too ready for a test: honest reports raise it once in 5,000 releases.
        assert release.plausibility is not None
        popcount_p = release.plausibility.popcount_p
        assert popcount_p is None or popcount_p > POPCOUNT_LEVEL
        wide = estimate(each.question.metric, tally, LEVEL)
        assert [entry.share for entry in wide.entries] == [e.share for e in published.entries]
        assert missed(wide, each.holders, each) == []
        assert missed(wide, each.turned, each) != []
        declined = [entry for entry in published.entries if entry.value == PREFER_NOT]
        assert len(declined) == (each.question.name != "ever_late")


@pytest.mark.slow
def test_nothing_leaves_but_the_stated_fields(collected: Collected) -> None:
    metrics = [each.question.metric for each in collected.questions]
    devices, nonces = set(), set()
    for respondent in collected.respondents:
        enrolment, *batches = respondent["requests"]
        assert left(enrolment) == ("POST", "/v1/devices", {"Content-Type", "Authorization"})
        assert enrolment["body"] == "{}"
        for request in batches:
            assert left(request) == ("POST", "/v1/reports", {"Content-Type", "Sottovoce-MAC"})
            body = json.loads(request["body"])
            assert json.dumps(body, separators=(",", ":")) == request["body"]
            reports, device, nonce = (body.pop(key) for key in ("reports", "device", "nonce"))
            assert body in ({"version": 1, "sequence": 1}, {"version": 1, "sequence": 2})
            assert re.fullmatch("[0-9a-f]{32} [0-9a-f]{32}", f"{device} {nonce}")
            for report, metric in zip(reports, metrics, strict=True):
                assert spoken_for(metric, report.pop("response")) is not None
                fields = {"metric": metric.name, "fingerprint": metric.fingerprint}
                assert report == {**fields, "epoch": 0, "cohort": 0}
        devices.add(device)
        nonces.add(nonce)
    assert len(devices) == len(nonces) == N


@pytest.mark.slow
def test_each_respondent_tosses_own_coins_and_new_ones_for_each_question(
    collected: Collected,
) -> None:
    kept = []
    for place, each in enumerate(collected.questions):
        sent = np.array(responses(collected, place))
        for index, holders in enumerate(each.holders):
            # With own coins the likeliest way to be all alike has probability 0.55**69.
            assert holders == 0 or len(set(sent[each.held == index])) > 1
        kept.append(own_is_sent(spoken_for_by(collected, place), each.held))
    for one, other in combinations(kept, 2):
        table = np.bincount(2 * one + other, minlength=4).reshape(2, 2)
        assert stats.fisher_exact(table).pvalue > COINS_LEVEL


@pytest.mark.slow
def test_what_is_sent_agrees_with_what_the_page_says_of_100_people(collected: Collected) -> None:
    for place, each in enumerate(collected.questions):
        spoken, odds = spoken_for_by(collected, place), each.question.odds
        assert told_wrongly(odds, spoken, each.held) == []
        # The least of these is refuted 7 standard errors from where it would no longer be.
        wrong = replace(odds, kept=odds.kept - 15, other=odds.other + 25)
        assert len(told_wrongly(wrong, spoken, each.held)) == 1 + len(each.holders)


def spoken_for_by(collected: Collected, place: int) -> NDArray[np.bool_]:
    """For which answers everybody's report speaks, shape (respondents, answers)."""
    metric = collected.questions[place].question.metric
    return np.array([spoken_for(metric, sent) for sent in responses(collected, place)])


def own_is_sent(spoken: NDArray[np.bool_], held: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whose report speaks for their own answer."""
    return np.asarray(spoken[np.arange(len(held)), held])


def left(request: dict[str, Any]) -> tuple[str, str, set[str]]:
    """How a request was sent: by which method, where to and nothing more, with which headers."""
    url = re.fullmatch(r"http://127\.0\.0\.1:\d+(/[a-z0-9/]+)", request["url"])
    assert url is not None
    return request["method"], url[1], set(request["headers"])


def responses(collected: Collected, place: int) -> list[Any]:
    """What everybody sent to one question."""
    return [
        json.loads(respondent["requests"][1]["body"])["reports"][place]["response"]
        for respondent in collected.respondents
    ]


def spoken_for(metric: Any, response: Any) -> list[bool] | None:
    """For which answers a response speaks; None: it is no response of this metric."""
    answers, mechanism = len(metric.labels), metric.mechanism
    if mechanism.kind == "cell":
        if type(response) is not int or not 0 <= response < answers:
            return None
        return [index == response for index in range(answers)]
    if not re.fullmatch(f"[0-9a-f]{{{-(-mechanism.cells // 4)}}}", str(response)):
        return None
    bits = int(response, 16)
    if bits >> mechanism.cells:
        return None
    if mechanism.cells == 1:
        return [bits == 0, bits == 1]
    return [bool(bits >> index & 1) for index in range(answers)]


def told_wrongly(odds: Odds, spoken: NDArray[np.bool_], held: NDArray[np.int64]) -> list[str]:
    """Which of the page's numbers what was sent refutes, beyond their rounding to whole people."""
    compared = {"kept": (odds.kept, own_is_sent(spoken, held))} | {
        f"other {index}": (odds.other, spoken[held != index, index])
        for index in range(spoken.shape[1])
    }
    return [name for name, (told, sent) in compared.items() if not _agrees(told, sent)]


def _agrees(of_100: int, sent: NDArray[np.bool_]) -> bool:
    low = stats.binom.ppf(ODDS_LEVEL / 2, len(sent), (of_100 - 0.5) / 100)
    high = stats.binom.isf(ODDS_LEVEL / 2, len(sent), (of_100 + 0.5) / 100)
    return bool(low <= sent.sum() <= high)
