"""docker/compose.yaml as an engine would read it, and its services as processes of this machine."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from aggregator.machine.server_program import find_server
from sottovoce.system import free_port
from tests.registries import Date, crashed, registry

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
PASSWORD = "a-password-of-this-test"
REGISTRY = registry(
    crashed(epoch="once", starts=Date("2026-01-01"), expires=Date("2100-01-01")), lifetime=12
)


def variables(path: Path, pattern: str = r"#?") -> dict[str, str]:
    """Return the variables of a file of settings; those that are commented out too."""
    found = re.findall(rf"^{pattern}([A-Z_]+)=(.*)$", path.read_text(), re.MULTILINE)
    assert len(dict(found)) == len(found), "a variable is there twice"
    return dict(found)


def interpolated(text: str, environment: Mapping[str, str]) -> str:
    """Fill in ${NAME:-default} and ${NAME:?message} as Compose does."""

    def value(match: re.Match[str]) -> str:
        name, kind, rest = match.groups()
        assert kind == "-" or environment.get(name), f"{name}: {rest}"
        return environment.get(name) or rest

    return re.sub(r"\$\{(\w+):([-?])([^}]*)\}", value, text)


def composed(**environment: str) -> dict[str, Any]:
    """Return compose.yaml with its variables filled in."""
    filled = interpolated((DOCKER / "compose.yaml").read_text(), environment)
    document = yaml.safe_load(filled)
    assert isinstance(document, dict)
    return document


@pytest.fixture(scope="session")
def compose() -> dict[str, Any]:
    return composed(STORE_PASSWORD=PASSWORD)


@dataclass
class Containers:
    """Services of compose.yaml as processes, their paths, names and ports mapped to a test's."""

    services: Mapping[str, Any]
    folder: Path
    store_port: int = field(default_factory=free_port)
    port: int = field(default_factory=free_port)
    dashboard_port: int = field(default_factory=free_port)
    running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    def mapped(self, word: str) -> str:
        """Translate what a container sees into what is here."""
        for inside, here in {
            "/etc/sottovoce/metrics.toml": str(self.folder / "metrics.toml"),
            "/etc/sottovoce": str(DOCKER / "redis"),
            "/var/lib/sottovoce": str(self.folder / "data"),
            "@store:6379": f"@127.0.0.1:{self.store_port}",
        }.items():
            word = word.replace(inside, here)
        ports = {"8080": str(self.port), "8090": str(self.dashboard_port)}
        return {"0.0.0.0": "127.0.0.1", **ports}.get(word, word)

    def environment(self, name: str) -> dict[str, str]:
        """Return a service's whole environment; nothing of the test's leaks in."""
        kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
        own = {key: self.mapped(value) for key, value in self.services[name]["environment"].items()}
        # An env_file comes before: what compose.yaml sets is not undone there.
        of_file = {"STORE_PASSWORD": PASSWORD, "SOTTOVOCE_SHARDS": "4", "SOTTOVOCE_HOST": "nowhere"}
        of_file |= {"SOTTOVOCE_PLANNED_DEVICES": "8192", "SOTTOVOCE_CANARY_DEVICES": "100"}
        return kept | {"PYTHONPATH": str(ROOT)} | of_file | own

    def _command(self, words: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "sottovoce", *map(self.mapped, words)]

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run a service that ends by itself."""
        return self._finished(name, self._command(self.services[name]["command"]))

    def health(self, name: str, *more: str) -> subprocess.CompletedProcess[str]:
        """Run a service's health check, in its environment."""
        how, program, *words = self.services[name]["healthcheck"]["test"]
        assert (how, program) == ("CMD", "sottovoce")
        return self._finished(name, self._command([*words, *more]))

    def _finished(self, name: str, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=self.environment(name),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def start(self, name: str) -> None:
        """Start a service."""
        command = self._command(self.services[name]["command"])
        self._start(name, command, self.environment(name))

    def start_store(self, **changed: str) -> None:
        """Start the store by its own script, with the shipped users and configuration."""
        for folder in ("store", "run"):
            (self.folder / folder).mkdir(mode=0o700, exist_ok=True)
        shell, script, program, *arguments = map(self.mapped, self.services["store"]["command"])
        assert program == "valkey-server"
        text = (DOCKER / "redis" / "store.conf").read_text()
        for shipped, ours in {
            "port 6379": f"port {self.store_port}",
            "bind * -::*": "bind 127.0.0.1",
            "dir /data": f"dir {self.folder / 'store'}",
            "aclfile /run/store/": f"aclfile {self.folder / 'run'}/",
        }.items():
            assert text.count(f"\n{shipped}") == 1, shipped
            text = text.replace(shipped, ours)
        (self.folder / "store.conf").write_text(text)
        shipped, *options = arguments
        assert shipped == str(DOCKER / "redis" / "store.conf")
        command = [shell, script, str(find_server()), str(self.folder / "store.conf"), *options]
        environment = self.environment("store") | {"STORE_RUN": str(self.folder / "run")} | changed
        self._start("store", command, environment)

    def _start(self, name: str, command: list[str], environment: Mapping[str, str]) -> None:
        with (self.folder / f"{name}.log").open("a") as log:
            self.running[name] = subprocess.Popen(
                command,
                env=environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def healthy(self, name: str) -> None:
        """Wait until a service's health check says so."""
        deadline = time.monotonic() + 90
        while (answer := self.health(name)).returncode:
            assert answer.returncode == 1, answer.stderr
            assert self.running[name].poll() is None, self.log(name)
            assert time.monotonic() < deadline, answer.stdout + self.log(name)
            time.sleep(0.2)

    def stop(self, name: str) -> int:
        """Send SIGTERM, as an engine does; return the exit status."""
        process = self.running.pop(name)
        process.terminate()
        return process.wait(60)


@pytest.fixture
def containers(compose: dict[str, Any], tmp_path: Path) -> Iterator[Containers]:
    made = Containers(compose["services"], tmp_path)
    (tmp_path / "metrics.toml").write_text(REGISTRY)
    # As the image makes them; a new volume is filled with them.
    for folder in ("data", "data/keys", "data/releases"):
        (tmp_path / folder).mkdir(mode=0o700)
    yield made
    for process in made.running.values():
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # workers too
        process.wait(30)
