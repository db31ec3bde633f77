"""docs/mechanisms.md is computed: tables, figures, options and what each type can take."""

import doctest
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aggregator.tally import Tally
from client_sdk import loads
from client_sdk.errors import OptionError, RegistryError
from client_sdk.mechanisms import (
    CATALOGUE,
    POSITIONS,
    Declared,
    Mechanism,
    SquareWave,
    build,
)
from estimator.estimate import estimate
from estimator.estimates import Estimates
from estimator.inversion import distribution
from estimator.planning.figures import bits_of

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "mechanisms.md").read_text()
REGISTRY = (ROOT / "docs" / "registry.md").read_text()
NAMES = list(CATALOGUE)

VALUES, MOST, STRINGS = 64, 3, ("a", "b")
"""What the table of rare values is about; few where a mechanism is not for many."""
FEW = {"randomized_response": 2, "exponential": 6}
EPSILONS = ("0.5", "1", "2", "4")


def sections() -> dict[str, str]:
    """Return the text below each heading of any depth, up to the next one."""
    parts = re.split(r"^#+ (.+)\n", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def code(section: str) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL))


def without(section: str) -> str:
    """Return its prose: neither code, nor a table that is made, nor what is declared."""
    prose = re.sub(r"^```.*?^```", "", section, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^<!-- table: .*?<!-- end -->", "", prose, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^Declared: .*$", "", prose, flags=re.MULTILINE)


def declared(name: str) -> str:
    """Return the line of a mechanism's section that says how a file declares it."""
    (line,) = re.findall(r"^Declared: (.+)$", sections()[f"`{name}`"], re.MULTILINE)
    return str(line)


def fields(name: str, epsilon: str = "1", **own: Any) -> dict[str, Any]:
    """Return what `build` takes for a mechanism as the page's tables have it."""
    kind = CATALOGUE[name]
    taken: dict[str, Any] = {"epsilon": epsilon}
    if kind.encodes in ("one", "several"):
        taken["domain"] = FEW.get(name, VALUES)
    if kind.encodes == "several":
        taken["most"] = MOST
    if kind.memoizes:
        times = 1 if name == "d_bit_flip" else 2
        taken["epsilon_permanent"] = str(times * Decimal(epsilon))
    return taken | own


# Tables


def table(title: str) -> list[str]:
    """Return the rows of one of the page's made tables, without its head."""
    found = re.search(rf"^<!-- table: {title} -->\n(.*?)^<!-- end -->", PAGE, re.M | re.S)
    assert found is not None
    return found[1].splitlines()[2:]


def expected(mechanism: Mechanism, edges: tuple[Decimal, ...] = ()) -> Estimates:
    """Return what is estimated where all values are held alike and noise is as expected."""
    n = 100_000 // mechanism.cohorts
    values: Any = range(mechanism.domain or 0)
    labels: tuple[int, ...] = tuple(values) if mechanism.encodes == "one" else ()
    if mechanism.encodes == "several":
        labels = tuple(range(mechanism.cells))
        values = [1 << index for index in labels]
    elif mechanism.encodes == "number":
        values, edges = [0, POSITIONS], (Decimal(0), Decimal(1))
    elif mechanism.encodes == "string":
        values = STRINGS
    counts = np.zeros((mechanism.cohorts, mechanism.cells))
    for cohort in range(mechanism.cohorts):
        for value in values:
            law = mechanism.channel(value, cohort)
            counts[cohort] += np.array(law, np.float64) / len(values) * n
    metric = SimpleNamespace(labels=labels, candidates=STRINGS, edges=edges, mechanism=mechanism)
    tally = Tally(np.full(mechanism.cohorts, n), counts.round().astype(np.int64))
    return estimate(metric, tally)


