"""Runs in the interpreter of one SDK: does one job, writes down what it saw.

Imports as little as it can, for its memory is measured. What it has to do stands in a file and not
on its command line: one of the SDKs uploads `sys.argv`.
"""

import json
import os
import sys
import time

WARM_UP = 200
CALLS = 2000
FLOOD = 50_000
MOST_FLOOD_SECONDS = 60.0


def memory_and_threads():
    """Return resident KiB and the number of threads, of this process."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields["VmRSS"].split()[0]), int(fields["Threads"])


def run(adapter, job, found):
    """Do a job; `found` collects what is reported."""
    kind = job["kind"]
    began = time.perf_counter()
    adapter.start(job["url"], job["state"], job.get("call") or kind)
    found["start_ms"] = (time.perf_counter() - began) * 1e3
    if kind == "memory":
        found["rss_init"], _ = memory_and_threads()
        adapter.first()
        time.sleep(0.5)
        found["rss_record"], found["threads"] = memory_and_threads()
    elif kind == "record":
        found.update(timed(adapter.calls[job["call"]]))
    elif kind == "flood":
        found.update(flood(adapter.calls[job["call"]]))
    elif kind == "fork":
        adapter.mark(job["token"], "parent")
        time.sleep(1.0)
        if os.fork() == 0:
            adapter.mark(job["token"], "child")
            sys.exit(0)
        os.wait()
    elif kind == "resume":
        adapter.first()
        deadline = time.monotonic() + job["seconds"]
        while time.monotonic() < deadline and not os.path.exists(job["enough"]):
            time.sleep(0.1)
    else:
        adapter.mark(job["token"], job["mark"])


def timed(call):
    """Return p50 and p99 of a call in microseconds, with pauses in which workers may work."""
    for _ in range(WARM_UP):
        call()
    time.sleep(0.5)
    clock, times = time.perf_counter_ns, []
    for number in range(CALLS):
        began = clock()
        call()
        times.append(clock() - began)
        if number % 20 == 19:
            time.sleep(0.002)
    times.sort()
    return {"p50_us": times[CALLS // 2] / 1e3, "p99_us": times[CALLS * 99 // 100] / 1e3}


def flood(call):
    """Return what memory grows by under many calls at once."""
    call()
    time.sleep(0.5)
    before, _ = memory_and_threads()
    deadline = time.monotonic() + MOST_FLOOD_SECONDS
    made = 0
    while made < FLOOD and time.monotonic() < deadline:
        for _ in range(100):
            call()
        made += 100
    return {"grown_kib": memory_and_threads()[0] - before, "calls": made}


def main():
    with open(sys.argv[1]) as file:
        job = json.load(file)
    parent = os.getpid()
    name = job["adapter"]
    # By path: the adapter of an SDK may have the SDK's own name.
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("adapter_" + name, f"{job['adapters']}/{name}.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found = {}
    try:
        run(module.Adapter(), job, found)
    finally:
        if os.getpid() == parent:
            found["ended"] = time.time()
            with open(job["result"], "w") as file:
                json.dump(found, file)


if __name__ == "__main__":
    main()
