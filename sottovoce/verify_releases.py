"""`sottovoce releases verify`: are these the releases that were signed?"""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from aggregator.keyring.keys import Keys
from aggregator.settings import ServerSettings
from estimator.releases.files import check_tables
from estimator.releases.signatures import KEYS_FILE, faults, read_public_keys


def verify(directory: Path, keys_file: Path | None, *, as_json: bool) -> int:
    """Print what is wrong with the releases of a directory; return the exit status.

    Args:
        directory: Of the releases.
        keys_file: Public keys to trust; None: see `sottovoce releases --help`.
        as_json: Print a document instead of lines.
    """
    public, trusted = _public_keys(directory, keys_file)
    documents = len(list(directory.glob("*/*.json")))
    findings = [*faults(directory, public), *check_tables(directory)]
    if as_json:
        problems = [
            {"path": str(found.path.relative_to(directory)), "problem": found.problem}
            for found in findings
        ]
        print(json.dumps({"releases": documents, "keys": trusted, "problems": problems}, indent=2))
    else:
        for found in findings:
            print(f"{found.path.relative_to(directory)} {found.problem}")
        good = "all good" if not findings else f"{len(findings)} problems"
        print(f"{documents} releases, {good}; keys: {trusted}")
    return 1 if findings else 0


def _public_keys(directory: Path, keys_file: Path | None) -> tuple[Mapping[int, bytes], str]:
    if keys_file is not None:
        return read_public_keys(keys_file), str(keys_file)
    own = ServerSettings.from_env(os.environ).keys_file
    if own.exists():
        return Keys.load(own).signing.public, str(own)
    beside = directory / KEYS_FILE
    print(
        f"Keys from {beside}, which lies with the releases: this finds changes, and nobody who has "
        "replaced both. Name another copy with --keys.",
        file=sys.stderr,
    )
    return read_public_keys(beside), str(beside)