def shift(mechanism: Mechanism) -> float:
    """Return the worst shift that is published then, in per cent."""
    if isinstance(mechanism, SquareWave):  # its errors, which are not needed, take seconds
        channel, even = distribution.matrix(mechanism), np.full(VALUES, 1 / VALUES)
        return 100 * distribution.worst_shift(channel, 1e5 * channel @ even, even)
    found = expected(mechanism).worst_shift
    assert found is not None
    return 100 * found


def what_for(name: str) -> str:
    kind = CATALOGUE[name].encodes
    if kind == "one":
        return f"one of {FEW.get(name, VALUES)}"
    return {"several": f"{MOST} of {VALUES}", "number": "mean", "string": "strings"}[kind]


@pytest.mark.parametrize("name", NAMES)
def test_the_table_of_rare_values_is_that_of_the_code(name: str) -> None:
    built = [build(name, **fields(name, epsilon)) for epsilon in EPSILONS]
    one = built[EPSILONS.index("1")]
    variances = [f"{mechanism.rare_variance:.3g}" for mechanism in built]
    cells = [f"`{name}`", what_for(name), str(bits_of(one)), *variances, f"{shift(one):.2g} %"]
    row = f"| {' | '.join(cells)} |"
    assert row in table("rare values"), row


@pytest.mark.parametrize("name", [name for name in NAMES if CATALOGUE[name].memoizes])
def test_the_table_of_remembered_values_is_that_of_the_code(name: str) -> None:
    permanent = "0.5" if name == "d_bit_flip" else "4"
    mechanism = build(name, **fields(name, "0.5", epsilon_permanent=permanent))
    losses = [mechanism.epsilon_of(reports) for reports in (1, 2, 30)]
    change = mechanism.epsilon_instantaneous
    shown = "no bound" if change.is_infinite() else f"{change:.3g}"
    memories = mechanism.most_memories
    cells = [f"`{name}`", *(f"{loss:.3f}" for loss in losses), shown, str(memories or "any number")]
    row = f"| {' | '.join(cells)} |"
    assert row in table("remembered values"), row


def test_tables_have_no_other_rows() -> None:
    assert len(table("rare values")) == len(NAMES)
    memoized = [name for name in NAMES if CATALOGUE[name].memoizes]
    assert len(table("remembered values")) == len(memoized)


# Figures


def test_every_mechanism_has_one_section_and_every_section_is_of_one() -> None:
    headed = re.findall(r"^### (.+)$", PAGE, re.MULTILINE)
    assert sorted(headed) == sorted(f"`{name}`" for name in NAMES)


def test_the_sessions_of_the_page_give_what_it_shows() -> None:
    names: dict[str, Any] = {}
    said: list[str] = []
    for title, section in sections().items():
        session = doctest.DocTestParser().get_doctest(code(section), names, title, title, 0)
        doctest.DocTestRunner(verbose=False).run(session, out=said.append, clear_globs=False)
        names = session.globs
    assert not said, "\n".join(said)


def figures(text: str) -> Iterator[str]:
    """Yield numbers that could rot: those with a decimal point, and those of three digits."""
    for number in re.findall(r"(?<![\w.^-])\d[\d,_]*(?:\.\d+)?", text):
        plain = re.sub(r"[,_]", "", number)
        if "." in plain or len(plain) > 2:
            yield plain


@pytest.mark.parametrize("title", sections())
def test_every_figure_in_a_sentence_is_computed_below_it(title: str) -> None:
    section = sections()[title]
    computed = {str(Fraction(number)) for number in figures(code(section))}
    for number in figures(without(section)):
        assert str(Fraction(number)) in computed, f"{title}: nothing computes {number}"


@pytest.mark.parametrize("name", NAMES)
def test_sections_say_which_mechanisms_have_no_quantiles(name: str) -> None:
    if CATALOGUE[name].encodes == "one":
        mechanism = build(name, **fields(name, domain=2 if name == "randomized_response" else 6))
        edges = tuple(Decimal(edge) for edge in range((mechanism.domain or 0) + 1))
        found = expected(mechanism, edges).quantiles
        assert ("No quantiles." in sections()[f"`{name}`"]) == (not found)


