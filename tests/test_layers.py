"""The floors of the house: imports point down only, and the device's floor stays light."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FLOORS = ("client_sdk", "aggregator", "estimator", "sottovoce")
SERVER_PACKAGES = {"flask", "werkzeug", "redis", "numpy", "scipy", "gunicorn", "apscheduler"}
SERVER_PACKAGES |= {"prometheus_client"}
UPLOAD_PACKAGES = {"requests", "urllib3", "cryptography"}  # urllib3 is part of requests
PYTEST_PLUGIN = "pytest_plugin"  # loaded by pytest, where that is installed, and by nothing else


@dataclass(frozen=True)
class Import:
    """One import: in which file and line, of which module, and whether it runs at load time."""

    file: Path
    line: int
    module: str
    at_load: bool

    @property
    def package(self) -> str:
        return self.module.partition(".")[0]

    def __str__(self) -> str:
        return f"{self.file.relative_to(ROOT)}:{self.line} imports {self.module}"


def files(floor: str) -> list[Path]:
    return sorted((ROOT / floor).rglob("*.py"))


def modules(floor: str) -> list[str]:
    names = []
    for file in files(floor):
        parts = file.relative_to(ROOT).with_suffix("").parts
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return [name for name in names if not name.endswith("__main__")]


def imports(floor: str) -> list[Import]:
    return [
        found
        for file in files(floor)
        for found in imports_in(file, ast.parse(file.read_text(), file), at_load=True)
    ]


def imports_in(file: Path, node: ast.AST, at_load: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(file, child.lineno, alias.name, at_load)
        elif isinstance(child, ast.ImportFrom):
            base = absolute(file, child)
            # `from package import module`: the alias may be a module itself.
            for alias in child.names:
                yield Import(file, child.lineno, f"{base}.{alias.name}", at_load)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imports_in(file, child, at_load=False)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from imports_in(file, child, at_load=False)
        else:
            yield from imports_in(file, child, at_load)


def absolute(file: Path, statement: ast.ImportFrom) -> str:
    if not statement.level:
        return statement.module or ""
    parts = file.relative_to(ROOT).parts[: -statement.level]
    return ".".join([*parts, *([statement.module] if statement.module else [])])


def loaded_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after running `code`."""
    answer = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return {name.partition(".")[0] for name in answer.stdout.split()}


def import_all(names: list[str]) -> str:
    return "".join(f"import {name}\n" for name in names)


def complaints(broken: list[Import]) -> str:
    return "\n".join(map(str, broken))


def test_imports_point_down_only() -> None:
    broken = [
        found
        for height, floor in enumerate(FLOORS)
        for found in imports(floor)
        if found.package in FLOORS[height + 1 :]
    ]
    assert not broken, complaints(broken)


def test_the_sdk_imports_the_standard_library_requests_and_cryptography_only() -> None:
    allowed = sys.stdlib_module_names | UPLOAD_PACKAGES | {"client_sdk"}
    broken = [
        found
        for found in imports("client_sdk")
        if found.package not in allowed
        and not (found.file.stem == PYTEST_PLUGIN and found.package == "pytest")
    ]
    assert not broken, complaints(broken)


def test_nothing_in_the_sdk_imports_what_is_for_tests_only() -> None:
    broken = [
        found
        for found in imports("client_sdk")
        if "testing" not in found.file.parts
        and found.file.stem != PYTEST_PLUGIN
        and found.module.startswith("client_sdk.testing")
        and found.package == "client_sdk"
    ]
    assert not broken, complaints(broken)


def test_the_sdk_imports_requests_and_cryptography_inside_functions_only() -> None:
    broken = [
        found
        for found in imports("client_sdk")
        if found.package in UPLOAD_PACKAGES and found.at_load
    ]
    assert not broken, complaints(broken)


def test_loading_the_sdk_loads_no_third_party_package() -> None:
    loaded = loaded_by(import_all(modules("client_sdk")))
    assert not loaded & (SERVER_PACKAGES | UPLOAD_PACKAGES)


def test_in_the_aggregator_only_counting_imports_numpy() -> None:
    broken = [
        found
        for found in imports("aggregator")
        if found.package == "numpy" and found.file.stem not in ("fold", "columns", "tally")
    ]
    assert not broken, complaints(broken)


def test_the_aggregator_knows_no_statistics() -> None:
    broken = [found for found in imports("aggregator") if found.package == "scipy"]
    assert not broken, complaints(broken)


def test_what_the_estimator_takes_from_the_aggregator_does_not_load_flask() -> None:
    known = set(modules("aggregator"))
    taken = {
        found.module
        for found in imports("estimator")
        if found.package == "aggregator" and "dashboard" not in found.file.parts
    }
    # `aggregator.store.TallyStore` names a thing in a module: keep the part that is a module.
    names = sorted((taken | {name.rpartition(".")[0] for name in taken}) & known)
    assert not loaded_by(import_all(names)) & {"flask", "werkzeug", "gunicorn"}


def test_the_estimator_does_not_load_flask() -> None:
    # The dashboard is a web page of its own.
    names = [name for name in modules("estimator") if "dashboard" not in name]
    assert not loaded_by(import_all(names)) & {"flask", "werkzeug", "gunicorn"}


def test_the_command_line_starts_without_the_server_packages() -> None:
    names = [".".join(file.relative_to(ROOT).with_suffix("").parts) for file in files("sottovoce")]
    entry = [name for name in names if name == "sottovoce.__main__"]
    assert not loaded_by(import_all(entry)) & (SERVER_PACKAGES | UPLOAD_PACKAGES)


def test_an_app_loads_no_accounting() -> None:
    code = (
        "import client_sdk, client_sdk.client, client_sdk.worker, client_sdk.registry\n"
        "import sys\nassert not [n for n in sys.modules if n.startswith('client_sdk.accounting')]"
    )
    assert loaded_by(code)
