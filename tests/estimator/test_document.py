"""Tally documents: what is read, and that everything else is refused by field, rule and value."""

import copy
import json
from decimal import Decimal

import pytest

from estimator.document import parse
from estimator.errors import DocumentError
from estimator.estimate import estimate

CATEGORY = {
    "metric": {
        "type": "category",
        "values": ["a", "b", "c"],
        "mechanism": {"name": "generalized_randomized_response", "epsilon": 1.0},
    },
    "reports": [1000],
    "counts": [[420, 310, 270]],
}
BOOLEAN = {
    "metric": {
        "type": "boolean",
        "mechanism": {"name": "randomized_response", "p_true": 0.75, "p_false": 0.25},
    },
    "reports": [1000],
    "counts": [[230]],
}
STRING = {
    "metric": {
        "type": "string",
        "candidates": ["x", "y"],
        "mechanism": {
            "name": "rappor",
            "bits": 8,
            "hashes": 2,
            "cohorts": 2,
            "f": 0.5,
            "p": 0.25,
            "q": 0.75,
        },
    },
    "reports": [10, 20],
    "counts": [[5] * 8, [9] * 8],
}

NUMBER = {
    "metric": {
        "type": "number",
        "values": ["below 1", "1 to 2", "2 to 5.5"],
        "edges": [0, 1, 2, 5.5],
        "mechanism": {"name": "hierarchical_histogram", "branching": 2, "epsilon": 2.0},
    },
    "reports": [500, 600],
    "counts": [[260, 100, 0], [180, 190, 90]],
}


def test_the_example_of_the_design_is_read():
    document = parse(json.dumps(CATEGORY))
    assert document.labels == ("a", "b", "c")
    assert document.tally.n == 1000
    assert float(document.mechanism.epsilon) == pytest.approx(1)
    found = estimate(document, document.tally)
    # (0.42 - 1/(e+2)) / ((e-1)/(e+2)), from p_true = e/(e+2).
    assert found.entries[0].share == pytest.approx(0.5713, abs=5e-5)


def test_a_mechanism_may_be_given_by_its_probabilities():
    document = parse(json.dumps(BOOLEAN))
    assert estimate(document, document.tally).entries[1].share == pytest.approx(-0.04)
    written = copy.deepcopy(BOOLEAN)
    written["metric"]["values"] = [False, True]
    assert parse(json.dumps(written)).labels == (False, True)


@pytest.mark.parametrize("kind", ["ordinal", "number"])
def test_ordinals_and_numbers_name_their_values(kind):
    document = CATEGORY | {"metric": CATEGORY["metric"] | {"type": kind, "values": [0, 5, 10]}}
    assert parse(json.dumps(document)).labels == (0, 5, 10)


def test_a_number_with_edges_has_quantiles_and_without_them_only_shares():
    document = parse(json.dumps(NUMBER))
    assert document.edges == (0, 1, 2, Decimal("5.5"))
    found = estimate(document, document.tally)
    assert [each.part for each in found.quantiles] == [0.05, 0.25, 0.5, 0.75, 0.95]
    bare = changed(NUMBER, ("metric", "edges"), ...)
    shares = estimate(parse(json.dumps(bare)), document.tally)
    assert shares.entries == found.entries and shares.quantiles == ()


def test_strings_have_parameters_and_candidates():
    document = parse(json.dumps(STRING))
    assert document.candidates == ("x", "y")
    assert document.tally.counts.shape == (2, 8)
    assert estimate(document, document.tally).other is not None
    solved = copy.deepcopy(STRING)
    for name in ("f", "p", "q"):
        del solved["metric"]["mechanism"][name]
    solved["metric"]["mechanism"] |= {"epsilon": 1, "epsilon_permanent": 4}
    assert float(parse(json.dumps(solved)).mechanism.epsilon) == pytest.approx(1)


def test_no_reports_is_a_valid_document():
    empty = CATEGORY | {"reports": [0], "counts": [[0, 0, 0]]}
    document = parse(json.dumps(empty))
    assert estimate(document, document.tally).entries[0].share is None


def changed(base, path, value):
    """A copy with one field set; `...` removes it."""
    document = copy.deepcopy(base)
    place = document
    for step in path[:-1]:
        place = place[step]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return document


MECHANISM = ("metric", "mechanism")


