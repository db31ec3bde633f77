"""The file of a survey: what is read, what it compiles to, and that a broken rule is named."""

import json
from datetime import date
from decimal import Context, Decimal, localcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk import loads
from client_sdk.survey import (
    SurveyError,
    is_survey,
    load_survey,
    loads_survey,
    metric_name,
    page_document,
    survey_of,
)
from client_sdk.survey.questions import MOST_ANSWERS, MOST_QUESTIONS
from client_sdk.web_definition import definition
from tests.registries import Date
from tests.surveys import changed, question, survey, toml

EXAMPLE = Path(__file__).parents[2] / "examples" / "surveys" / "habits.toml"
WORDS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=40)
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,23}", fullmatch=True)


def refused(text: str) -> SurveyError:
    with pytest.raises(SurveyError) as caught:
        loads_survey(text)
    return caught.value


def test_the_example_is_read_whole() -> None:
    found = load_survey(EXAMPLE)
    assert (found.name, found.languages, found.epsilon) == ("habits", ("en", "de", "ar"), "4")
    assert found.text == EXAMPLE.read_text()
    late, ill, way = found.questions
    assert [(each.name, each.value) for each in late.answers] == [("yes", True), ("no", False)]
    assert [each.value for each in ill.answers] == ["yes", "no", "prefer_not_to_answer"]
    assert ill.answers[-1].text["de"] == found.interface["de"].texts["prefer_not_to_answer"]
    assert (late.metric.type, late.metric.mechanism.name) == ("boolean", "randomized_response")
    assert way.metric.mechanism.name == "generalized_randomized_response"
    assert way.metric.labels == tuple(each.name for each in way.answers)


def test_metrics_are_asked_once_until_the_last_day_and_capped_by_the_total() -> None:
    registry = load_survey(EXAMPLE).registry
    assert registry.lifetime_epsilon == 4
    for metric in registry.metrics.values():
        assert (metric.epoch, metric.every, metric.sample, metric.memoize) == ("once", 1, 1, None)
        # A metric collects nothing any more on the day it expires; a survey's day is its last.
        assert (metric.starts, metric.expires) == (date(2026, 12, 1), date(2027, 3, 2))
        assert metric.min_reports == 200
        assert metric.owners == ("survey@example.org",)
    found = load_survey(EXAMPLE)
    days = [date(2026, 11, 30), date(2026, 12, 1), date(2027, 3, 1), date(2027, 3, 2)]
    assert list(map(found.phase, days)) == ["coming", "open", "open", "over"]


@pytest.mark.parametrize(
    ("name", "survey_name"),
    [
        ("survey.habits.late", "habits"),
        ("survey.habits", None),
        ("survey.habits.late.r", None),
        ("survey..late", None),
        ("canary.habits.late", None),
        ("surveys.habits.late", None),
        ("survey.9.late", None),
    ],
)
def test_a_metric_name_says_whose_it_is(name: str, survey_name: str | None) -> None:
    assert survey_of(name) == survey_name
    assert is_survey(name) == name.startswith("survey.")


@settings(deadline=None)
@given(NAMES, NAMES)
def test_longest_names_are_names_of_metrics(name: str, asked: str) -> None:
    document = survey(question(asked), name=name)
    found = loads_survey(toml(document))
    assert list(found.registry.metrics) == [metric_name(name, asked)]
    assert survey_of(metric_name(name, asked)) == name


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(WORDS.filter(str.strip), min_size=3, max_size=3),
    names=st.lists(NAMES, min_size=2, max_size=6, unique=True),
    prefer=st.booleans(),
    epsilon=st.decimals("0.01", "20", places=5),
    mechanism=st.sampled_from([None, "symmetric_unary", "optimized_unary"]),
)
def test_whatever_is_accepted_is_a_registry_a_page_and_a_definition(
    texts: list[str], names: list[str], prefer: bool, epsilon: Decimal, mechanism: str | None
) -> None:
    title, purpose, text = texts
    keys: dict[str, Any] = {"prefer_not_to_answer": prefer, "epsilon": epsilon}
    keys |= {} if mechanism is None else {"mechanism": mechanism}
    asked = question("asked", *names, text={"en": text, "ar": text}, **keys)
    document = survey(
        asked, title={"en": title, "ar": title}, purpose={"en": purpose, "ar": purpose}
    )
    found = loads_survey(toml(document))
    again = loads(found.registry_text)
    (metric,) = again.metrics.values()
    assert metric.fingerprint == found.questions[0].metric.fingerprint
    assert (metric.question, metric.epsilon) == (text, epsilon)
    for language in found.languages:
        page = json.loads(json.dumps(page_document(found, language)))
        assert (page["title"], page["purpose"]) == (title, purpose)
        (shown,) = page["questions"]
        assert shown["definition"] == json.loads(json.dumps(definition(metric)))
        values = [answer["value"] for answer in shown["answers"]]
        assert sorted(values) == sorted(metric.labels)
        # What the page hands to the randomizer is what the server calls the answer.
        assert all(not metric.encode(value)[1] for value in values)


