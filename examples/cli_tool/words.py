"""Count the words of files: a command-line tool that tells nothing before it was asked to.

    python words.py --telemetry on      # or off: what waits to be sent is deleted
    python words.py README.md
    python words.py --format json README.md

A run takes a moment and waits for nobody: what it records is on disk when it ends, and some later
run finds it due and sends it.
"""

import argparse
import json
import os
from pathlib import Path

from client_sdk import Client

HERE = Path(__file__).parent
CHOICE = Path(os.environ.get("XDG_CONFIG_HOME", Path.home() / ".config")) / "words" / "telemetry"


def user_agreed() -> bool:
    return CHOICE.exists() and CHOICE.read_text() == "on"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--format", default="text", choices=["text", "json"])
    parser.add_argument("--telemetry", choices=["on", "off"], help="remember what you decided")
    args = parser.parse_args()

    if args.telemetry:
        CHOICE.parent.mkdir(parents=True, exist_ok=True)
        CHOICE.write_text(args.telemetry)
    telemetry = Client(
        HERE / "metrics.toml",
        endpoint="https://telemetry.example.org",
        write_key="printed by `sottovoce up`",
        enabled=user_agreed(),
    )
    if args.telemetry == "off":
        telemetry.opt_out()

    counts = {str(file): len(file.read_text().split()) for file in args.files}
    if counts:
        telemetry.record("format", args.format)
        telemetry.record("files", len(counts))
    if args.format == "json":
        print(json.dumps(counts))
    else:
        for name, words in counts.items():
            print(f"{words:8} {name}")


if __name__ == "__main__":
    main()
