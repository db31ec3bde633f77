"""The browser module, run by node: what Python says of it, and what it must never contain."""

import json
import re
import shutil
from decimal import Decimal
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from client_sdk import loads
from client_sdk.errors import ParameterError
from client_sdk.mechanisms import CATALOGUE, build
from client_sdk.metric import Metric
from client_sdk.sealing import SealingKey
from client_sdk.web_definition import MECHANISMS, definition, definitions
from tests.client_sdk import web_lives
from tests.client_sdk.conftest import HEAD, HOME_PAGE, THEME
from tests.client_sdk.web_vectors import document, mechanisms, metric_of, written
from tests.javascript import (
    ROOT,
    TSC,
    WEB,
    bytes_with_comments,
    bytes_without_comments,
    code_of,
    imported,
    loaded_with,
    nodes,
    run,
)

MODULES = sorted(WEB.glob("*.js"))
VECTORS = Path(__file__).with_name("web_vectors.json")
TESTS = sorted((ROOT / "tests" / "web").glob("*.test.js"))
ENTRIES = sorted({path.name.split(".")[0] for path in WEB.glob("*.d.ts")} - {"types"})
"""Modules that pages import: each has its declarations."""
OTHERS = {*(f"{name}.d.ts" for name in ENTRIES), "types.d.ts", "package.json"}
LIVES = Path(__file__).with_name("web_lives.json")
MOST_BYTES = 8 * 1024
MOST_CLIENT_BYTES = 14 * 1024
"""Of randomizers, sender and all that a device's life takes."""
SHELTERED = r"eval|Function|innerHTML|outerHTML|insertAdjacentHTML|document|window"
OUTSIDE = r"fetch|XMLHttpRequest|sendBeacon|WebSocket|EventSource|import\(|navigator|location"
KEPT = r"localStorage|sessionStorage|indexedDB|caches|cookie|history"
FOREIGN_CHANCE = r"Math\.random|Date|performance|randomUUID"
MAY = {
    "sender.js": {"fetch"},
    "storage.js": {"indexedDB", "navigator"},
    "epochs.js": {"Date"},
    "project.js": {"Date"},
    "telemetry.js": {"fetch", "document", "navigator", "Date"},
}
"""What single modules are for."""
AGREE = """
import * as {name} from "./code/{name}.js";
import * as {name}Told from "./told/{name}.js";
export const {name}All: typeof {name}Told = {name};
export const {name}NoMore: typeof {name} = {name}Told;
"""


def test_the_vectors_are_what_python_makes_today() -> None:
    # Else: python -m tests.client_sdk.web_vectors > tests/client_sdk/web_vectors.json
    assert VECTORS.read_text() == written(document())


def test_the_lives_are_what_python_lives_today() -> None:
    # Else: python -m tests.client_sdk.web_lives > tests/client_sdk/web_lives.json
    assert LIVES.read_text() == written(web_lives.document())


def test_the_vectors_have_every_mechanism_of_browsers() -> None:
    assert {mechanism.name for _, mechanism in mechanisms()} == set(MECHANISMS)
    assert set(MECHANISMS) <= set(CATALOGUE)


@pytest.mark.parametrize("node", nodes())
def test_the_module_makes_the_same_bytes_and_refuses_what_it_must(node: str) -> None:
    output = run([node, "--test", "--test-reporter=tap", *map(str, TESTS)])
    vectors = json.loads(VECTORS.read_text())
    compared = re.search(r"^#? ?(\{\"reports\".*\})$", output, re.MULTILINE)
    assert compared is not None and json.loads(compared[1]) == {
        "reports": sum(len(case["draws"]) for case in vectors["reports"]),
        "coins": len(vectors["coins"]),
        "streams": len(vectors["streams"]),
        "encodings": sum(len(case["answers"]) for case in vectors["encodings"]),
        "answers": sum(len(case["answers"]) for case in vectors["batches"]),
    }
    assert re.search(r"^# skipped 0$", output, re.MULTILINE)


def test_the_randomizers_are_small_with_all_their_comments() -> None:
    assert bytes_with_comments(loaded_with("sottovoce.js")) <= MOST_BYTES


def test_the_whole_client_is_small_without_comments() -> None:
    assert bytes_without_comments(loaded_with("telemetry.js")) <= MOST_CLIENT_BYTES
    assert round(bytes_without_comments(loaded_with("sottovoce.js")) / 1024) == 5  # says web.md


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_only_the_sender_sends_and_nothing_evaluates(path: Path) -> None:
    code = code_of(path)
    for words in (SHELTERED, OUTSIDE, KEPT, FOREIGN_CHANCE):
        assert set(re.findall(rf"\b(?:{words})", code)) <= MAY.get(path.name, set()), words


def test_the_randomizers_can_do_nothing_but_draw() -> None:
    randomizers = loaded_with("sottovoce.js")
    assert {"mechanisms.js", "randomness.js"} < randomizers
    assert not randomizers & set(MAY)