def test_of_two_answers_the_first_is_true_unless_it_is_no() -> None:
    pairs = {("yes", "no"): (True, False), ("no", "yes"): (False, True), ("a", "b"): (True, False)}
    for names, values in pairs.items():
        document = survey(question("q", *names, prefer_not_to_answer=False))
        (asked,) = loads_survey(toml(document)).questions
        assert tuple(answer.value for answer in asked.answers) == values


def test_a_page_is_in_one_language_of_the_survey() -> None:
    found = load_survey(EXAMPLE)
    page = page_document(found, "ar")
    assert (page["language"], page["direction"], page["admission"]) == ("ar", "rtl", "open")
    assert page["interface"] == found.interface["ar"].texts
    assert [each["name"] for each in page["languages"]] == ["English", "Deutsch", "العربية"]
    with pytest.raises(ValueError, match="must be one of en, de, ar, got 'fr'"):
        page_document(found, "fr")


OWN = {"name": "Français", "direction": "ltr", "texts": {}}
BROKEN: list[tuple[str, Any, str, str]] = [
    ("schema", 2, "schema", "must be one of 1"),
    ("extra", 1, "extra", "is not a known key"),
    ("survey.extra", 1, "survey.extra", "is not a known key"),
    ("survey.name", "Habits", "survey.name", "must be a lower-case letter"),
    ("survey.name", "a" * 25, "survey.name", "must be a lower-case letter"),
    ("survey.name", None, "survey.name", "is required"),
    ("survey.contact", " ", "survey.contact", "must be a text"),
    ("survey.contact", "c" * 201, "survey.contact", "at most 200 characters, has 201"),
    ("survey.languages", [], "survey.languages", "must name 1 to"),
    ("survey.languages", ["en", "en"], "survey.languages", "must not repeat"),
    ("survey.languages", ["English"], "survey.languages", "language tags"),
    ("survey.languages", ["en", "ar", "fr"], "survey.title.fr", "is required"),
    ("survey.languages", ["en"], "survey.title.ar", "is not a known key"),
    ("survey.admission", "closed", "survey.admission", "must be one of open, invitation"),
    ("survey.starts", "2026-12-01", "survey.starts", "must be a date"),
    ("survey.expires", Date("2026-11-30"), "survey.expires", "must not lie before starts"),
    ("survey.expires", Date("2032-01-01"), "survey.expires", "at most 1827 days"),
    ("survey.most_epsilon", 0, "survey.most_epsilon", "must be positive"),
    ("survey.most_epsilon", "4", "survey.most_epsilon", "must be a number"),
    ("survey.most_epsilon", 0.999, "survey.most_epsilon", "lower an epsilon, or ask less"),
    ("survey.min_reports", 0, "survey.min_reports", "must be an integer in 1"),
    ("survey.title", "Habits", "survey.title", "must be a table"),
    ("survey.title.en", "", "survey.title.en", "must be a text"),
    ("survey.title.en", "t" * 201, "survey.title.en", "at most 200 characters"),
    ("survey.title.en", "a\nb", "survey.title.en", "control characters"),
    ("survey.title.en", "a\u202eb", "survey.title.en", "direction of writing"),
    ("questions.0.answers.no.en", "\u2069No", "questions.ever_late.answers.no.en", "direction"),
    ("survey.purpose.ar", None, "survey.purpose.ar", "is required"),
    ("survey.purpose.fr", "Pour", "survey.purpose.fr", "is not a known key"),
    ("questions", [], "questions", "must be 1 to"),
    ("questions", ["late"], "questions", "must be [[questions]] tables"),
    ("questions", [question(f"q{i}") for i in range(MOST_QUESTIONS + 1)], "questions", "must be 1"),
    ("questions", [question(), question()], "questions.2.name", "must not repeat a name"),
    ("questions.0.name", "Late", "questions.1.name", "must be a lower-case letter"),
    ("questions.0.extra", 1, "questions.ever_late.extra", "is not a known key"),
    ("questions.0.epsilon", None, "questions.ever_late.epsilon", "is required"),
    ("questions.0.epsilon", 41, "questions.ever_late.epsilon", "at most 40"),
    ("questions.0.sensitivity", "high", "questions.ever_late.sensitivity", "must be one of census"),
    ("questions.0.mechanism", "rappor", "questions.ever_late.mechanism", "must be one of gen"),
    (
        "questions.0.mechanism",
        "randomized_response",  # there is a third answer, prefer not to
        "questions.ever_late.mechanism",
        "must be one of generalized_randomized_response, symmetric_unary, optimized_unary",
    ),
    ("questions.0.deniability", "yes", "questions.ever_late.deniability", "true or false"),
    ("questions.0.prefer_not_to_answer", 1, "questions.ever_late.prefer_not_to_answer", "true or"),
    ("questions.0.text.en", "x" * 601, "questions.ever_late.text.en", "at most 600"),
    ("questions.0.text.ar", None, "questions.ever_late.text.ar", "is required"),
    ("questions.0.answers", {}, "questions.ever_late.answers", "must be 2 to"),
    ("questions.0.answers.no", None, "questions.ever_late.answers", "must be 2 to"),
    (
        "questions.0.answers",
        question("q", *(f"a{i}" for i in range(MOST_ANSWERS + 1)))["answers"],
        "questions.ever_late.answers",
        "must be 2 to",
    ),
    (
        "questions.0.answers.No",
        {},
        "questions.ever_late.answers.No",
        "a name must be a lower-case letter",
    ),
    ("questions.0.answers.no.ar", None, "questions.ever_late.answers.no.ar", "is required"),
    ("questions.0.answers.no.en", "a" * 201, "questions.ever_late.answers.no.en", "at most 200"),
    ("questions.0.answers.yes.en", "no", "questions.ever_late.answers.yes.en", "of another answer"),
    (
        "questions.0.answers.no.en",
        "I prefer not to answer",
        "questions.ever_late.answers.no.en",
        "of another answer",
    ),
    (
        "questions.0.answers.prefer_not_to_answer",
        {},
        "questions.ever_late.answers.prefer_not_to_answer",
        "is no name for an answer",
    ),
    ("interface", {"en": OWN}, "interface.en", "no built-in language"),
    ("interface", {"fr": OWN}, "interface.fr", "must be in languages"),
]


