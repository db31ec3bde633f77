"""What mechanisms cost, beside five libraries in one run: a report, and an estimate of many.

    python benchmarks/mechanisms/run.py                          # all, about six minutes
    python benchmarks/mechanisms/run.py --tasks RR,OUE-128 --rounds 3

Makes a virtual environment for each library (pins: requirements/) in a cache directory. Every
library runs in a process of its own; they take turns, ours first, on one core, `--rounds` times.
Times are of the processor, which other programs disturb least; figures are medians of the rounds,
ratios medians of the ratios within a round. epsilon is 1. Prints Markdown tables, and with --json
writes every round. Needs the packages of `pip install sottovoce` itself.

client  value to report, one at a time, as a device does
server  reports to the estimates of all values. Ours: rows of bytes to shares with errors and
        intervals; the sums alone stand in a column of their own. Peers start from the objects that
        their clients return. Local hashing of peers is measured on 1,000 reports and stretched.
limit   the bare arithmetic with numpy, on reports in the form that suits it best
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from tasks import TASKS, Task  # noqa: E402

from benchmarks.peers import CACHE, interpreter, line, machine, reason  # noqa: E402

PEERS = ("opendp", "diffprivlib", "pure-ldp", "multi-freq-ldpy", "ldp-toolbox")
SECURE = ("opendp", "diffprivlib")
"""Those whose noise comes from the operating system's CSPRNG, as ours does."""
CLIENT_HEADER = ("report", "ours /s", "CSPRNG peer /s", "ours is", "fastest peer /s", "ours is")
SERVER_HEADER = (
    "estimate",
    "reports",
    "ours ms",
    "fastest peer ms",
    "ours is",
    "sums ms",
    "limit ms",
    "of limit",
)


@dataclass
class Worker:
    """A library in its process."""

    name: str
    process: "subprocess.Popen[str]"

    def ask(self, kind: str, task: Task, seconds: float, reports: int = 0) -> float | None:
        """Return the seconds of one report or estimate, None if the library has no such thing."""
        assert self.process.stdin is not None and self.process.stdout is not None
        job = {"kind": kind, "task": task.name, "seconds": seconds, "reports": reports}
        print(json.dumps(job), file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.name} ended at {kind} {task.name}")
        found: float | None = json.loads(answer).get("seconds")
        return found


@dataclass
class Figures:
    """Seconds of one report or estimate by round, of those who have it."""

    task: Task
    rounds: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, seconds: float | None) -> None:
        """Note a round."""
        if seconds is not None:
            self.rounds.setdefault(name, []).append(seconds)

    def median(self, name: str) -> float:
        """Return the seconds of one."""
        return statistics.median(self.rounds[name])

    def fastest(self, names: Sequence[str]) -> str | None:
        """Return the fastest of those that were measured."""
        return min((name for name in names if name in self.rounds), key=self.median, default=None)

    def ratio(self, slow: str, fast: str) -> float:
        """Return how many times as long `slow` takes as `fast`, side by side."""
        pairs = zip(self.rounds[slow], self.rounds[fast], strict=True)
        return statistics.median(one / other for one, other in pairs)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = ",".join(task.name for task in TASKS)
    parser.add_argument("--tasks", default=known, help=f"separated by commas ({known})")
    parser.add_argument("--peers", default=",".join(PEERS), help="separated by commas; or none")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="turns of each (7)")
    parser.add_argument("--seconds", type=float, default=0.2, metavar="S", help="of a turn (0.2)")
    parser.add_argument("--core", type=int, metavar="N", help="to run on (the last)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where every round is written")
    parser.add_argument("--cache", type=Path, default=CACHE / "bench-mechanisms", metavar="DIR")
    args = parser.parse_args(arguments)
    names = [name for name in args.peers.split(",") if name not in ("", "none")]
    tasks = [task for task in TASKS if task.name in args.tasks.split(",")]
    if unknown := set(names) - set(PEERS):
        parser.error(f"--peers takes {', '.join(PEERS)}; got {', '.join(sorted(unknown))}")
    if unknown := set(args.tasks.split(",")) - {task.name for task in TASKS}:
        parser.error(f"--tasks takes {known}; got {', '.join(sorted(unknown))}")

    print(f"{datetime.now(UTC):%Y-%m-%d}, {machine()}; {args.rounds} rounds of {args.seconds} s\n")
    with ExitStack() as stack:
        workers, failures = [], []
        for name in ("sottovoce", "limits", *names):
            try:
                workers.append(stack.enter_context(working(name, args.cache, args.core)))
            except (OSError, subprocess.CalledProcessError) as error:
                failures.append(f"{name} could not be installed: {reason(error)}")
        clients = [clients_of(task, workers, args.rounds, args.seconds) for task in tasks]
        servers = [
            servers_of(task, workers, args.rounds, args.seconds) for task in tasks if task.reports
        ]
    for header, rows in (
        (CLIENT_HEADER, map(client_row, clients)),
        (SERVER_HEADER, map(server_row, servers)),
    ):
        print("\n".join(map(line, (header, ["---"] * len(header), *rows))) + "\n", flush=True)
    for failure in failures:
        print(failure)
    if args.json:
        args.json.write_text(json.dumps(as_json(clients, servers), indent=1) + "\n")
    return 0


