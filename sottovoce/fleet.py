"""Fleets of devices for load and for accuracy: complete clients, and light simulated ones.

A simulated device runs the SDK's own mechanism, report, authentication and transport code with
fresh operating-system randomness; it leaves out only what a single upload does not need, the
state on disk. Complete clients are `client_sdk.Client` with their own SQLite state.
"""

import json
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from client_sdk import Client, Registry, loads
from client_sdk.authentication import batch_mac, erase_mac
from client_sdk.errors import TransportError
from client_sdk.metric import Metric
from client_sdk.new_state import SECRET_BYTES
from client_sdk.pending import current_epoch
from client_sdk.randomness import Coin
from client_sdk.recorder import cohort_of_report, permanent_response
from client_sdk.report import Report, encode_batch, encode_erasure, report_to_json
from client_sdk.sealed_transport import transport_for
from client_sdk.spreading import is_turn, takes_part
from client_sdk.transport import HttpTransport, Reply, Transport
from sottovoce.population import Population, recordable

_SLICE = 100
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Plan:
    """What a fleet does.

    Attributes:
        registry: Text of metrics.toml.
        endpoint: Base URL of the server.
        write_key: For enrolment.
        populations: Distribution of each metric's values.
        participation: Per metric the share of devices that use the feature, 1 if not given.
        seed: Of the populations; noise has none.
        now: Unix time that devices take for the present; None: the true one.
        erase: Whether devices have themselves erased once they have delivered; tallies keep what
            they reported, the ledger does not.
    """

    registry: str
    endpoint: str
    write_key: str
    populations: Mapping[str, Population]
    participation: Mapping[str, float] = field(default_factory=dict)
    seed: int = 1
    now: float | None = None
    erase: bool = False


@dataclass
class Tour:
    """What a fleet's devices met.

    Attributes:
        devices: Devices that delivered.
        reports: Verdicts of the server, per report.
        dropped: Values that devices did not report, by reason: not_sampled, not_its_turn.
        held: Reports of complete clients that may not leave before their epoch ends, and so were
            not delivered.
    """

    devices: int = 0
    reports: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    held: int = 0

    def add(self, other: "Tour") -> None:
        """Count another tour's devices too."""
        self.devices += other.devices
        self.reports.update(other.reports)
        self.dropped.update(other.dropped)
        self.held += other.held


Progress = Callable[[int], None]
"""Called with the number of devices that have just delivered."""


def run(plan: Plan, devices: int, complete: int, processes: int, progress: Progress) -> Tour:
    """Let a fleet record and deliver once.

    Args:
        plan: What the devices do.
        devices: How many there are.
        complete: How many of them are complete clients; the others are simulated.
        processes: Simulating processes.
        progress: Told about each slice of devices.

    Raises:
        TransportError: The server stopped answering.
    """
    complete = min(complete, devices)
    slices = [
        _Slice(plan, first, min(_SLICE, end - first), end == complete)
        for start, end in ((0, complete), (complete, devices))
        for first in range(start, end, _SLICE)
    ]
    tour = Tour()
    # Leaving the block ends the workers, whatever they are doing.
    with get_context("spawn").Pool(processes, initializer=_leave_signals) as pool:
        for part in pool.imap_unordered(_run_slice, slices):
            tour.add(part)
            progress(part.devices)
    return tour


def run_here(plan: Plan, devices: int, complete: int) -> Tour:
    """Let a small fleet record and deliver once, from this process.

    Args:
        plan: What the devices do.
        devices: How many there are.
        complete: How many of them are complete clients; the others are simulated.

    Raises:
        TransportError: The server stopped answering.
    """
    complete = min(complete, devices)
    tour = _complete_slice(plan, 0, complete)
    tour.add(_simulated_slice(plan, complete, devices - complete))
    return tour


@dataclass(frozen=True)
class _Slice:
    plan: Plan
    first: int
    size: int
    complete: bool


