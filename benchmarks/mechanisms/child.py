"""Runs in the interpreter of one library: does what it is asked on its input, a line a job.

A job is `{"kind": KIND, "task": NAME, "seconds": S, "reports": N}`, of kind "client" (a report),
"server" (from N reports to estimates) or "tally" (up to the sums only). The answer is `{"seconds":
of one}`, or `{}` if the library has no such thing. What libraries print goes elsewhere.
"""

import json
import os
import sys
import time
import warnings
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import tasks  # noqa: E402

BATCH = 200


class Library:
    """One library's mechanisms, made once for each task."""

    def __init__(self, name):
        # Under another name: an adapter has that of what it imports.
        file = HERE / "adapters" / f"{name.replace('-', '_')}.py"
        spec = spec_from_file_location("adapter", file)
        self.adapter = module_from_spec(spec)
        spec.loader.exec_module(self.adapter)
        self.task = self.client = self.server = self.reports = None

    def take_up(self, task):
        """Make the client and the server of a task, and forget those of the last one."""
        if self.task != task:
            self.task, self.reports = task, None
            make = self.adapter.MECHANISMS.get(task.name)
            self.client, self.server = make(task) if make else (None, None)

    def client_seconds(self, seconds):
        """Return the time of one report, over batches of them that last so long."""
        if self.client is None:
            return None
        drawn = tasks.values(self.task.domain, BATCH)
        _batch(self.client, drawn)  # compiles, fills caches
        return _each(lambda: _batch(self.client, drawn), seconds) / BATCH

    def server_seconds(self, kind, seconds, count):
        """Return the time from `count` reports to estimates, or to sums."""
        server = self.server if kind == "server" else getattr(self.adapter, "tally_of", None)
        if self.server is None or server is None:
            return None
        if self.reports is None or len(self.reports) != count:
            drawn = tasks.values(self.task.domain, count)
            if hasattr(self.adapter, "reports_of"):
                self.reports = self.adapter.reports_of(self.task, self.client, drawn)
            else:
                self.reports = [self.client(value) for value in drawn]
            server(self.reports)
        return _each(lambda: server(self.reports), seconds)


def _batch(client, drawn):
    for value in drawn:
        client(value)


def _each(act, seconds):
    times, began = 0, time.process_time()
    while True:
        act()
        times += 1
        passed = time.process_time() - began
        if passed >= seconds:
            return passed / times


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    warnings.filterwarnings("ignore")
    library = Library(sys.argv[1])
    by_name = {task.name: task for task in tasks.TASKS}
    for asked in sys.stdin:
        job = json.loads(asked)
        library.take_up(by_name[job["task"]])
        if job["kind"] == "client":
            took = library.client_seconds(job["seconds"])
        else:
            took = library.server_seconds(job["kind"], job["seconds"], job["reports"])
        print(json.dumps({} if took is None else {"seconds": took}), file=answers, flush=True)


if __name__ == "__main__":
    main()
