"""What is known about a canary's epoch: its true shares, and how many devices reported them.

DIRECTORY/METRIC/EPOCH.FINGERPRINT.truth, JSON, beside the release it will be compared with.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from client_sdk.metric import Label
from estimator.errors import DocumentError
from estimator.releases.whole_files import replace

SCHEMA = 1


@dataclass(frozen=True)
class Truth:
    """What the synthetic devices of one metric and epoch were drawn from.

    Attributes:
        metric: Name.
        epoch: ISO 8601 name.
        fingerprint: Version.
        shares: Value and true share; value None stands for all strings that are no candidate.
        begun: Devices that may have delivered. A writer counts them before they begin.
        delivered: Devices whose report the server has acknowledged, at most `begun`.
    """

    metric: str
    epoch: str
    fingerprint: str
    shares: tuple[tuple[Label | None, float], ...]
    begun: int = 0
    delivered: int = 0

    def share_of(self, value: Label | None) -> float:
        """Return the true share of a value; 0 for one that no device ever answers."""
        return next((s for v, s in self.shares if v == value and type(v) is type(value)), 0.0)

    def mismatch(self, n: int) -> str:
        """Say how a release's number of reports contradicts the devices', "" if it does not."""
        if n < self.delivered:
            return f"{self.delivered - n} of {self.delivered} acknowledged reports are missing"
        if n > self.begun:
            return f"{n} reports of {self.begun} devices: counted twice, or somebody else's"
        return ""


def path_of(directory: Path, metric: str, epoch: str, fingerprint: str) -> Path:
    """Return where the truth about an epoch lies."""
    return directory / metric / f"{epoch}.{fingerprint}.truth"


def write(truth: Truth, directory: Path) -> None:
    """Put it in place of what was known before."""
    path = path_of(directory, truth.metric, truth.epoch, truth.fingerprint)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"schema": SCHEMA, **asdict(truth)}
    replace(path, (json.dumps(document, indent=2, allow_nan=False) + "\n").encode())


def read(path: Path) -> Truth:
    """Read what is known.

    Raises:
        DocumentError: The file is no such document.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document.pop("schema") != SCHEMA:
            raise ValueError("another schema")
        shares = tuple((value, float(share)) for value, share in document.pop("shares"))
        return Truth(**document, shares=shares)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DocumentError(path.name, f"must be a truth ({error!r})", str(path)) from error


def truths(directory: Path) -> Mapping[tuple[str, str, str], Truth]:
    """Return what is known, by metric, epoch and fingerprint."""
    found = [read(path) for path in sorted(directory.glob("*/*.truth"))]
    return {(each.metric, each.epoch, each.fingerprint): each for each in found}
