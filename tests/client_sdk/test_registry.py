"""metrics.toml: what is read, and that whatever breaks a rule is named."""

from collections.abc import Callable
from datetime import date
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client_sdk import Registry, RegistryError, load, loads
from client_sdk.mechanisms import CATALOGUE
from client_sdk.mechanisms.thresholds import micro
from client_sdk.metric import FOREVER
from client_sdk.registry import Window

# The example of the design, whole.
EXAMPLE = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 24.0
window = { days = 7, epsilon = 4.0 }
contact = "telemetry@example.org"

[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "system", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "week"
every = 5
owners = ["ui-team@example.org"]
starts = 2026-12-01
expires = 2027-12-31

[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = { epsilon_permanent = 4.0, distinct_values = 2, change_is_sensitive = false }
rappor = { bits = 128, hashes = 2, cohorts = 64 }
epoch = "week"
"""

PROJECT = 'schema = 1\n[project]\nname = "a"\nlifetime_epsilon = 50\ncontact = "c"\n'
COMMON = {
    "question": '"Q?"',
    "sensitivity": '"product"',
    "epsilon": "1",
    "epoch": '"month"',
    "owners": '["o"]',
    "starts": "2026-12-01",
    "expires": "2027-03-01",
}
KINDS = {
    "boolean": {},
    "category": {"values": '["a", "b", "c"]', "catch_all": '"c"'},
    "ordinal": {"values": "[1, 2, 3]", "missing": "1"},
    "number": {"range": "[0, 10]", "buckets": "5", "missing": "0"},
    "string": {"memoize": "{ epsilon_permanent = 4, distinct_values = 2 }"},
}


MEMORY = "{ epsilon_permanent = 4, distinct_values = 2 }"


def text(kind: str = "category", name: str = "m", **keys: str | None) -> str:
    """A registry of one metric; a key given as None is left out."""
    lines = {"type": f'"{kind}"', **COMMON, **KINDS[kind], **keys}
    body = "\n".join(f"{key} = {value}" for key, value in lines.items() if value is not None)
    return f"{PROJECT}[metrics.{name}]\n{body}\n"


def refused(registry: str, key: str, rule: str) -> RegistryError:
    with pytest.raises(RegistryError) as caught:
        loads(registry)
    assert caught.value.key == key
    assert rule in caught.value.rule
    assert caught.value.key in str(caught.value)
    assert caught.value.rule in str(caught.value)
    return caught.value


def test_the_example_of_the_design_loads() -> None:
    registry = loads(EXAMPLE)
    assert (registry.project, registry.contact) == ("shop-app", "telemetry@example.org")
    assert registry.lifetime_micro == 24_000_000
    assert registry.window == Window(7, Decimal(4))
    theme, home_page = registry.metrics.values()
    assert theme.labels == ("light", "dark", "system", "other")
    assert (theme.catch_all, theme.missing) == (3, 3)
    assert theme.mechanism.name == "generalized_randomized_response"
    assert theme.share(theme.starts) == 12_000_000
    assert home_page.mechanism.name == "rappor"
    assert home_page.charge == home_page.share(home_page.starts) == 8_000_000
    assert home_page.expires == FOREVER
    assert home_page.owners == ("telemetry@example.org",)


def test_every_key_of_a_metric_arrives() -> None:
    keys = {
        "question": '"Who?"',
        "sensitivity": '"health"',
        "epsilon": "2",
        "epoch": '"week"',
        "owners": '["x", "y"]',
        "min_reports": "7",
        "grace": "5",
        "missing": '"b"',
        "mechanism": '"optimized_unary"',
        "every": "4",
        "sample": "0.25",
        "when_absent": '"a"',
    }
    metric = loads(text(**keys)).metrics["m"]
    assert metric.name == "m"
    assert metric.question == "Who?"
    assert metric.type == "category"
    assert metric.sensitivity == "health"
    assert metric.epsilon == 2
    assert metric.epoch == "week"
    assert metric.owners == ("x", "y")
    assert (metric.min_reports, metric.grace_days, metric.missing) == (7, 5, 1)
    assert metric.mechanism.name == "optimized_unary"
    assert (metric.every, metric.sample, metric.when_absent) == (4, Decimal("0.25"), 0)
    assert metric.inclusion == Fraction(1, 16)
    assert (metric.starts, metric.expires) == (date(2026, 12, 1), date(2027, 3, 1))


def test_defaults_are_the_documented_ones() -> None:
    metric = loads(text(owners=None)).metrics["m"]
    assert (metric.min_reports, metric.grace_days) == (100, 3)
    assert metric.owners == ("c",)
    assert metric.missing == metric.catch_all == 2
    assert loads(text("boolean")).metrics["m"].missing == 0
    string = loads(text("string")).metrics["m"]
    assert string.missing == ""
    assert string.mechanism.parameters()["bits"] == 128
    assert string.mechanism.parameters()["hashes"] == 2
    assert string.mechanism.cohorts == 64


def test_buckets_of_a_number_cover_its_range() -> None:
    metric = loads(text("number", range="[0, 1]", buckets="4", missing="0.5")).metrics["m"]
    assert metric.labels == ("[0, 0.25)", "[0.25, 0.5)", "[0.5, 0.75)", "[0.75, 1]")
    assert metric.missing == 2
    assert [str(edge) for edge in metric.edges] == ["0", "0.25", "0.5", "0.75", "1"]


def test_a_mechanism_may_be_written_by_its_probabilities() -> None:
    two_coins = "{ name = 'randomized_response', p_true = 0.75, p_false = 0.25 }"
    metric = loads(text("boolean", epsilon="1.1", mechanism=two_coins)).metrics["m"]
    assert float(metric.mechanism.p_true) == 0.75
    assert metric.charge == 1_098_613  # ln 3 rounded up, not the configured 1.1


def test_written_rappor_parameters_are_used() -> None:
    rappor = "{ bits = 64, hashes = 1, cohorts = 2, f = 0.5, p = 0.5, q = 0.75 }"
    metric = loads(text("string", rappor=rappor)).metrics["m"]
    # golden.json rappor-h1: eps_inf
    assert metric.charge == 2 * 2_197_225


@pytest.mark.parametrize(
    ("registry", "key", "rule"),
    [
        ("", "schema", "is required"),
        ("schema = 2", "schema", "must be one of 1"),
        ("schema = true", "schema", "must be one of 1"),
        ("schema = 1", "project", "is required"),
        ("schema = 1\nproject = 3", "project", "must be a table"),
        ("schema = 1\n[project]\nname = ' '", "project.name", "must be a text"),
        (PROJECT.replace("50", "0"), "project.lifetime_epsilon", "must be positive"),
        (PROJECT.replace("50", "1001"), "project.lifetime_epsilon", "at most 1000"),
        (PROJECT.replace("50", '"50"'), "project.lifetime_epsilon", "must be a number"),
        (PROJECT.replace('contact = "c"', ""), "project.contact", "is required"),
        (PROJECT, "metrics", "is required"),
        (PROJECT + "[metrics]", "metrics", "at least one metric"),
        (PROJECT + "colour = 1", "project.colour", "is not a known key"),
        ("colour = 1\n" + text(), "colour", "is not a known key"),
        (PROJECT + "[metrics]\nm = 1", "metrics.m", "must be a table"),
        (text(name="Theme"), "metrics.Theme", "a name must match"),
        (text(name=f'"{"a" * 65}"'), f"metrics.{'a' * 65}", "a name must match"),
        (text(name='""'), "metrics.", "a name must match"),
    ],
)
def test_a_broken_rule_of_the_project_is_named(registry: str, key: str, rule: str) -> None:
    refused(registry, key, rule)


@pytest.mark.parametrize("epsilon", ["0", "-1", "-0.0", "nan", "inf", '"1"', "true", "41", "1e400"])
def test_an_epsilon_that_is_not_positive_and_finite_is_refused(epsilon: str) -> None:
    error = refused(text(epsilon=epsilon), "metrics.m.epsilon", "must be")
    assert error.value is not None


@pytest.mark.parametrize(
    "key", ["epsilon", "epoch", "question", "sensitivity", "starts", "expires"]
)
def test_a_required_key_that_is_missing_is_named(key: str) -> None:
    refused(text(**{key: None}), f"metrics.m.{key}", "is required")


BROKEN = [
    ("category", {"values": None}, "values", "is required"),
    ("category", {"values": '["a"]'}, "values", "list of 2 to 4096"),
    ("category", {"values": '"ab"'}, "values", "list of 2 to 4096"),
    ("category", {"values": '["a", 1]'}, "values", "all texts or all integers"),
    ("category", {"values": "[true, false]"}, "values", "all texts or all integers"),
    ("category", {"values": '["a", ""]'}, "values", "all texts or all integers"),
    ("category", {"values": '["a", "a"]'}, "values", "must not repeat"),
    ("category", {"values": f"[1, {2**53}]"}, "values", "integers below 2**53"),
    ("category", {"values": f"{list(range(4097))}"}, "values", "list of 2 to 4096"),
    ("category", {"catch_all": None}, "catch_all", "is required"),
    ("category", {"catch_all": '"z"'}, "catch_all", "must be one of values"),
    ("category", {"missing": '"z"'}, "missing", "must be one of values"),
    ("category", {"missing": "3"}, "missing", "must be one of values"),
    ("category", {"range": "[0, 1]"}, "range", "is not a known key"),
    ("category", {"rappor": "{}"}, "rappor", "is not a known key"),
    ("category", {"colour": "1"}, "colour", "is not a known key"),
    ("category", {"mechanism": '"rappor"'}, "mechanism", "must be one of"),
    ("category", {"mechanism": '"no_noise"'}, "mechanism", "must be one of"),
    ("category", {"mechanism": '"randomized_response"'}, "mechanism", "exactly two values"),
    (
        "category",
        {"mechanism": "{ name = 'symmetric_unary', p = 1 }"},
        "mechanism.p",
        "not a known",
    ),
    (
        "category",
        {"mechanism": "{ name = 'symmetric_unary', p_true = 0.9, p_false = 0.1 }"},
        "epsilon",
        "at least what its channel loses, 4.394450",
    ),
    ("category", {"epoch": '"hour"'}, "epoch", "must be one of day, week, month, once"),
    ("category", {"sensitivity": '"secret"'}, "sensitivity", "must be one of census"),
    ("category", {"type": '"set"'}, "type", "must be one of boolean"),
    ("category", {"type": "[]"}, "type", "must be one of boolean"),
    ("category", {"owners": "[]"}, "owners", "must name somebody"),
    ("category", {"owners": '"o"'}, "owners", "must be a list of texts"),
    ("category", {"owners": '["o", "o"]'}, "owners", "must not repeat"),
    ("category", {"min_reports": "0"}, "min_reports", "integer in 1.."),
    ("category", {"min_reports": "true"}, "min_reports", "integer in 1.."),
    ("category", {"min_reports": "1.5"}, "min_reports", "integer in 1.."),
    ("category", {"grace": "32"}, "grace", "integer in 0..31"),
    ("category", {"starts": '"2026-12-01"'}, "starts", "must be a date"),
    ("category", {"starts": "2026-12-01T00:00:00Z"}, "starts", "must be a date"),
    ("category", {"starts": "1969-12-31"}, "starts", "must lie in 1970..9000"),
    ("category", {"expires": "2026-12-01"}, "expires", "must lie after starts"),
    ("boolean", {"missing": "0"}, "missing", "must be true or false"),
    ("ordinal", {"missing": None}, "missing", "is required"),
    ("ordinal", {"catch_all": "1"}, "catch_all", "is not a known key"),
    ("number", {"missing": None}, "missing", "is required"),
    ("number", {"missing": "11"}, "missing", "must lie in range"),
    ("number", {"missing": "nan"}, "missing", "must be 0 or of size"),
    ("number", {"range": None}, "range", "is required"),
    ("number", {"range": "[1]"}, "range", "must be [lowest, highest]"),
    ("number", {"range": "[1, 1]"}, "range", "must ascend"),
    ("number", {"range": "[0, inf]"}, "range.highest", "must be 0 or of size"),
    ("number", {"range": "[0, 1e31]"}, "range.highest", "must be 0 or of size"),
    ("number", {"range": "[true, 2]"}, "range.lowest", "must be a number"),
    ("number", {"buckets": "1"}, "buckets", "integer in 2..4096"),
    ("string", {"memoize": None}, "memoize", "is required"),
    ("string", {"memoize": "true"}, "memoize", "must be a table"),
    ("string", {"memoize": "{ distinct_values = 2 }"}, "memoize.epsilon_permanent", "is required"),
    (
        "string",
        {"memoize": "{ epsilon_permanent = 4, distinct_values = 0 }"},
        "memoize.distinct_values",
        "integer in 1..1000",
    ),
    (
        "string",
        {"memoize": "{ epsilon_permanent = 4, distinct_values = 2, forever = true }"},
        "memoize.forever",
        "is not a known key",
    ),
    (
        "string",
        {"memoize": "{ epsilon_permanent = 4, distinct_values = 2, change_is_sensitive = true }"},
        "memoize.change_is_sensitive",
        "may not be memoized",
    ),
    ("string", {"epsilon": "4"}, "memoize.epsilon_permanent", "must be above epsilon"),
    ("string", {"rappor": "{ bits = 4097 }"}, "rappor.bits", "integer in 1..4096"),
    ("string", {"rappor": "{ bits = 8, hashes = 9 }"}, "rappor", "hashes must lie"),
    ("string", {"rappor": "{ size = 8 }"}, "rappor.size", "is not a known key"),
    ("string", {"rappor": "{ f = 1 }"}, "rappor", "need f < 1"),
    (
        "string",
        {"rappor": "{ f = 0 }"},
        "memoize.epsilon_permanent",
        "remembered noise realises, Infinity",
    ),
    ("string", {"rappor": "{ f = 0.3 }"}, "memoize.epsilon_permanent", "realises, 6.938405"),
    ("string", {"rappor": "{ f = 0.6, p = 0.1, q = 0.9 }"}, "epsilon", "what its channel loses"),
    ("string", {"candidates": '["a", "a"]'}, "candidates", "must not repeat"),
    ("string", {"candidates": '["\\u00e9", "e\\u0301"]'}, "candidates", "distinct in Unicode NFC"),
    ("string", {"missing": "1"}, "missing", "must be a text"),
    ("string", {"mechanism": '"optimized_unary"'}, "mechanism", "rappor for this type"),
    ("category", {"mechanism": '"loloha"'}, "memoize", "is required: loloha remembers"),
    (
        "category",
        {"memoize": MEMORY, "epsilon": "4"},
        "memoize.epsilon_permanent",
        "must be above epsilon of one report, 4",
    ),
    (
        "category",
        {"memoize": MEMORY.replace("2", "4")},
        "memoize.distinct_values",
        "must be at most 3: a device never needs more memories of memoized_generalized",
    ),
    (
        "category",
        {"memoize": MEMORY.replace("2", "3"), "mechanism": '{ name = "loloha", cells = 2 }'},
        "memoize.distinct_values",
        "must be at most 2",
    ),
    (
        "category",
        {
            "memoize": "{ epsilon_permanent = 1, distinct_values = 3 }",
            "mechanism": '{ name = "d_bit_flip", bits = 1 }',
        },
        "memoize.distinct_values",
        "must be at most 2",
    ),
    (
        "category",
        {"memoize": MEMORY, "mechanism": '"randomized_response"'},
        "mechanism",
        "needs exactly two values",
    ),
    (
        "category",
        {
            "memoize": MEMORY,
            "mechanism": '{ name = "symmetric_unary", p_true = 0.6, p_false = 0.4 }',
        },
        "mechanism.p_true",
        "is not a known key",
    ),
    (
        "category",
        {"memoize": MEMORY, "mechanism": '{ name = "loloha", cells = 6 }'},
        "mechanism.cells",
        "prime or a power of two, as 7 is",
    ),
    (
        "category",
        {
            "memoize": "{ epsilon_permanent = 1, distinct_values = 2 }",
            "mechanism": '{ name = "d_bit_flip", bits = 4 }',
        },
        "mechanism",
        "bits must lie in 1..3",
    ),
    (
        "category",
        {"memoize": MEMORY, "mechanism": '"d_bit_flip"'},
        "memoize.epsilon_permanent",
        "must be equal to epsilon, 1: d_bit_flip sends what it remembers",
    ),
    (
        "category",
        {"mechanism": '{ name = "symmetric_unary", p_false = 0.4 }'},
        "mechanism.p_true",
        "is required beside p_false",
    ),
    ("category", {"candidates": '["a"]'}, "candidates", "of type category, only of string: remove"),
    ("number", {"buckets": None}, "buckets", "mean (discrete_laplace, one_bit_mean, piecewise)"),
    ("number", {"mechanism": '"piecewise"'}, "buckets", "with piecewise, which does without: re"),
    (
        "string",
        {"memoize": None, "mechanism": '"count_mean_sketch"', "rappor": "{ bits = 8 }"},
        "rappor",
        'goes with mechanism = "rappor" alone: remove it',
    ),
    (
        "string",
        {"mechanism": '{ name = "rappor", bits = 8 }', "rappor": "{ bits = 8 }"},
        "rappor",
        'goes with mechanism = "rappor" alone: remove it',
    ),
]


@pytest.mark.parametrize(("kind", "keys", "key", "rule"), BROKEN, ids=str)
def test_a_broken_rule_of_a_metric_is_named(
    kind: str, keys: dict[str, str | None], key: str, rule: str
) -> None:
    refused(text(kind, **keys), f"metrics.m.{key}", rule)


def test_only_mechanisms_that_would_be_taken_are_offered() -> None:
    for kind, values in (("category", 3), ("boolean", 2), ("number", 5)):
        error = refused(text(kind, mechanism='"laplace"'), "metrics.m.mechanism", "must be one of")
        offered = error.rule.removeprefix("must be one of ").removesuffix(" for this type")
        for name in offered.split(", "):
            same = "1" if name == "d_bit_flip" else "4"
            memory = f"{{ epsilon_permanent = {same}, distinct_values = 1 }}"
            memoize = memory if CATALOGUE[name].memoizes else None
            metric = loads(text(kind, mechanism=f'"{name}"', memoize=memoize)).metrics["m"]
            assert (metric.mechanism.name, metric.mechanism.domain) == (name, values)


def test_rappor_may_be_named_beside_its_options() -> None:
    options = {"rappor": "{ bits = 8, hashes = 1, cohorts = 2 }"}
    named, unnamed = (
        loads(text("string", **options, **more)).metrics["m"]
        for more in ({"mechanism": '"rappor"'}, {})
    )
    assert named.fingerprint == unnamed.fingerprint


def test_what_a_mechanism_refuses_is_said_once_and_as_it_is_written() -> None:
    given = '{ name = "generalized_randomized_response", p_true = 0.3, p_false = 0.3 }'
    error = refused(text(mechanism=given), "metrics.m.mechanism", "p_false must be")
    assert str(error).count("got") == 1
    assert "'p_true': 0.3" in str(error)


TEXTS = {
    "project.name": PROJECT.replace('"a"', '"{}"') + text().removeprefix(PROJECT),
    "project.contact": PROJECT.replace('"c"', '"{}"') + text().removeprefix(PROJECT),
    "metrics.m.question": text(question='"{}"'),
    "metrics.m.owners": text(owners='["o", "{}"]'),
    "metrics.m.values": text(values='["a", "{}", "c"]'),
    "metrics.m.candidates": text("string", candidates='["https://example.org", "{}"]'),
    "metrics.m.missing": text("string", missing='"{}"'),
    "metrics.m.when_absent": text("string", when_absent='"{}"'),
}
CONTROLS = ("0000", "0001", "0009", "000A", "000D", "001B", "001F", "007F", "0080", "0085", "009F")


@pytest.mark.parametrize("key", TEXTS)
@pytest.mark.parametrize("code", [*CONTROLS, "FFFE", "FFFF"])
def test_a_text_with_a_control_character_is_refused(key: str, code: str) -> None:
    hostile = TEXTS[key].replace("{}", f"before\\u{code}after")
    error = refused(hostile, key, "must hold no control characters")
    assert error.value == f"before{chr(int(code, 16))}after"
    assert str(error).isprintable() and repr(error.value) in str(error)


@pytest.mark.parametrize("key", ["catch_all", "missing"])
def test_an_answer_that_others_stand_for_has_no_control_character_either(key: str) -> None:
    refused(text(**{key: '"c\\u0000"'}), f"metrics.m.{key}", "must be one of values")


@pytest.mark.parametrize("key", TEXTS)
@pytest.mark.parametrize("code", ["0020", "007E", "00A0", "200D", "2028", "FFFD", "1F600"])
def test_all_other_characters_may_be_in_a_text(key: str, code: str) -> None:
    loads(TEXTS[key].replace("{}", f"before\\U{code:0>8}after"))


def test_the_figure_in_a_complaint_about_epsilon_is_enough_when_written() -> None:
    # ln 3 is 1.0986122...: a figure rounded to nearest would be refused again.
    two_coins = "{ name = 'randomized_response', p_true = 0.75, p_false = 0.25 }"
    with pytest.raises(RegistryError, match=r"channel loses, 1\.098613"):
        loads(text("boolean", mechanism=two_coins))
    assert loads(text("boolean", mechanism=two_coins, epsilon="1.098613"))


@pytest.mark.parametrize(
    ("kind", "keys", "key"),
    [
        ("category", {"joint": '["a"]'}, "joint"),
        ("category", {"type": '"discovery"'}, "type"),
    ],
)
def test_features_of_later_versions_are_refused_in_so_many_words(
    kind: str, keys: dict[str, str], key: str
) -> None:
    refused(text(kind, **keys), f"metrics.m.{key}", "this version")


def with_window(window: str, metric: str) -> str:
    return PROJECT + f"window = {window}\n" + metric[len(PROJECT) :]


@pytest.mark.parametrize(
    ("keys", "days", "worst"),
    [
        # Any 7 consecutive days hold 7 days, touch 2 weeks, 2 months; 1 day touches 1 week.
        ({"epoch": '"day"', "expires": "2026-12-31"}, 7, 7),
        ({"epoch": '"week"'}, 7, 2),
        ({"epoch": '"week"'}, 1, 1),
        ({"epoch": '"week"'}, 8, 2),
        ({"epoch": '"week"'}, 9, 3),
        ({"epoch": '"month"'}, 7, 2),
        ({"epoch": '"once"'}, 7, 1),
        # Last day of one block and first of the next may both be a device's turn.
        ({"epoch": '"day"', "every": "5", "expires": "2027-02-01"}, 7, 3),
        ({"epoch": '"day"', "every": "5", "expires": "2027-02-01"}, 1, 1),
        # Memoized reports are not fresh-noise charges.
        ({"epoch": '"day"', "expires": "2026-12-31"}, 31, 30),
    ],
)
def test_a_window_must_cover_the_worst_case(keys: dict[str, str], days: int, worst: int) -> None:
    assert loads(with_window(f"{{ days = {days}, epsilon = {worst} }}", text(**keys)))
    refused(
        with_window(f"{{ days = {days}, epsilon = {worst - 0.5} }}", text(**keys)),
        "project.window",
        f"adds up to {worst}",
    )


@pytest.mark.parametrize(
    ("kind", "mechanism", "name"),
    [
        ("boolean", None, "memoized_generalized_randomized_response"),
        ("boolean", '"randomized_response"', "memoized_generalized_randomized_response"),
        ("category", None, "memoized_generalized_randomized_response"),
        ("number", None, "memoized_generalized_randomized_response"),
        ("ordinal", '"symmetric_unary"', "memoized_symmetric_unary"),
        ("category", '"optimized_unary"', "memoized_optimized_unary"),
        ("category", '"memoized_optimized_unary"', "memoized_optimized_unary"),
        ("number", '"loloha"', "loloha"),
    ],
)
def test_memoize_selects_the_form_that_remembers(
    kind: str, mechanism: str | None, name: str
) -> None:
    registry = text(kind, memoize=MEMORY, mechanism=mechanism, starts=None, expires=None)
    metric = loads(registry).metrics["m"]
    assert metric.mechanism.name == name and metric.endless
    assert metric.mechanism.epsilon <= 1
    assert metric.charge == micro(metric.mechanism.epsilon_permanent or Decimal(0), 2) <= 8_000_000


def test_a_long_list_is_remembered_bit_by_bit() -> None:
    many = ", ".join(f'"value {number}"' for number in range(30))
    metric = loads(text(values=f'[{many}, "c"]', memoize=MEMORY)).metrics["m"]
    assert metric.mechanism.name == "memoized_optimized_unary"


def test_a_window_leaves_memoized_metrics_out() -> None:
    assert loads(with_window("{ days = 7, epsilon = 0.1 }", text("string")))


@pytest.mark.parametrize(
    "window",
    ["7", "{ days = 7 }", "{ days = 0, epsilon = 1 }", "{ days = 7, epsilon = 1, more = 1 }"],
)
def test_a_window_has_days_and_epsilon(window: str) -> None:
    with pytest.raises(RegistryError, match=r"project\.window"):
        loads(with_window(window, text()))


@pytest.mark.parametrize(
    ("kind", "keys", "key", "rule"),
    [
        ("category", {"every": "2", "epoch": '"once"'}, "every", "once"),
        ("category", {"sample": "0"}, "sample", "must lie in"),
        ("category", {"sample": "1.5"}, "sample", "must lie in"),
        ("category", {"sample": "true"}, "sample", "must be a number"),
        ("category", {"when_absent": '"z"'}, "when_absent", "must be a value"),
        ("category", {"when_absent": "7"}, "when_absent", "must be a value"),
        ("category", {"when_absent": '"a"', "epoch": '"once"'}, "when_absent", "repeats"),
        ("category", {"when_absent": '"a"', "grace": "0"}, "when_absent", "grace"),
        ("number", {"when_absent": "11"}, "when_absent", "must be a value"),
    ],
)
def test_spreading_keys_have_rules(
    kind: str, keys: dict[str, str | None], key: str, rule: str
) -> None:
    refused(text(kind, **keys), f"metrics.m.{key}", rule)


def test_spreading_makes_a_share_last_longer() -> None:
    # 13 epochs of a month from December 2026 to December 2027; in blocks of 4 from January 1970
    # (month 0) they touch 4: Sep-Dec 2026, Jan-Apr, May-Aug, Sep-Dec 2027.
    keys = {"starts": "2026-12-01", "expires": "2028-01-01"}
    whole, spread = (loads(text(every=every, **keys)).metrics["m"] for every in ("1", "4"))
    assert whole.share(whole.starts) == 13_000_000
    assert spread.share(spread.starts) == 4_000_000
    assert whole.fingerprint != spread.fingerprint
    assert whole.channel_hash == spread.channel_hash


@pytest.mark.parametrize("every", ["true", "1.0", "0", '"1"'])
def test_every_must_be_a_whole_number(every: str) -> None:
    refused(text(every=every), "metrics.m.every", "must be an integer")


def test_shares_above_the_cap_are_refused_with_their_sum(
    registry_of: Callable[..., Registry], tables: dict[str, str]
) -> None:
    # theme: 7 days; home_page: 2 x 4.
    with pytest.raises(RegistryError, match=r"add up to 15 \(theme 7, home_page 8\)") as caught:
        registry_of(*tables.values(), lifetime="14.999999")
    assert caught.value.key == "project.lifetime_epsilon"
    registry = registry_of(*tables.values(), lifetime=15)
    assert registry.lifetime_micro == 15_000_000


@pytest.mark.parametrize(
    ("cap", "epsilon", "days", "fits"),
    [
        # Case C46: floats would admit or refuse at the edge.
        ("1.0", "0.1", 10, True),
        ("1.0", "0.1", 11, False),
        ("0.3", "0.1", 3, True),
        ("0.3", "0.1", 4, False),
    ],
)
def test_budget_arithmetic_is_exact_at_the_edge(
    cap: str, epsilon: str, days: int, fits: bool
) -> None:
    registry = text(epsilon=epsilon, epoch='"day"', expires=f"2026-12-{1 + days:02}")
    registry = registry.replace("lifetime_epsilon = 50", f"lifetime_epsilon = {cap}")
    if fits:
        metric = loads(registry).metrics["m"]
        assert metric.share(metric.starts) == days * 100_000
    else:
        refused(registry, "project.lifetime_epsilon", "must cover the shares")


def test_the_sum_over_a_year_of_daily_reports_is_not_reset() -> None:
    # Case C48 (macOS 10.12): 16 a day for 365 days is 5840, beyond any cap that can be written.
    registry = text(epsilon="16", epoch='"day"', starts="2027-01-01", expires="2028-01-01")
    error = refused(registry, "project.lifetime_epsilon", "add up to 5840")
    assert error.value == "50"


def test_the_hosts_decimal_context_does_not_shape_fingerprints() -> None:
    number = text("number", range="[0, 1]", buckets="7", epsilon="1.23456789")
    plain = loads(number).metrics["m"]
    with localcontext(Context(prec=3)):
        cramped = loads(number).metrics["m"]
        assert cramped.fingerprint == plain.fingerprint
        assert cramped.charge == plain.charge


def test_channel_hash_and_fingerprint_change_with_what_shapes_them() -> None:
    base = loads(text()).metrics["m"]
    assert len(base.channel_hash) == 32 and len(base.fingerprint) == 16
    same = loads(text(question='"Other words"', min_reports="5", grace="1", owners='["z"]'))
    assert same.metrics["m"].fingerprint == base.fingerprint
    for change in (
        {"values": '["a", "b", "d"]', "catch_all": '"d"'},
        {"values": '["b", "a", "c"]'},
        {"epsilon": "1.01"},
        {"mechanism": '"symmetric_unary"'},
    ):
        metric = loads(text(**change)).metrics["m"]
        assert metric.channel_hash != base.channel_hash
        assert metric.fingerprint != base.fingerprint
    weekly = loads(text(epoch='"week"')).metrics["m"]
    assert weekly.channel_hash == base.channel_hash
    assert weekly.fingerprint != base.fingerprint


def test_expired_metrics_load_and_are_listed() -> None:
    registry = loads(text())
    assert registry.expired(date(2027, 2, 28)) == []
    (error,) = registry.expired(date(2027, 3, 1))
    assert error.key == "metrics.m.expires"


def test_a_file_that_cannot_be_read_is_a_registry_error(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'schema = "\xe9"')
    for path in (tmp_path, tmp_path / "missing.toml", tmp_path / "latin.toml"):
        with pytest.raises(RegistryError, match="cannot be read: "):
            load(path)
    good = tmp_path / "metrics.toml"
    good.write_text(EXAMPLE, encoding="utf-8")
    assert load(good).digest == loads(EXAMPLE).digest


@pytest.mark.parametrize(
    "hostile",
    [
        "x = 1e99999999999999999999999",
        "x = " + "9" * 5000,
        "x = " + "[" * 5000 + "]" * 5000,
        "x = 2026-13-45",
        text(epsilon="1e-400000000"),
        text(epsilon="0x" + "f" * 5000),
        text(values="[1, 0x" + "f" * 5000 + "]", catch_all="1"),
        text("number", range="[-0x" + "f" * 5000 + ", 3]"),
        text("number", range="[1e-99999999, 1e99999999]"),
        text("string", rappor="{ p = 1e-20000 }"),
        "\x00",
        "schema = 1\r[",
    ],
    ids=range(12),
)
@pytest.mark.usefixtures("uncollected")
def test_hostile_texts_are_a_registry_error_at_once(hostile: str) -> None:
    with pytest.raises(RegistryError) as caught:
        loads(hostile)
    assert len(str(caught.value)) < 1000


scalars = st.sampled_from(
    """0 | -1 | 1 | 2.5 | 1e30 | inf | nan | true | "" | "a" | [] | ["a","b"] | [1,2] | {} | 0.5
    | 2026-12-01 | 9999-12-31 | "day" | "rappor" | [[1]] | 4096 | { f = 0.9 } | -0.0
    | { epsilon_permanent = 2, distinct_values = 1 } | { name = 'symmetric_unary' }""".split(" | ")
)
keys = st.sampled_from(
    """question type values catch_all missing epsilon epoch owners starts expires sensitivity
    memoize rappor mechanism range buckets grace min_reports candidates every sample
    unheard_of""".split()
)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.dictionaries(keys, scalars | st.none(), max_size=4))
def test_no_text_raises_anything_but_a_registry_error(
    kind: str, changes: dict[str, str | None]
) -> None:
    try:
        registry = loads(text(kind, **changes))
    except RegistryError as error:
        assert error.key
    else:
        for metric in registry.metrics.values():
            assert metric.mechanism.epsilon <= metric.epsilon
            assert metric.fingerprint
            assert 0 < metric.charge


@given(st.text(max_size=200))
def test_no_random_text_raises_anything_but_a_registry_error(random_text: str) -> None:
    with pytest.raises(RegistryError):
        loads(random_text)


@given(st.decimals(Decimal("0.001"), Decimal(8), places=6))
def test_a_charge_never_exceeds_what_was_configured(epsilon: Decimal) -> None:
    metric = loads(text(epsilon=str(epsilon))).metrics["m"]
    assert metric.charge <= -int(-epsilon * 1_000_000 // 1)
