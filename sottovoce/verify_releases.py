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

_CHECKED = (
    "Checked: documents against their signatures, tables against their documents. Not checked: "
    "pages and pictures, which are drawn from the documents."
)


def own_key_file(data: Path | None) -> Path:
    """Return where the server's keys are, here if anywhere.

    Args:
        data: Directory of `sottovoce up`; None: the environment names the file.
    """
    return ServerSettings.from_env(os.environ).keys_file if data is None else data / "keys.json"


def verify(
    directory: Path, metric: str | None, keys_file: Path | None, own: Path, *, as_json: bool
) -> int:
    """Print what is wrong with the releases of a directory; return the exit status.

    Args:
        directory: Of the releases.
        metric: Look at this one's releases only.
        keys_file: Public keys to trust; None: see `sottovoce releases --help`.
        own: The server's key file, if it is here.
        as_json: Print a document instead of lines.

    Raises:
        ValueError: There is no such metric, or there are no keys.
    """
    documents = list(directory.glob("*/*.json"))
    if metric is not None and metric not in {path.parent.name for path in documents}:
        raise ValueError(f"{metric}: no such release; `sottovoce releases` lists them")
    public, trusted = _public_keys(directory, keys_file, own)
    count = sum(metric in (None, path.parent.name) for path in documents)
    findings = [
        found
        for found in (*faults(directory, public), *check_tables(directory))
        if metric in (None, found.path.parent.name)
    ]
    if as_json:
        problems = [
            {"path": str(found.path.relative_to(directory)), "problem": found.problem}
            for found in findings
        ]
        print(json.dumps({"releases": count, "keys": trusted, "problems": problems}, indent=2))
    else:
        for found in findings:
            print(f"{found.path.relative_to(directory)} {found.problem}")
        good = "all good" if not findings else f"{len(findings)} problems"
        print(f"{count} releases, {good}; keys: {trusted}\n{_CHECKED}")
    return 1 if findings else 0


def _public_keys(
    directory: Path, keys_file: Path | None, own: Path
) -> tuple[Mapping[int, bytes], str]:
    if keys_file is not None:
        if not keys_file.exists():
            raise ValueError(f"--keys must name a file of public keys, {keys_file} does not exist")
        return read_public_keys(keys_file), str(keys_file)
    if own.exists():
        return Keys.load(own).signing.public, str(own)
    beside = directory / KEYS_FILE
    if not beside.exists():
        raise ValueError(
            f"there are no public keys to verify with: neither {own} nor {beside} exists; name a "
            "file of them with --keys"
        )
    print(
        f"Keys from {beside}, which lies with the releases: this finds changes, and nobody who has "
        "replaced both. Name another copy with --keys.",
        file=sys.stderr,
    )
    return read_public_keys(beside), str(beside)
