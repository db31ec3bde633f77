"""Coverage-guided fuzzing of one target, for as long as libFuzzer's options say: make fuzz.

python -m tests.fuzz.fuzz intake -max_total_time=60 new/ tests/fuzz/corpus/intake
"""

import sys

import atheris

with atheris.instrument_imports(
    include=["aggregator", "client_sdk", "json", "werkzeug", "tests.fuzz.targets"]
):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    name, *options = sys.argv[1:]
    atheris.Setup([sys.argv[0], *options], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
