"""Every mechanism of the catalogue at epsilon 1: exact loss, error beside the prediction, speed.

    python benchmarks/mechanisms/catalogue.py                       # all, a few minutes
    python benchmarks/mechanisms/catalogue.py --only loloha --collections 1000

Reports come from the code that devices run, with the operating system's randomness. The error is
the standard deviation, over collections of reports, of one estimate (a value that one device in
ten holds; a mean), over the population standard error that planning predicts; with 400 collections
it is good to 3.5 %. Speed is value to response, one at a time on one core, of a device that
remembers its permanent response where there is one.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from aggregator.tally import Tally
from client_sdk import loads
from client_sdk.mechanisms import CATALOGUE
from client_sdk.metric import Metric
from client_sdk.randomness import Coin
from estimator.estimate import estimate
from estimator.planning.figures import metric_law

VALUES = [f"v{number}" for number in range(16)]
SHARE = 0.1
KEEPS = "memoize = { epsilon_permanent = 2.0, distinct_values = 1 }"
TYPES = {
    "boolean": 'type = "boolean"',
    "list": f'type = "category"\nvalues = {VALUES}\ncatch_all = "v15"',
    "buckets": 'type = "number"\nrange = [0, 16]\nbuckets = 16\nmissing = 0',
    "mean": 'type = "number"\nrange = [0, 1]\nmissing = 0',
    "several": f'type = "multi_select"\nvalues = {VALUES}\nmost = 3',
    "string": f'type = "string"\ncandidates = {VALUES[:8]}',
}
ASKED = {
    "randomized_response": "boolean",
    "one_bit_mean": "mean",
    "piecewise": "mean",
    "discrete_laplace": "mean",
    "square_wave": "buckets",
    "hierarchical_histogram": "buckets",
    "exponential": "buckets",
    "multi_hot_unary": "several",
    "padding_and_sampling": "several",
    "rappor": "string",
    "count_mean_sketch": "string",
    "hadamard_count_mean_sketch": "string",
}
"""What is asked by each mechanism; by all others, one of a list."""
SHAPES = {
    "count_mean_sketch": ", cells = 64, hashes = 16",
    "hadamard_count_mean_sketch": ", cells = 64, hashes = 16",
    "rappor": ", bits = 32, cohorts = 8",
}
HEADER = "| mechanism | asked | exact epsilon | measured / predicted error | reports/s |"


def metric_of(name: str) -> Metric:
    """Declare a question for a mechanism, at epsilon 1."""
    mechanism = CATALOGUE[name]
    keeps = KEEPS if mechanism.memoizes else ""
    if name == "d_bit_flip":
        keeps = KEEPS.replace("2.0", "1.0")
    asked = name.removeprefix("memoized_")
    return loads(
        f"""
schema = 1
[project]
name = "benchmark"
lifetime_epsilon = 100
contact = "nobody@example.org"
[metrics.asked]
question = "What is measured?"
{TYPES[ASKED.get(name, "list")]}
sensitivity = "product"
epsilon = 1
{keeps}
mechanism = {{ name = "{asked}"{SHAPES.get(name, "")} }}
epoch = "day"
starts = 2026-12-01
expires = 2026-12-31
"""
    ).metrics["asked"]


def answers(metric: Metric, reports: int, chance: np.random.Generator) -> list[object]:
    """Draw what devices hold: one in ten the answer whose share is estimated."""
    held = chance.random(reports) < SHARE
    one, other = {
        "boolean": (True, False),
        "number": (9.5, 2.5) if metric.labels else (0.25, 0.25),
        "multi_select": (["v5", "v9"], ["v2"]),
        "string": ("v5", "v2"),
    }.get(metric.type, ("v5", "v2"))
    return [one if holds else other for holds in held]


def collected(metric: Metric, values: list[object], coin: Coin) -> Tally:
    """Randomize values as devices do, and count."""
    mechanism = metric.mechanism
    reports = np.zeros(mechanism.cohorts, np.int64)
    counts = np.zeros((mechanism.cohorts, mechanism.cells), np.int64)
    for value in values:
        cohort = coin.uniform(mechanism.cohorts)
        encoded, _ = metric.encode(value)
        permanent = mechanism.permanent(encoded, cohort, coin)
        response = mechanism.instantaneous(permanent, coin)
        reports[cohort] += 1
        if mechanism.kind == "cell":
            counts[cohort, response] += 1
        else:
            counts[cohort] += np.frombuffer(f"{response:0{mechanism.cells}b}".encode(), np.uint8)[
                ::-1
            ] - ord("0")
    return Tally(reports, counts)


def error_ratio(metric: Metric, collections: int, reports: int) -> float | None:
    """Return measured over predicted standard error; None where nothing is predicted."""
    law = metric_law(metric)
    if law is None:
        return None
    chance, coin = np.random.default_rng(8), Coin()
    found = []
    for _ in range(collections):
        tally = collected(metric, answers(metric, reports, chance), coin)
        result = estimate(metric, tally)
        if result.mean is not None:
            found.append(result.mean.value)
        else:
            shares = [entry.share for entry in result.entries if entry.share is not None]
            place = {"boolean": 1, "number": 9}.get(metric.type, 5)
            found.append(shares[place])
    return float(np.std(found, ddof=1) / law.error(0.25 if law.of == "mean" else SHARE, reports))


def per_second(metric: Metric, seconds: float) -> float:
    """Return how many responses a device makes in a second of its processor."""
    mechanism, coin = metric.mechanism, Coin()
    value = answers(metric, 1, np.random.default_rng(1))[0]
    encoded, _ = metric.encode(value)
    kept = mechanism.permanent(encoded, 0, coin) if mechanism.memoizes else None
    made, began = 0, time.process_time()
    while time.process_time() < began + seconds:
        for _ in range(200):
            permanent = mechanism.permanent(encoded, 0, coin) if kept is None else kept
            mechanism.instantaneous(permanent, coin)
        made += 200
    return made / (time.process_time() - began)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=sorted(CATALOGUE), help="one mechanism instead of all")
    parser.add_argument("--collections", type=int, default=400, metavar="N", help="(400)")
    parser.add_argument("--reports", type=int, default=500, metavar="N", help="of each (500)")
    parser.add_argument("--seconds", type=float, default=0.3, help="of timing for each (0.3)")
    args = parser.parse_args(arguments)
    if args.collections < 2 or args.reports < 1:
        parser.error("needs at least 2 collections of 1 report")
    print(HEADER)
    print("|---|---|---|---|---|")
    for name in [args.only] if args.only else CATALOGUE:
        metric = metric_of(name)
        ratio = error_ratio(metric, args.collections, args.reports)
        speed = per_second(metric, args.seconds)
        asked = ASKED.get(name, "list")
        shown = "-" if ratio is None else f"{ratio:.3f}"
        epsilon = f"1 - {float(1 - metric.mechanism.epsilon):.1e}"
        print(f"| `{name}` | {asked} | {epsilon} | {shown} | {speed:,.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