@pytest.mark.parametrize(
    ("base", "path", "value", "field"),
    [
        (CATEGORY, ("report",), 1, "report"),
        (CATEGORY, ("reports",), ..., "reports"),
        (CATEGORY, ("metric",), [], "metric"),
        (CATEGORY, ("metric", "epsilon"), 1, "metric.epsilon"),
        (CATEGORY, ("metric", "type"), "discovery", "metric.type"),
        (CATEGORY, ("metric", "type"), ["category"], "metric.type"),
        (CATEGORY, ("metric", "values"), ["a"], "metric.values"),
        (CATEGORY, ("metric", "values"), ["a", "b", 3], "metric.values"),
        (CATEGORY, ("metric", "values"), ["a", "a", "b"], "metric.values"),
        (CATEGORY, ("metric", "values"), [1, 2, True], "metric.values"),
        (CATEGORY, ("metric", "name"), 5, "metric.name"),
        (BOOLEAN, ("metric", "values"), [True, False], "metric.values"),
        (BOOLEAN, ("metric", "values"), [0, 1], "metric.values"),
        (CATEGORY, (*MECHANISM, "epsilon"), -1, "metric.mechanism"),
        (CATEGORY, (*MECHANISM, "epsilon"), True, "metric.mechanism.epsilon"),
        (CATEGORY, (*MECHANISM, "epsilon"), "1", "metric.mechanism.epsilon"),
        (CATEGORY, (*MECHANISM, "epsilon"), ..., "metric.mechanism"),
        (CATEGORY, (*MECHANISM, "p_true"), 0.5, "metric.mechanism"),
        (CATEGORY, (*MECHANISM, "name"), "rappor", "metric.mechanism.name"),
        (CATEGORY, (*MECHANISM, "name"), "laplace", "metric.mechanism.name"),
        (CATEGORY, (*MECHANISM, "name"), None, "metric.mechanism.name"),
        (CATEGORY, (*MECHANISM, "cohorts"), 1, "metric.mechanism.cohorts"),
        (BOOLEAN, (*MECHANISM, "p_false"), 0.75, "metric.mechanism"),
        (CATEGORY, ("reports",), [1000, 0], "reports"),
        (CATEGORY, ("reports",), 1000, "reports"),
        (CATEGORY, ("reports",), [1000.0], "reports[0]"),
        (CATEGORY, ("reports",), [True], "reports[0]"),
        (CATEGORY, ("reports",), [-1], "reports[0]"),
        (CATEGORY, ("reports",), [2**53], "reports[0]"),
        (CATEGORY, ("reports",), [999], "counts[0]"),
        (CATEGORY, ("reports",), [1001], "counts[0]"),
        (CATEGORY, ("counts",), [[420, 580]], "counts[0]"),
        (CATEGORY, ("counts",), [420, 310, 270], "counts"),
        (CATEGORY, ("counts",), [[420, 310, 270.0]], "counts[0][2]"),
        (CATEGORY, ("counts",), [[1270, 0, -270]], "counts[0][0]"),
        (CATEGORY, ("counts",), [[730, 540, -270]], "counts[0][2]"),
        (CATEGORY, ("counts",), [[True, 999, 0]], "counts[0][0]"),
        (CATEGORY, ("counts",), [[None, 1000, 0]], "counts[0][0]"),
        (BOOLEAN, ("counts",), [[1001]], "counts[0][0]"),
        (NUMBER, ("metric", "edges"), [0, 1, 2], "metric.edges"),
        (NUMBER, ("metric", "edges"), "0, 1, 2, 5", "metric.edges"),
        (NUMBER, ("metric", "edges"), [0, 2, 2, 5], "metric.edges"),
        (NUMBER, ("metric", "edges"), [0, 1, "2", 5], "metric.edges[2]"),
        (NUMBER, ("metric", "values"), ..., "metric.values"),
        (NUMBER, ("metric", "range"), [0, 5], "metric.values"),
        (NUMBER, (*MECHANISM, "branching"), 1, "metric.mechanism.branching"),
        (NUMBER, (*MECHANISM, "levels"), 2, "metric.mechanism.levels"),
        (CATEGORY, ("metric", "edges"), [0, 1, 2, 3], "metric.edges"),
        (STRING, ("counts", 1, 3), 21, "counts[1][3]"),
        (STRING, ("counts",), [[5] * 8], "counts"),
        (STRING, ("metric", "candidates"), [], "metric.candidates"),
        (STRING, ("metric", "candidates"), ["é", "e\u0301"], "metric.candidates"),
        (STRING, ("metric", "values"), ["x"], "metric.values"),
        (STRING, (*MECHANISM, "bits"), 0, "metric.mechanism.bits"),
        (STRING, (*MECHANISM, "bits"), 5000, "metric.mechanism.bits"),
        (STRING, (*MECHANISM, "f"), ..., "metric.mechanism"),
        (STRING, (*MECHANISM, "q"), 0.1, "metric.mechanism"),
        (STRING, (*MECHANISM, "name"), "optimized_unary", "metric.mechanism.name"),
    ],
)
def test_what_breaks_a_rule_is_refused_by_field(base, path, value, field):
    with pytest.raises(DocumentError) as refused:
        parse(json.dumps(changed(base, path, value)))
    assert refused.value.field == field
    assert str(refused.value).startswith(f"{field}: ")
    assert "got " in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        '{"metric"',
        '{"reports": [NaN]}',
        '{"reports": [Infinity]}',
        '{"reports": [1], "reports": [2]}',
        '{"reports": ' + "[" * 100_000,
        '{"reports": [' + "9" * 5000 + "]}",
    ],
)
@pytest.mark.usefixtures("uncollected")
def test_what_is_no_document_is_refused(text):
    with pytest.raises(DocumentError):
        parse(text)


def test_a_channel_without_privacy_is_refused():
    text = json.dumps(changed(changed(STRING, (*MECHANISM, "f"), 0), (*MECHANISM, "p"), 0))
    with pytest.raises(DocumentError, match="finite epsilon"):
        parse(text)


def test_a_number_that_exact_arithmetic_would_choke_on_is_refused_at_once():
    for number in ("1e999999999", "0e999999999", "1e-999999999"):
        text = json.dumps(CATEGORY).replace("1.0", number)
        with pytest.raises(DocumentError, match="decimals"):
            parse(text)
