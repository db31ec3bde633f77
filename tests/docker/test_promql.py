"""The reader of PromQL that tests of rules and dashboards rely on."""

import pytest

from tests.docker.promql import aggregated, asked


@pytest.mark.parametrize(
    ("expression", "selected", "grouped"),
    [
        pytest.param("up", {"up": set()}, set(), id="a series"),
        pytest.param('up{job="by (x)", a!~"b{c}"}', {"up": {"job", "a"}}, set(), id="matchers"),
        pytest.param("rate(a_total[5m]) > 1e-3", {"a_total": set()}, set(), id="functions"),
        pytest.param(
            'sum by (job, le) (rate(a:b:rate5m{x=~"1"}[$__rate_interval]))',
            {"a:b:rate5m": {"x"}},
            {"job", "le"},
            id="groups before",
        ),
        pytest.param("max(a) without (b)", {"a": set()}, {"b"}, id="groups after"),
        pytest.param(
            "a / on (job) group_left () b{c='d'} or inf > bool 0",
            {"a": set(), "b": {"c"}},
            {"job"},
            id="matching",
        ),
        pytest.param("a offset 1w and ignoring (c) b # d", {"a": set(), "b": set()}, {"c"}, id="c"),
        pytest.param("time() - max_over_time(a[1w:10m] offset 1d)", {"a": set()}, set(), id="time"),
        pytest.param('a{m=~"$metric"} * ${x:regex}', {"a": {"m"}}, set(), id="variables"),
        pytest.param("a{b='1'} + a{c='2'}", {"a": {"b", "c"}}, set(), id="twice"),
        pytest.param(
            "count(sum(a) by (b)) + by_name", {"a": set(), "by_name": set()}, {"b"}, id="n"
        ),
    ],
)
def test_series_and_labels_are_found(
    expression: str, selected: dict[str, set[str]], grouped: set[str]
) -> None:
    found = asked(expression)
    assert (found.selected, found.grouped) == (selected, grouped)


@pytest.mark.parametrize("expression", ["a ; b", '{__name__="a"}', 'a{b="'])
def test_what_is_not_understood_is_not_passed_over(expression: str) -> None:
    with pytest.raises(AssertionError):
        asked(expression)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("sum by (job) (max by (job, m) (rate(a[1h])))", [("a", "max")]),
        ("sum(rate(a{b='c'}[5m])) by (d) / max(b)", [("a", "sum"), ("b", "max")]),
        ("max by (x) (a / (b > 0)) > c", [("a", "max"), ("b", "max"), ("c", None)]),
        (
            "sum(a) > on (j) group_left () (b) unless on (j) c",
            [("a", "sum"), ("b", None), ("c", None)],
        ),
        ("histogram_quantile(0.9, sum by (le) (rate(a[1m])))", [("a", "sum")]),
    ],
)
def test_the_innermost_aggregation_is_found(
    expression: str, expected: list[tuple[str, str | None]]
) -> None:
    assert list(aggregated(expression)) == expected
