"""Documentation is executed: every snippet runs, every command parses, every setting is listed."""

import re
import shlex
from pathlib import Path
from textwrap import dedent

import pytest

from client_sdk import Client, load
from client_sdk.consent import MACHINES
from sottovoce.__main__ import COMMANDS, main, parser_for

ROOT = Path(__file__).parent.parent
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(path: Path, language: str) -> list[str]:
    """Return a document's fenced code blocks of one language, those in lists too."""
    fenced = rf"^( *)```{language}\n(.*?)^\1```"
    found = re.findall(fenced, path.read_text(), re.MULTILINE | re.DOTALL)
    return [dedent(block) for _, block in found]


def commands(path: Path) -> list[str]:
    """Return every `sottovoce ...` command line that a document shows."""
    text = path.read_text()
    inline = re.findall(r"`(sottovoce [^`]+)`", text)
    shown = [line for block in blocks(path, "sh") for line in block.splitlines()]
    return [" ".join(c.split()) for c in inline] + [c for c in shown if c.startswith("sottovoce")]


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the registry of docs/registry.md, as the current directory."""
    (registry,) = blocks(ROOT / "docs" / "registry.md", "toml")
    (tmp_path / "metrics.toml").write_text(registry)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_commands_in_the_docs_are_real(path):
    for line in commands(path):
        name, *arguments = shlex.split(line)[1:]
        assert name in COMMANDS, line
        if arguments and not arguments[0].startswith("("):
            parser_for(name).parse_args(arguments)


def test_the_example_registry_is_valid_and_sound(example, capsys):
    assert main(["check", "metrics.toml", "--explain"]) == 0
    assert main(["audit", "metrics.toml"]) == 0
    capsys.readouterr()


def test_every_registry_key_is_documented():
    files = [*(ROOT / "client_sdk" / "declaration").glob("*.py"), ROOT / "client_sdk/registry.py"]
    source = "".join(path.read_text() for path in files)
    taken = set(re.findall(r"take(?:_\w+)?\(\"(\w+)\"", source)) - {"project", "metrics"}
    text = (ROOT / "docs" / "registry.md").read_text()
    assert {"memoize", "most", "buckets", "window"} <= taken
    for key in taken - {"lowest", "highest"}:  # the ends of `range`
        assert f"`{key}`" in text or f"{key} =" in text or f"{key} }}" in text, key


def test_the_ten_lines_of_the_readme_run(example, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(example / "state"))
    monkeypatch.setenv("SOTTOVOCE_ENDPOINT", "http://127.0.0.1:9")
    noon = 1_796_126_400.0  # 1 December 2026, a day on which the example is asked
    monkeypatch.setitem(Client.__init__.__kwdefaults__, "clock", lambda: noon)
    for name in MACHINES:  # the README's app does not run under pytest
        monkeypatch.delenv(name, raising=False)
    (snippet,) = blocks(ROOT / "README.md", "python")
    names = {"user_agreed": True}
    exec(compile(snippet, "README.md", "exec"), names)
    client = names["client"]
    client.close()
    # One week in five is this device's.
    assert client.status().dropped in ({}, {"not_its_turn": 1})
    assert load("metrics.toml").metrics["theme"].labels == ("light", "dark", "system", "other")


def test_the_front_door_exists():
    makefile = (ROOT / "Makefile").read_text()
    for block in blocks(ROOT / "README.md", "sh"):
        for target in re.findall(r"^make (\w+)", block, re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_every_file_that_the_docs_name_exists():
    for path in DOCS:
        for name in re.findall(
            r"`((?:client_sdk|aggregator|estimator|tests|docs)/[\w./]*)`", path.read_text()
        ):
            assert (ROOT / name).exists(), f"{path.name} names {name}"


@pytest.mark.parametrize("name", ["privacy.md", "threats.md"])
def test_every_claim_about_privacy_and_threats_names_a_test_that_exists(name):
    text = (ROOT / "docs" / name).read_text()
    named = re.findall(r"`([\w/]+\.py)::(?:\w+::)?(test_\w+)`", text)
    assert len(named) > 30
    for file, test in named:
        source = (ROOT / "tests" / file).read_text()
        assert re.search(rf"^\s*def {test}\(", source, re.MULTILINE), f"{file}::{test}"


def test_each_threat_has_a_test():
    text = (ROOT / "docs" / "threats.md").read_text()
    threats = [f"T{number}" for number in range(1, 26)]
    assert re.findall(r"^\| (T\d+) \|", text, re.MULTILINE) == threats
    shown = re.findall(r"^- \*\*(T\d+)\*\*: `\S+::test_", text, re.MULTILINE)
    assert shown == threats


def test_every_setting_is_documented():
    from aggregator import settings
    from estimator import settings as notifications

    tables = f"{settings.__doc__}\n{notifications.__doc__}"
    rows = re.findall(r"^([A-Z_]{6,}) ", tables, re.MULTILINE)
    text = (ROOT / "docs" / "operations.md").read_text()
    assert len(rows) > 5
    for name in rows:
        assert f"| `{name}` |" in text, name
