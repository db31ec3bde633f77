"""The SDK benchmark's own adapter works, so that its table is about the SDK and not about a bug."""

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "sdk"


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark's module, imported as its command does; gone again after the test."""
    monkeypatch.syspath_prepend(str(BENCHMARK))
    yield importlib.import_module("measuring")
    for name in ("measuring", "servers"):
        sys.modules.pop(name, None)


@pytest.fixture
def ours(measuring: Any) -> Any:
    return measuring.Sdk("sottovoce", Path(sys.executable))


@pytest.fixture
def url(measuring: Any) -> Any:
    with measuring.servers.sink() as sink:
        yield sink.url


def test_what_is_recorded_last_or_in_a_child_arrives_exactly_once(
    measuring: Any, ours: Any
) -> None:
    seconds, copies = measuring.recorded_just_before_exit(ours)
    assert copies == 1 and seconds < 1
    assert measuring.recorded_in_a_forked_child(ours) == 1
    assert ours.failures == []


@pytest.mark.slow  # after a failure the SDK waits, up to half a minute
def test_what_is_recorded_offline_arrives_exactly_once(measuring: Any, ours: Any) -> None:
    assert measuring.recorded_offline(ours) == 1
    assert ours.failures == []


@pytest.mark.parametrize("call", ["flag", "string"])
def test_what_is_timed_is_a_record_and_not_a_refusal(
    call: str, ours: Any, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A test runner is somewhere that a client stays silent.
    monkeypatch.setattr("client_sdk.consent.objection", lambda environment: None)
    adapter = ours.adapter.Adapter()
    adapter.start(url, str(tmp_path / "state"), call)
    for _ in range(3 * ours.adapter.FLAGS):
        adapter.calls[call]()
    adapter.client.close(5)
    assert not adapter.client.dropped


def test_costs_are_measured_of_a_fresh_process(ours: Any, url: str) -> None:
    least, median = ours.import_ms(1)
    assert 0 < least <= median
    found = ours.run("memory", url)
    assert found["rss_record"] >= found["rss_init"] > 0 and found["threads"] >= 1
    assert found["start_ms"] > 0
    assert ours.failures == []


def test_a_flood_of_records_while_the_server_hangs_takes_next_to_no_memory(
    measuring: Any, ours: Any
) -> None:
    """0.3 MB when measured on 2026-11-30; ten thousand values that waited took 2."""
    with measuring.servers.hung() as url:
        found = ours.run("flood", url, call="flag")
    assert found["calls"] == 50_000
    assert found["grown_kib"] < 1024
    assert ours.failures == []


def test_a_server_counts_a_repeated_batch_once_and_plain_copies_each(measuring: Any) -> None:
    with measuring.servers.sink() as sink:
        batch = b'{"sequence":1,"nonce":"00","reports":[{"metric":"exit"}]}'
        for _ in range(2):
            assert sink.take("/v1/reports", batch)[0] == 200
            sink.take("/any", b"token-exit")
        assert sink.copies(b'"metric":"exit"', 0, 0) == 1
        assert sink.copies(b"token-exit", 0, 0) == 2


@pytest.mark.parametrize("name", ["sentry", "posthog", "opentelemetry", "glean"])
def test_every_peer_is_pinned_to_one_version(name: str) -> None:
    pins = (BENCHMARK / "requirements" / f"{name}.txt").read_text().split()
    assert pins and all("==" in pin for pin in pins)
    assert (BENCHMARK / "adapters" / f"{name}.py").exists()


def test_the_documented_table_has_the_columns_that_are_printed(measuring: Any) -> None:
    run = importlib.import_module("run")
    sys.modules.pop("run")
    page = (BENCHMARK.parents[1] / "docs" / "benchmarks.md").read_text()
    assert run.line(run.HEADER) in page
    for name in run.NAMES:
        assert f"| {name} {run.version(name)}".strip() in page


def test_the_command_explains_itself() -> None:
    ran = subprocess.run(
        [sys.executable, str(BENCHMARK / "run.py"), "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Markdown" in ran.stdout