def _leave_signals() -> None:
    """Ctrl-C is the owner's to handle; it ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_slice(part: _Slice) -> Tour:
    run_one = _complete_slice if part.complete else _simulated_slice
    return run_one(part.plan, part.first, part.size)


def _values(plan: Plan, first: int, size: int) -> Iterator[dict[str, str]]:
    """Yield what each device of a slice would answer: a function of seed and device number."""
    chance = np.random.default_rng([plan.seed, first])
    columns = {}
    for name, population in plan.populations.items():
        uses = chance.random(size) < plan.participation.get(name, 1.0)
        columns[name] = list(zip(population.draw(size, chance), uses, strict=True))
    for row in range(size):
        yield {name: column[row][0] for name, column in columns.items() if column[row][1]}


def _simulated_slice(plan: Plan, first: int, size: int) -> Tour:
    registry = loads(plan.registry)
    http = HttpTransport(plan.endpoint, plan.write_key)
    transport = transport_for(http, registry.seal)
    tour = Tour()
    now = time.time() if plan.now is None else plan.now
    for values in _values(plan, first, size):
        secret = os.urandom(SECRET_BYTES)
        reports = []
        for name, text in values.items():
            metric = registry.metrics[name]
            reason = _refusal(metric, secret, now)
            if reason is None:
                reports.append(report_of(metric, secret, text, now))
            else:
                tour.dropped[reason] += 1
        if reports:
            tour.reports.update(_deliver(transport, reports, plan.erase))
        tour.devices += 1
    http.close()
    return tour


def _refusal(metric: Metric, secret: bytes, now: float) -> str | None:
    """Return why a device leaves a metric out, as its secret decides; None if it reports."""
    if not takes_part(secret, metric):
        return "not_sampled"
    if not is_turn(secret, metric, current_epoch(metric, now)):
        return "not_its_turn"
    return None


def report_of(metric: Metric, secret: bytes, text: str, now: float) -> str:
    """Randomize one value as a complete client does, without a state.

    What a complete client would hold back until its epoch has ended leaves at once.
    """
    encoded, _ = metric.encode(recordable(metric, text))
    coin = Coin()
    cohort = cohort_of_report(secret, metric, coin)
    if metric.memoize is None:
        permanent = metric.mechanism.permanent(encoded, cohort, coin)
    else:
        permanent = permanent_response(secret, metric, encoded, cohort)
    response = metric.mechanism.instantaneous(permanent, coin)
    epoch = current_epoch(metric, now)
    return report_to_json(
        Report(metric.name, metric.fingerprint, epoch, cohort, response), metric.mechanism
    )


def _deliver(transport: Transport, reports: list[str], erase: bool) -> list[str]:
    """Enrol a device and send its one batch; the same bytes again while the server is busy."""
    identity = _until_answered(transport.enrol, 201)
    device, key = identity["device"], bytes.fromhex(str(identity["key"]))
    body = encode_batch(str(device), 1, os.urandom(16).hex(), reports)
    answer = _until_answered(partial(transport.send, body, batch_mac(key, body)), 200)
    if erase:
        body = encode_erasure(str(device), os.urandom(16).hex())
        _until_answered(partial(transport.erase, body, erase_mac(key, body)), 200)
    return list(answer["reports"])


def _until_answered(call: Callable[[], Reply], wanted: int) -> dict[str, Any]:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            reply = call()
            if reply.status == wanted:
                return dict(json.loads(reply.body))
            problem = f"status {reply.status}: {reply.body[:200].decode(errors='replace')}"
            if reply.status not in (429, 503):
                raise TransportError(f"the server refused a simulated device, {problem}")
            pause = reply.retry_after or 0.5
        except TransportError as error:
            if time.monotonic() > deadline:
                raise
            problem, pause = str(error), 0.5
        if time.monotonic() > deadline:
            raise TransportError(f"the server did not take a simulated device, {problem}")
        time.sleep(min(pause, 2.0))


def _complete_slice(plan: Plan, first: int, size: int) -> Tour:
    registry = loads(plan.registry)
    tour = Tour()
    with (
        tempfile.TemporaryDirectory(prefix="sottovoce-clients-") as folder,
        ThreadPoolExecutor(8) as pool,
    ):
        jobs = [
            pool.submit(_complete_client, plan, registry, Path(folder) / str(index), values)
            for index, values in enumerate(_values(plan, first, size))
        ]
        for job in jobs:
            tour.add(job.result())
    return tour


def _complete_client(
    plan: Plan, registry: Registry, directory: Path, values: Mapping[str, str]
) -> Tour:
    """Run one app: record, flush, close."""
    client = Client(
        registry,
        endpoint=plan.endpoint,
        write_key=plan.write_key,
        enabled=True,
        respect_environment=False,  # the devices are made up: no user or build server objects
        state_dir=directory,
        clock=time.time if plan.now is None else lambda: float(plan.now or 0.0),
    )
    for name, text in values.items():
        client.record(name, recordable(registry.metrics[name], text))
    deadline = time.monotonic() + _PATIENCE_SECONDS
    held = 0
    while not client.flush(timeout_seconds=20.0):
        held = _held(client, time.time() if plan.now is None else plan.now)
        if held:
            break
        status = client.status()
        if time.monotonic() > deadline or status.summary != "collecting":
            raise TransportError(f"a complete client could not deliver: {status}")
        time.sleep(0.5)
    status = client.status()
    refused = status.refused
    # Clamped values are counted there, but reported.
    dropped = {reason: count for reason, count in status.dropped.items() if reason != "clamped"}
    if plan.erase and not client.erase(_PATIENCE_SECONDS):
        raise TransportError("the server did not confirm that it has erased a complete client")
    client.close()
    accepted = len(values) - sum(refused.values()) - sum(dropped.values()) - held
    return Tour(1, Counter({"accepted": accepted, **refused}), Counter(dropped), held)


def _held(client: Client, now: float) -> int:
    """Return how many reports wait for their epoch's end; 0 while others wait to be sent."""
    preview = client.preview()
    held = sum(report.not_before > now for report in preview.waiting)
    return held if preview.upload is None and held == len(preview.waiting) else 0
