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
    (name,) = (word[9:] for word in sys.argv if word.startswith("--target="))
    atheris.Setup([f"{sys.executable} -m tests.fuzz.fuzz", *sys.argv[1:]], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
