"""What the SDK costs its host, and what it delivers, beside four others in one run.

    python benchmarks/sdk/run.py                     # all, about ten minutes
    python benchmarks/sdk/run.py --only sottovoce,glean --runs 3

Makes a virtual environment for each SDK (pins: requirements/) in a cache directory, talks only to
servers that it opens on 127.0.0.1, and prints Markdown tables. Linux only: it reads /proc. Needs
the packages of `pip install sottovoce` itself, for the server that our SDK believes.

import    the import statement alone, in fresh processes: least and median
start     making a client: least
RSS       beyond that of the same program without an SDK: after the start, after one record
record    one call on the calling thread: median of the processes' p50, least of their p99
exit      from the last line of the program to the end of its process, one record unsent
copies    1 is right: recorded just before exit; in a forked child; with nobody listening, then
          the program is started again, records something else and runs for 40 s at most
flood     growth of RSS over 50,000 records while the server accepts and never answers
"""

import argparse
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

from measuring import Figures, Sdk, measure  # noqa: E402

from benchmarks.peers import CACHE, interpreter, line, machine, reason  # noqa: E402

NAMES = ("sottovoce", "sentry", "posthog", "opentelemetry", "glean")
HEADER = (
    "SDK",
    "import ms",
    "start ms",
    "RSS MB",
    "threads",
    "record p50 / p99 us",
    "exit s, up / hung",
    "copies: exit / fork / offline",
    "flood MB",
)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(NAMES), help="names, separated by commas")
    parser.add_argument("--runs", type=int, default=9, metavar="N", help="processes a figure (9)")
    parser.add_argument(
        "--cache", type=Path, default=CACHE / "bench-sdk", metavar="DIR", help="for the venvs"
    )
    args = parser.parse_args()
    names = args.only.split(",")
    if unknown := set(names) - set(NAMES):
        parser.error(f"--only takes {', '.join(NAMES)}; got {', '.join(sorted(unknown))}")

    print(f"{datetime.now(UTC):%Y-%m-%d}, {machine()}\n")
    print(line(HEADER))
    print(line(["---"] * len(HEADER)))
    calls, failures = [], []
    for name in names:
        print(f"measuring {name}", file=sys.stderr)
        try:
            python = interpreter(HERE / "requirements" / f"{name}.txt", args.cache)
        except (OSError, subprocess.CalledProcessError) as error:
            print(line([name, f"could not be installed: {reason(error)}", *["-"] * 7]))
            continue
        figures = measure(Sdk(name, python), args.runs)
        print(line(row(name, version(name), figures)), flush=True)
        calls += [(name, call, *times) for call, times in figures.record_us.items()]
        failures += [f"{name}: {each}" for each in figures.failures]
    print("\n" + line(["SDK", "call", "p50 us", "p99 us"]) + "\n" + line(["---"] * 4))
    for name, call, p50, p99 in calls:
        print(line([name, f"`{call}`", f"{p50:.1f}", f"{p99:.0f}"]))
    for failure in failures:
        print(f"\n{failure}")
    return 0


def version(name: str) -> str:
    """Return the version that an SDK is pinned to, empty for our own."""
    package = {"sentry": "sentry-sdk", "opentelemetry": "opentelemetry-sdk", "glean": "glean-sdk"}
    pins = (HERE / "requirements" / f"{name}.txt").read_text()
    versions = dict(pin.split("==") for pin in pins.split())
    return versions.get(package.get(name, name), "")


def row(name: str, version: str, figures: Figures) -> list[str]:
    """Return the cells of one SDK; the first call stands for all."""
    call = next(iter(figures.record_us))
    flood = f"{figures.flood_mb:.1f}"
    if figures.flood_calls != 50_000:
        flood += f" ({figures.flood_calls} calls)"
    return [
        f"{name} {version}".strip(),
        "{:.0f} / {:.0f}".format(*figures.import_ms or ()),
        f"{figures.start_ms:.0f}",
        "{:.1f} / {:.1f}".format(*figures.rss_mb or ()),
        str(figures.threads),
        "{:.1f} / {:.0f}".format(*figures.record_us[call]),
        "{:.1f} / {:.1f}".format(*figures.exit_s or ()),
        "{} / {} / {}".format(*figures.delivered or ()),
        flood,
    ]


if __name__ == "__main__":
    sys.exit(main())