@pytest.mark.parametrize(("key", "value", "named", "rule"), BROKEN)
def test_a_broken_rule_is_named_with_key_and_value(
    key: str, value: Any, named: str, rule: str
) -> None:
    error = refused(toml(changed(survey(), key, value)))
    assert error.key == named
    assert rule in error.rule
    assert isinstance(error, ValueError)


def test_the_total_counts_charges_as_the_ledger_does() -> None:
    questions = [question(f"q{i}", epsilon=Decimal("0.3333333")) for i in range(3)]
    error = refused(toml(survey(*questions, most_epsilon=Decimal("0.9999999"))))
    # Each is charged 0.333334: what the file's own sum does not see, the registry refuses.
    assert error.key == "survey.most_epsilon"
    assert loads_survey(toml(survey(*questions, most_epsilon=Decimal("1.000002")))).questions


def test_the_precision_of_the_host_rounds_no_epsilon() -> None:
    with localcontext(Context(prec=2)):
        found = loads_survey(toml(survey(question(epsilon=Decimal("1.2345")))))
    assert found.epsilon == "1.2345"


def test_a_rule_of_the_metric_names_the_survey_s_key() -> None:
    error = refused(toml(survey(question(epsilon=Decimal("1e-25")))))
    assert error.key.startswith("questions.ever_late.")


def test_a_file_that_cannot_be_read_is_a_survey_error(tmp_path: Path) -> None:
    with pytest.raises(SurveyError, match="must be readable"):
        load_survey(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'a = "\xe9"')
    with pytest.raises(SurveyError, match="it is not UTF-8"):
        load_survey(tmp_path / "latin.toml")


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
    | st.sampled_from([Date("2026-12-01"), Date("inf"), Date("nan"), Date("07:32:00")]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


def keys_of(value: Any, path: str = "") -> list[str]:
    """Every key that a document has."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[str] = []
    for key, inner in pairs:
        found.append(f"{path}{key}")
        if isinstance(inner, dict | list):
            found += keys_of(inner, f"{path}{key}.")
    return found


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(keys_of(survey(question(), question("b", "x", "y")))), ANYTHING)
def test_a_strange_value_anywhere_raises_nothing_but_a_survey_error(key: str, value: Any) -> None:
    text = toml(changed(survey(question(), question("b", "x", "y")), key, value))
    try:
        loads_survey(text)
    except SurveyError as error:
        assert error.key and error.rule and str(error)


@settings(deadline=None)
@given(st.text(max_size=60) | st.just("a = " + "[" * 5000))
def test_a_strange_text_raises_nothing_but_a_survey_error(text: str) -> None:
    refused(text)
