"""Show, on a device, the exact bytes that would be sent, what they mean, and what was spent.

Reads the directory of the device's state and sends nothing. With --metrics, the metrics.toml of
the app, reports are told in words.
"""

import argparse
import json
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state", type=Path, metavar="DIR", required=True, help="a device's state directory"
    )
    parser.add_argument("--metrics", type=Path, metavar="FILE", help="the app's metrics.toml")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    from client_sdk import load
    from client_sdk.preview import read
    from client_sdk.state import FILE_NAME

    if not (args.state / FILE_NAME).exists():
        raise ValueError(f"--state must hold a {FILE_NAME}, {args.state} does not")
    registry = None if args.metrics is None else load(args.metrics)
    preview = read(args.state, registry)
    print(json.dumps(preview.as_json(), indent=2) if args.json else preview.in_words())
    return 0
