"""From one SDK to its figures: each job in a fresh process of the SDK's own interpreter."""

import json
import os
import secrets
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import servers

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ARRIVAL_SECONDS = 8.0
RESUMED_SECONDS = 40.0
"""So long a program that was offline runs again: our SDK waits up to 30 s after a failure."""
MOST_SECONDS = 120.0


@dataclass
class Figures:
    """What was measured of one SDK; None: not measured.

    Attributes:
        import_ms: Least and median time of the import statement.
        start_ms: Least time of making a client.
        rss_mb: Memory beyond the harness's: after the start, and after one record.
        threads: After one record, the main one included.
        record_us: By call, p50 (median of the processes) and p99 (least of them).
        exit_s: From the end of the program to the end of the process: server up, hung.
        delivered: Copies, 1 is right: recorded just before exit, in a forked child, offline.
        flood_mb: Growth of memory over 50,000 records with a hung server.
        flood_calls: How many there were, if not 50,000.
        failures: Jobs that did not end well, in words.
    """

    import_ms: tuple[float, float] | None = None
    start_ms: float | None = None
    rss_mb: tuple[float, float] | None = None
    threads: int | None = None
    record_us: dict[str, tuple[float, float]] = field(default_factory=dict)
    exit_s: tuple[float, float] | None = None
    delivered: tuple[int, int, int] | None = None
    flood_mb: float | None = None
    flood_calls: int | None = None
    failures: list[str] = field(default_factory=list)


class Sdk:
    """One SDK, its interpreter and its adapter."""

    def __init__(self, name: str, python: Path) -> None:
        self.name = name
        self.python = python
        self.adapter = _adapter(name)
        self.failures: list[str] = []

    def import_ms(self, runs: int) -> tuple[float, float]:
        """Return least and median milliseconds of the import in fresh processes."""
        code = "import time\nbegan = time.perf_counter()\n"
        code += f"{self.adapter.IMPORT}\nprint((time.perf_counter() - began) * 1e3)"
        times = []
        with _home() as home:
            for number in range(runs + 1):
                command = [str(self.python), "-c", code]
                shown = subprocess.run(
                    command, env=self._environment(home), capture_output=True, text=True, check=True
                ).stdout
                if number:  # the first one fills the byte-code cache
                    times.append(float(shown))
        return min(times), statistics.median(times)

    def run(self, kind: str, url: str, home: Path | None = None, **job: Any) -> dict[str, Any]:
        """Do one job in a fresh process; returns what it found and how long its exit took."""
        with _home() as fresh:
            return self._run(kind, url, home or fresh, job)

    def _run(self, kind: str, url: str, home: Path, job: dict[str, Any]) -> dict[str, Any]:
        paths = {"state": str(home / "state"), "result": str(home / "result.json")}
        (home / "result.json").unlink(missing_ok=True)
        (home / "job.json").write_text(
            json.dumps(
                {
                    "kind": kind,
                    "url": url,
                    "adapter": self.name,
                    "adapters": str(HERE / "adapters"),
                    **paths,
                    **job,
                }
            )
        )
        with (home / "output").open("wb") as output:
            process = subprocess.Popen(
                [str(self.python), str(HERE / "child.py"), str(home / "job.json")],
                env=self._environment(home),
                cwd=home,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                process.wait(MOST_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        ended = time.time()
        found: dict[str, Any] = {}
        if (home / "result.json").exists():
            found = json.loads((home / "result.json").read_text())
        if process.returncode:
            said = (home / "output").read_text(errors="replace").strip().splitlines()
            self.failures.append(f"{kind}: status {process.returncode} {said[-1:]}")
        return {**found, "exit_s": ended - found.get("ended", ended)}

    def _environment(self, home: Path) -> dict[str, str]:
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_PROXY": "*"}
        if self.name == "sottovoce":
            environment["PYTHONPATH"] = str(ROOT)
        return environment


def measure(sdk: Sdk, runs: int) -> Figures:
    """Measure everything; a figure of several processes is the least disturbed of them."""
    figures = Figures(failures=sdk.failures)
    figures.import_ms = sdk.import_ms(runs)
    with servers.sink() as sink, servers.hung() as hung:
        _measure_memory(sdk, figures, sink.url, runs)
        calls = list(sdk.adapter.Adapter().calls)
        for call in calls:
            made = [sdk.run("record", sink.url, call=call) for _ in range(min(runs, 5))]
            figures.record_us[call] = (
                statistics.median(each["p50_us"] for each in made),
                min(each["p99_us"] for each in made),
            )
        flooded = sdk.run("flood", hung, call=calls[0])
        figures.flood_mb = flooded["grown_kib"] / 1024
        figures.flood_calls = flooded["calls"]
    measure_delivery(sdk, figures)
    return figures


def _measure_memory(sdk: Sdk, figures: Figures, url: str, runs: int) -> None:
    bare = Sdk("nothing", sdk.python)
    own = [bare.run("memory", url) for _ in range(min(runs, 5))]
    made = [sdk.run("memory", url) for _ in range(min(runs, 5))]
    init, record = (
        (statistics.median(e[key] for e in made) - statistics.median(e[key] for e in own)) / 1024
        for key in ("rss_init", "rss_record")
    )
    figures.rss_mb = init, record
    figures.start_ms = min(each["start_ms"] for each in made)
    figures.threads = max(each["threads"] for each in made)


def measure_delivery(sdk: Sdk, figures: Figures) -> None:
    """Measure exits, and how many copies of a record arrive."""
    up_seconds, at_exit = recorded_just_before_exit(sdk)
    figures.exit_s = up_seconds, exit_with_a_hung_server(sdk)
    figures.delivered = at_exit, recorded_in_a_forked_child(sdk), recorded_offline(sdk)


# Each home outlives the count of copies: one of the SDKs uploads from a process of its own.


def recorded_just_before_exit(sdk: Sdk) -> tuple[float, int]:
    """Return the seconds that the exit took, and the copies that arrived."""
    with _home() as home, servers.sink() as sink:
        token = secrets.token_hex(8)
        seconds: float = sdk.run("exit", sink.url, home, token=token, mark="exit")["exit_s"]
        return seconds, sink.copies(sdk.adapter.needle(token, "exit"), ARRIVAL_SECONDS)


def exit_with_a_hung_server(sdk: Sdk) -> float:
    """Return the seconds that the exit took."""
    with servers.hung() as url:
        found = sdk.run("exit", url, token=secrets.token_hex(8), mark="exit")
        return float(found["exit_s"])


def recorded_in_a_forked_child(sdk: Sdk) -> int:
    """Return the copies that arrived."""
    with _home() as home, servers.sink() as sink:
        token = secrets.token_hex(8)
        sdk.run("fork", sink.url, home, token=token)
        return sink.copies(sdk.adapter.needle(token, "child"), ARRIVAL_SECONDS)


def recorded_offline(sdk: Sdk) -> int:
    """Return the copies that arrived after the program was started again."""
    with _home() as home, servers.sink() as sink, ThreadPoolExecutor(1) as pool:
        token, enough = secrets.token_hex(8), home / "enough"
        sdk.run("exit", servers.nobody(), home, token=token, mark="offline")
        again = {"seconds": RESUMED_SECONDS, "enough": str(enough)}
        pool.submit(sdk.run, "resume", sink.url, home, **again)
        copies = sink.copies(sdk.adapter.needle(token, "offline"), RESUMED_SECONDS)
        enough.touch()
        return copies


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="sdk-bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def _adapter(name: str) -> ModuleType:
    spec = spec_from_file_location(f"adapter_{name}", HERE / "adapters" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
