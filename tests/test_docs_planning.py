"""docs/planning.md is computed: its commands run, its sessions, charts and simulations hold."""

import doctest
import re
import shlex
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sottovoce.__main__ import main
from tests.planning_page import FOLDER, charts, digest, rows

PAGE = (FOLDER.parent / "planning.md").read_text()
CHARTS = charts()
LONGEST = 260
"""Lines: who plans does not read a book."""


def sections() -> dict[str, str]:
    """Return the text below each heading."""
    parts = re.split(r"^#+ (.+)\n", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def blocks(section: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def shown() -> list[tuple[str, str]]:
    """Return each command with the output that follows it."""
    pattern = r"^```sh\n(sottovoce plan .*?)\n```\n```\n(.*?)^```$"
    return re.findall(pattern, PAGE, re.MULTILINE | re.DOTALL)


def prose(section: str) -> str:
    """Return sentences alone: neither code nor output, nor the table that is simulated."""
    text = re.sub(r"^```.*?^```$", "", section, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^<!-- table: .*?<!-- end -->", "", text, flags=re.MULTILINE | re.DOTALL)


def figures(text: str) -> Iterator[str]:
    """Yield numbers that could rot: those with a decimal point, and those of three digits."""
    for number in re.findall(r"(?<![\w.^-])\d[\d,_]*(?:\.\d+)?", text):
        plain = re.sub(r"[,_]", "", number)
        if "." in plain or len(plain) > 2:
            yield plain


@pytest.mark.parametrize(("command", "output"), shown(), ids=lambda each: each[:60])
def test_commands_print_what_the_page_shows(
    command: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(shlex.split(command)[1:])
    printed = capsys.readouterr().out
    assert status == int("no answer" in output)
    assert doctest.OutputChecker().check_output(output, printed, doctest.ELLIPSIS), printed


def test_every_plan_is_shown_with_its_output() -> None:
    assert len(shown()) == len(re.findall(r"^sottovoce ", PAGE, re.MULTILINE)) == 5


def test_the_sessions_of_the_page_give_what_it_shows() -> None:
    names: dict[str, Any] = {}
    said: list[str] = []
    for title, section in sections().items():
        code = "\n".join(blocks(section, "python"))
        session = doctest.DocTestParser().get_doctest(code, names, title, title, 0)
        doctest.DocTestRunner(verbose=False).run(session, out=said.append, clear_globs=False)
        names = session.globs
    assert not said, "\n".join(said)


@pytest.mark.parametrize("title", sections())
def test_every_figure_in_a_sentence_is_computed_beside_it(title: str) -> None:
    section = sections()[title]
    computed = {
        str(Fraction(number))
        for language in ("python", "sh", "")
        for block in blocks(section, language)
        for number in figures(block)
    }
    for number in figures(prose(section)):
        assert str(Fraction(number)) in computed, f"{title}: nothing computes {number}"


@pytest.mark.parametrize("name", CHARTS)
def test_charts_are_drawn_from_what_the_planner_says(name: str) -> None:
    """After a change: python -m tests.planning_page."""
    drawn = (FOLDER / f"{name}.svg").read_text()
    assert f"<!-- specification: {digest(CHARTS[name])} -->" in drawn
    texts = set(ElementTree.fromstring(drawn).itertext())
    assert {row["mechanism"] for row in CHARTS[name]["data"]["values"]} <= texts
    assert CHARTS[name]["title"]["text"] in texts
    assert f"](planning/{name}.svg)" in PAGE


def test_there_are_no_other_charts() -> None:
    assert {path.name for path in Path(FOLDER).iterdir()} == {f"{name}.svg" for name in CHARTS}


def test_planned_figures_are_those_of_simulated_collections() -> None:
    """Simulated figures may lie five standard errors from the page's and from the plan."""
    (table,) = re.findall(r"^<!-- table: simulation -->\n(.*?)^<!-- end -->", PAGE, re.M | re.S)
    lines = table.splitlines()[2:]
    assert len(lines) == len(rows())
    for line, row in zip(lines, rows(), strict=True):
        there = float(line.split("|")[-2].split()[0])
        assert line == f"| {' | '.join(row.cells(there))} |"
        assert there == pytest.approx(row.simulated, abs=row.chance), line
        assert there == pytest.approx(row.planned, abs=row.chance), line


def test_the_page_is_short() -> None:
    assert len(PAGE.splitlines()) <= LONGEST
