"""Which series and labels a PromQL expression asks for, for tests of rules and dashboards.

Not a parser: promtool is one, and says whether an expression is valid.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""
      (?P<comment> \#[^\n]*)
    | (?P<string> "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*' | `[^`]*`)
    | (?P<range> \[[^\]]*\])
    | (?P<variable> \$\w+ | \$\{[^}]*\})
    | (?P<number> (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+|[a-z]\w*)?)
    | (?P<name> [A-Za-z_:][\w:]*)
    | (?P<mark> =~ | !~ | [=!<>]= | [-+*/%^<>=(){},@])
    | (?P<space> \s+)
    """,
    re.VERBOSE,
)
_BEFORE_LABELS = {"by", "without", "on", "ignoring", "group_left", "group_right"}
_AFTER_FUNCTIONS = {"(", "by", "without"}
_AGGREGATIONS = {"sum", "avg", "count", "group", "max", "min", "topk", "bottomk", "stddev"}
_WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan", "atan2", "start", "end"}


@dataclass
class Asked:
    """What an expression asks for.

    Attributes:
        selected: Labels that are matched, by series.
        grouped: Labels in `by`, `on` and the like.
    """

    selected: dict[str, set[str]] = field(default_factory=dict)
    grouped: set[str] = field(default_factory=set)

    def labels(self, exposed: Mapping[str, set[str]]) -> set[str]:
        """Return the labels that the series here have, by what is exposed."""
        return set[str]().union(*(exposed[name] for name in self.selected))


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(expression):
        match = _TOKEN.match(expression, place)
        assert match, f"no PromQL: {expression[place:]!r}"
        place = match.end()
        kind = match.lastgroup
        if kind not in ("comment", "space"):
            yield str(kind), match.group()


def asked(expression: str) -> Asked:
    """Return the series and labels in an expression; variables of Grafana may be in it."""
    found = Asked()
    tokens = [*_tokens(expression), ("mark", "")]
    series, place = "", 0
    while place < len(tokens) - 1:
        kind, text = tokens[place]
        after = tokens[place + 1][1]
        if kind == "mark" and text == "{":
            end = tokens.index(("mark", "}"), place)
            assert series, f"a selector without a name: {expression}"
            inside = tokens[place:end]
            found.selected[series] |= {word for kind, word in inside if kind == "name"}
            place = end
        elif kind == "name" and text.lower() in _BEFORE_LABELS:
            if after == "(":
                end = tokens.index(("mark", ")"), place)
                found.grouped |= {word for kind, word in tokens[place + 1 : end] if kind == "name"}
                place = end
        elif kind == "name" and after not in _AFTER_FUNCTIONS and text.lower() not in _WORDS:
            found.selected.setdefault(text, set())
            series, place = text, place + 1
            continue
        series, place = "", place + 1
    return found


def aggregated(expression: str) -> Iterator[tuple[str, str | None]]:
    """Yield each series with the innermost aggregation that it stands in, None for none."""
    tokens = [*_tokens(expression), ("mark", "")]
    open_calls: list[str | None] = []
    called: str | None = None
    depth = 0  # of braces, or in a list of labels
    skipping = False
    for place, (kind, text) in enumerate(tokens[:-1]):
        after = tokens[place + 1][1]
        if kind == "mark" and text in "{}":
            depth += 1 if text == "{" else -1
        elif kind == "mark" and text == "(":
            open_calls.append(None if skipping else called)
        elif kind == "mark" and text == ")":
            open_calls.pop()
            if not skipping:
                called = None
            skipping = False
        elif depth or skipping or kind != "name":
            continue
        elif text.lower() in _BEFORE_LABELS:
            skipping = after == "("
        elif text in _AGGREGATIONS and after in _AFTER_FUNCTIONS:
            called = text
        elif after == "(":
            called = None
        elif text.lower() not in _WORDS:
            yield text, next((one for one in reversed(open_calls) if one), None)