@contextmanager
def working(name: str, cache: Path, core: int | None) -> Iterator[Worker]:
    """Start a library's process, on one core where that can be had."""
    print(f"starting {name}", file=sys.stderr)
    python = Path(sys.executable)
    if name in PEERS:
        python = interpreter(HERE / "requirements" / f"{name}.txt", cache)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with subprocess.Popen(
        [str(python), str(HERE / "child.py"), name],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        if hasattr(os, "sched_setaffinity"):
            allowed = os.sched_getaffinity(0)
            os.sched_setaffinity(process.pid, {max(allowed) if core is None else core})
        yield Worker(name, process)
        assert process.stdin is not None
        process.stdin.close()


def clients_of(task: Task, workers: list[Worker], rounds: int, seconds: float) -> Figures:
    """Measure reports, library by library, round by round."""
    figures = Figures(task)
    for turn in range(rounds):
        print(f"{task.name}: reports, round {turn + 1}", file=sys.stderr)
        for worker in workers:
            figures.add(worker.name, worker.ask("client", task, seconds))
    return figures


def servers_of(task: Task, workers: list[Worker], rounds: int, seconds: float) -> Figures:
    """Measure estimates, library by library, round by round."""
    figures = Figures(task)
    for turn in range(rounds):
        print(f"{task.name}: estimates, round {turn + 1}", file=sys.stderr)
        for worker in workers:
            count = task.subset if task.subset and worker.name in PEERS else task.reports
            took = worker.ask("server", task, seconds, count)
            figures.add(worker.name, took and took * task.reports / count)
            if worker.name == "sottovoce":
                figures.add("sums", worker.ask("tally", task, seconds, count))
    return figures


def client_row(figures: Figures) -> list[str]:
    """Return the cells of one task."""
    shown = [figures.task.name, f"{1 / figures.median('sottovoce'):,.0f}"]
    for names in (SECURE, PEERS):
        peer = figures.fastest(names)
        if peer is None:
            shown += ["-", "-"]
        else:
            times = times_as_fast(figures.ratio(peer, "sottovoce"))
            shown += [f"{1 / figures.median(peer):,.0f} ({peer})", times]
    return shown


def server_row(figures: Figures) -> list[str]:
    """Return the cells of one task."""
    peer = figures.fastest(PEERS)
    return [
        figures.task.name,
        f"{figures.task.reports:,}",
        milliseconds(figures.median("sottovoce")),
        "-" if peer is None else f"{milliseconds(figures.median(peer))} ({peer})",
        "-" if peer is None else times_as_fast(figures.ratio(peer, "sottovoce")),
        milliseconds(figures.median("sums")),
        milliseconds(figures.median("limits")),
        f"{figures.ratio('sottovoce', 'limits'):.1f}x",
    ]


def times_as_fast(ratio: float) -> str:
    return f"{ratio:.1f}x" if ratio < 100 else f"{ratio:,.0f}x"


def milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.2f}" if seconds < 0.1 else f"{1e3 * seconds:,.0f}"


def as_json(clients: list[Figures], servers: list[Figures]) -> dict[str, object]:
    """Return every round: seconds of one report or one estimate, by task and library."""
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "machine": machine(),
        "client_seconds": {figures.task.name: figures.rounds for figures in clients},
        "server_seconds": {figures.task.name: figures.rounds for figures in servers},
    }


if __name__ == "__main__":
    sys.exit(main())