# What is declared

TYPES = {
    "boolean": 'type = "boolean"',
    "category": 'type = "category"\nvalues = {values}\ncatch_all = 0',
    "ordinal": 'type = "ordinal"\nvalues = {values}\nmissing = 0',
    "number in buckets": 'type = "number"\nrange = [0, 60]\nbuckets = {count}\nmissing = 0',
    "number": 'type = "number"\nrange = [0, 60]\nmissing = 0',
    "string": 'type = "string"\ncandidates = ["a", "b"]',
    "several answers": 'type = "multi_select"\nvalues = {values}',
}


LIST = ["boolean", "category", "ordinal", "number in buckets"]


def types_of(listed: str) -> list[str]:
    return LIST if listed == "any list" else listed.split(", ")


def loaded(type_: str, lines: str, count: int = 6) -> Mechanism:
    keys = TYPES[type_].format(values=list(range(count)), count=count)
    text = f"""schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 1000
contact = "telemetry@example.org"
[metrics.it]
question = "Which?"
sensitivity = "product"
epsilon = 1.0
epoch = "once"
starts = 2026-11-02
expires = 2027-02-01
{keys}
{lines}
"""
    return loads(text).metrics["it"].mechanism


def can_be(name: str, type_: str, lines: str) -> bool:
    try:
        return loaded(type_, lines).name == name
    except RegistryError:
        return False


@pytest.mark.parametrize("name", NAMES)
def test_the_line_of_each_section_declares_it_for_the_types_named_and_no_other(name: str) -> None:
    found = re.match(r"((?:`[^`]+`, )*`[^`]+`) \(([\w, ]+)\)\. Options", declared(name))
    assert found is not None
    lines = "\n".join(re.findall(r"`([^`]+)`", found[1]))
    types = types_of(found[2])
    assert set(types) <= TYPES.keys()
    for each in TYPES:
        if each in types:
            assert loaded(each, lines).name == name
        else:
            assert not can_be(name, each, lines)
    most = re.search(r"At most ([\d,]+) (?:values|buckets|options)\.", declared(name))
    if most is not None:
        count = int(most[1].replace(",", ""))
        for each in types:
            if each != "boolean":
                loaded(each, lines, count)
                with pytest.raises(RegistryError):
                    loaded(each, lines, count + 1)
    elif "number in buckets" in types:
        assert loaded("number in buckets", lines, 4096).domain == 4096


def options(name: str) -> list[str]:
    """Return the names of a mechanism's options, as its errors list them."""
    with pytest.raises(OptionError) as raised:
        CATALOGUE[name].declared(Declared(2, 1, 2, {"nonsense": 1}))
    listed = re.search(r"\((.+)\)", raised.value.rule)
    assert listed is not None
    return [] if listed[1] == "none" else listed[1].split(", ")


@pytest.mark.parametrize("name", NAMES)
def test_options_and_their_defaults_are_in_the_section_and_in_the_registry(name: str) -> None:
    text = declared(name).partition("Options")[2].partition(": ")[2]
    taken = options(name)
    assert ("none" in text) == (not taken)
    rows = [
        line
        for line in REGISTRY.splitlines()
        if line.startswith(("| `mechanism.", "| `rappor`")) and f"`{name}`" in line
    ]
    stated = dict(re.findall(r"`(\w+)` \((\d+)\)", text))
    for option in taken:
        assert f"`{option}`" in text, option
        if option == "most":  # a key of the metric
            continue
        (row,) = [row for row in rows if re.search(rf"[`.]{option}`", row)]
        if option in stated:
            assert f"({stated[option]})" in row, f"{option} of {name}"
            written, usual = int(stated[option]), build(name, **fields(name)).parameters()
            assert build(name, **fields(name) | {option: written}).parameters() == usual
            assert build(name, **fields(name) | {option: 2 * written}).parameters() != usual
