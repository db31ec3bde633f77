"""docs/paper.md is computed: its commands print what it shows, its table states true epsilons."""

import doctest
import math
import re
import shlex
from collections import Counter
from pathlib import Path
from shutil import copyfile

import pytest

from estimator.designs import CATALOGUE, design
from sottovoce.__main__ import main
from tests.estimator.designs.published import SURVEYS, markdown, regression_reproduced, reproduced

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "paper.md").read_text()


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page's files, in the current directory."""
    for name, text in re.findall(r"^`([\w.]+)`:\n```csv\n(.*?)^```", PAGE, re.M | re.S):
        (tmp_path / name).write_text(text)
    copyfile(ROOT / "examples" / "surveys" / "habits.toml", tmp_path / "habits.toml")
    monkeypatch.chdir(tmp_path)


def shown() -> list[tuple[str, str]]:
    """Return each command with the output that follows it."""
    pattern = r"^```sh\n(sottovoce survey .*?)\n```\n```\n(.*?)^```$"
    return re.findall(pattern, PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("command", "output"), shown(), ids=lambda each: each[:60])
def test_commands_print_what_the_page_shows(command, output, capsys):
    status = main(shlex.split(command)[1:])
    printed = capsys.readouterr()
    assert status == (2 if "bad rows" in output else 0)
    told = printed.out or printed.err
    assert doctest.OutputChecker().check_output(output, told, 0), told


def test_all_shown_commands_are_run():
    assert len(shown()) == PAGE.count("```sh\n")


def test_the_table_of_published_figures_is_the_computed_one():
    page = Path(__file__).parent.parent / "docs" / "paper_published.md"
    assert page.read_text().endswith("\n\n" + markdown() + "\n")


def test_the_page_counts_the_published_figures_that_are_reproduced():
    said = " ".join(PAGE.split())
    assert len({entry["source"] for entry in SURVEYS}) == 5
    assert f"has {len(SURVEYS)} sets of answers from five published sources" in said
    figures = [*reproduced()]
    by = Counter(each.by for each in figures)
    assert f"Of their {len(figures)} figures, {by['published']} are printed by the" in said
    assert f"print less or nothing, {by['recomputed']} were worked out" in said
    assert f"All {sum(each.alike for each in figures)} are the same" in said
    figures = [*regression_reproduced()]
    alike = sum(each.alike for each in figures)
    assert f"Of the regression's {len(figures)} figures, {alike} are; two coefficients" in said
    assert len(figures) - alike == 2


def rows() -> dict[str, tuple[str, str]]:
    """Return of each design in the table its example and its epsilon."""
    found = re.findall(r"^\| `([\w-]+)` \|.*\| (?:`(.*?)`)? *\| (\S+) \|$", PAGE, re.MULTILINE)
    return {name: (options, epsilon) for name, options, epsilon in found}


def test_the_table_has_each_design_with_its_epsilon():
    assert set(rows()) == set(CATALOGUE)
    for name, (options, epsilon) in rows().items():
        words = shlex.split(options)
        given = {
            key.removeprefix("--").replace("-", "_"): value
            for key, value in zip(words[::2], words[1::2], strict=True)
        }
        own = design(name, given).epsilon
        assert epsilon == ("∞" if math.isinf(own) else f"{own:.4f}"), name


def test_each_design_has_a_paper_and_formulas():
    listed = PAGE.partition("Where they come from")[2].partition("## Files")[0]
    for name in set(CATALOGUE) - {"direct"}:
        assert f"`{name}`" in listed, name