def test_pages_can_import_what_has_declarations() -> None:
    exports = json.loads((WEB / "package.json").read_text())["exports"]
    told = {entry["types"]: entry["default"] for entry in exports.values()}
    assert told == {f"./{name}.d.ts": f"./{name}.js" for name in ENTRIES}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_the_module_imports_only_its_own_files(path: Path) -> None:
    names = imported(path)
    assert all((WEB / name).is_file() and name.startswith("./") for name in names)


def test_the_files_of_the_module_are_found_in_the_package() -> None:
    found = {each.name for each in files("client_sdk").joinpath("web").iterdir()}
    assert found == {path.name for path in MODULES} | OTHERS


@pytest.mark.slow
def test_the_types_are_right_and_the_declarations_agree(tmp_path: Path) -> None:
    if shutil.which("tsc") is None:
        pytest.fail("tsc is not here: install Debian's node-typescript", False)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "agree.ts").write_text("".join(AGREE.format(name=name) for name in ENTRIES))
    for folder in ("code", "told"):
        (tmp_path / folder).mkdir()
    for path in MODULES:
        shutil.copy(path, tmp_path / "code")
    shutil.copy(WEB / "types.d.ts", tmp_path / "code")
    for path in WEB.glob("*.d.ts"):
        shutil.copy(path, tmp_path / "told")
    code = [f"code/{path.name}" for path in MODULES]
    run([*TSC.split(), "agree.ts", *code], tmp_path)


def declared(text: str) -> Metric:
    (metric,) = loads(HEAD.format(lifetime=1000) + text).metrics.values()
    return metric


def test_a_definition_states_the_integers_in_use_as_text() -> None:
    metric = declared(THEME)
    stated = definition(metric)
    parameters = stated["mechanism"].pop("parameters")
    assert parameters == {
        name: str(number) for name, number in metric.mechanism.parameters().items()
    }
    assert stated == {
        "version": 1,
        "metric": "theme",
        "fingerprint": metric.fingerprint,
        "channel": metric.channel_hash,
        "type": "category",
        "labels": ["light", "dark", "system", "other"],
        "edges": [],
        "missing": 3,
        "catch_all": 3,
        "mechanism": {"name": metric.mechanism.name, "kind": "cell", "cells": 4, "cohorts": 1},
        "epsilon": "1.000000",
        "epsilon_permanent": None,
    }


@pytest.mark.parametrize("name", [name for name, _ in mechanisms()])
def test_a_definition_survives_json(name: str) -> None:
    stated = definition(metric_of(dict(mechanisms())[name]))
    assert json.loads(json.dumps(stated)) == stated


def test_a_definition_of_strings_states_both_losses() -> None:
    stated = definition(declared(HOME_PAGE))
    assert (stated["epsilon"], stated["epsilon_permanent"]) == ("1.000000", "4.000000")


def test_the_definitions_of_a_file_state_what_a_life_needs() -> None:
    text = HEAD.format(lifetime="24.5") + THEME + "every = 2\nsample = 0.5\n" + HOME_PAGE
    registry = loads(text)
    theme, home_page = registry.metrics.values()
    told = definitions(registry)
    assert json.loads(json.dumps(told)) == told
    first, second = told.pop("metrics")
    assert told == {"version": 1, "project": "shop-app", "lifetime": 24_500_000}
    assert first.pop("definition") == definition(theme._replace(every=1, sample=Decimal(1))) | {
        "fingerprint": theme.fingerprint
    }
    assert first == {
        "epoch": "day",
        "every": 2,
        "sample": str(2**63),
        "starts": "2026-12-01",
        "expires": "2026-12-08",
        "grace_days": 3,
        "distinct_values": 0,
        "charge": 1_000_000,
    }
    assert second.pop("definition") == definition(home_page)
    assert (second["distinct_values"], second["charge"]) == (2, home_page.charge)


def test_definitions_refuse_what_browsers_cannot_keep() -> None:
    absent = loads(HEAD.format(lifetime=24) + THEME + 'when_absent = "other"\n')
    with pytest.raises(ParameterError, match=r"metrics\.theme: when_absent must be left out"):
        definitions(absent)
    seal = SealingKey(1, bytes(range(32)))
    with pytest.raises(ParameterError, match=r"project\.seal must be left out"):
        definitions(loads(HEAD.format(lifetime=24) + THEME)._replace(seal=seal))


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"every": 2}, "every must be 1"),
        ({"sample": Decimal("0.5")}, "sample must be 1"),
        ({"when_absent": 0}, "when_absent must be left out"),
        ({"labels": (1, 2, 3, 2**53)}, "labels must be integers up to"),
        ({"mechanism": build("subset_selection", domain=4, epsilon=1)}, "mechanism must be"),
    ],
)
def test_what_a_page_cannot_answer_is_refused(change: dict[str, Any], rule: str) -> None:
    with pytest.raises(ParameterError, match=rule):
        definition(declared(THEME)._replace(**change))
