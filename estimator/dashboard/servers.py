"""What only the servers themselves know: asked of their /metrics, and summed over them.

A server may be away, hang, or answer anything at all. Each gets a second, all at once, and what
cannot be used is said in one line a server.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Lock
from urllib.parse import urlsplit

import numpy as np
import requests
from prometheus_client.parser import text_string_to_metric_families
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError, ReadTimeoutError

from aggregator.problems import REFUSALS

SECONDS = 1.0
_MOST_BYTES = 1 << 20
"""Of 1,000 metrics it has some 200 KB."""
_REFUSED = "ldp_reports_rejected_total"
_WORKERS = "ldp_server_workers"
_DURATION = "ldp_upload_duration_seconds_bucket"
_VIOLATIONS = "dp_sensitivity_violation_total"
_FAMILIES = ("ldp_reports_rejected", _WORKERS, "ldp_upload_duration_seconds", _VIOLATIONS[:-6])


@dataclass(frozen=True)
class Told:
    """What servers count, since each was started.

    Attributes:
        refused: Uploads and enrolments that were refused, by reason.
        workers: Processes that run.
        violations: Uploads with a valid MAC and a report that no mechanism makes.
        durations: Uploads answered within each so many seconds, the last without a limit.
    """

    refused: Counter[str]
    workers: int
    violations: int
    durations: Counter[float]

    def within(self, part: float) -> float | None:
        """Return the seconds in which a part of the uploads was answered, as Prometheus reckons.

        None without uploads; infinite where it was longer than the histogram reaches.
        """
        bounds = sorted(self.durations)
        below = [self.durations[bound] for bound in bounds]
        if not below or not below[-1]:
            return None
        wanted = part * below[-1]
        if len(bounds) < 2 or wanted > below[-2]:
            return math.inf
        return float(np.interp(wanted, [0, *below[:-1]], [0.0, *bounds[:-1]]))


@dataclass(frozen=True)
class Answers:
    """What was asked of all servers.

    Attributes:
        asked: How many servers there are.
        told: Summed over those that can be read; None if none can.
        silent: Server, and why it cannot be read.
    """

    asked: int
    told: Told | None
    silent: tuple[tuple[str, str], ...]


class Servers:
    """Asks servers; safe for threads.

    Args:
        urls: Of their /metrics.
    """

    def __init__(self, urls: Sequence[str] = ()) -> None:
        self._urls = tuple(urls)
        self._threads = ThreadPoolExecutor(len(urls) or 1, "metrics")
        self._asked: dict[str, Future[Told]] = {}
        self._lock = Lock()

    def ask(self) -> Answers:
        """Ask all of them, in little more than a second."""
        if not self._urls:
            return Answers(0, None, ())
        asked = [(url, self._answer_of(url)) for url in self._urls]
        wait([future for _, future in asked], timeout=1.5 * SECONDS)
        found, silent = [], []
        for url, future in asked:
            told = _outcome(future)
            if isinstance(told, Told):
                found.append(told)
            else:
                silent.append((urlsplit(url).netloc, told))
        return Answers(len(asked), _sum(found) if found else None, tuple(silent))

    def _answer_of(self, url: str) -> "Future[Told]":
        # Whoever sends headers drop by drop is left alone with its thread, and not given another.
        with self._lock:
            asked = self._asked.get(url)
            if asked is None or asked.done():
                asked = self._asked[url] = self._threads.submit(_ask, url)
            return asked


def _outcome(future: "Future[Told]") -> Told | str:
    if not future.done():
        return "gave no whole answer within a second"
    try:
        return future.result()
    except (requests.Timeout, ReadTimeoutError):
        return "gave no answer within a second"
    except (requests.ConnectionError, HTTPError):
        return "cannot be reached, or ended its answer in the middle"
    except requests.RequestException as error:
        return f"cannot be asked ({type(error).__name__})"
    except ValueError as error:
        return str(error)


def _ask(url: str, clock: Callable[[], float] = time.monotonic) -> Told:
    ends = clock() + SECONDS
    with requests.Session() as session:
        session.trust_env = False  # no proxy, no password of a netrc
        session.mount(url, HTTPAdapter(max_retries=0))
        headers = {"Accept": "text/plain; version=0.0.4", "Accept-Encoding": "identity"}
        with session.get(
            url, headers=headers, timeout=SECONDS, stream=True, allow_redirects=False
        ) as answer:
            if answer.status_code != 200:
                raise ValueError(f"answers with status {answer.status_code}")
            body = b""
            while part := answer.raw.read1(65_536, decode_content=False):
                body += part
                if len(body) > _MOST_BYTES:
                    raise ValueError("answers with more than 1 MiB, which are not figures of ours")
                if clock() > ends:
                    raise ValueError("gave no whole answer within a second")
    return read(body)


def read(body: bytes) -> Told:
    """Read the answer of a server.

    Raises:
        ValueError: It is not what a server of ours says.
    """
    told = Told(Counter(), 0, 0, Counter())
    try:
        samples = list(_samples(body.decode()))
        for name, labels, value in samples:
            if not 0 <= value < 2**63:
                raise ValueError("no count")
            if name == _REFUSED and labels["reason"] in REFUSALS:
                told.refused[labels["reason"]] += int(value)
            elif name == _DURATION:
                told.durations[float(labels["le"])] += int(value)
        single = {name: int(value) for name, labels, value in samples if not labels}
        if _WORKERS not in single:
            raise ValueError("no server of ours")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise ValueError("answers with something else than a server's figures") from error
    return Told(told.refused, single[_WORKERS], single.get(_VIOLATIONS, 0), told.durations)


def _samples(text: str) -> Iterable[tuple[str, dict[str, str], float]]:
    lines = (line for line in text.splitlines() if _is_wanted(line))
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        for sample in family.samples:
            yield sample.name, sample.labels, sample.value


def _is_wanted(line: str) -> bool:
    name = line.split(" ", 3)[2] if line.startswith(("# TYPE ", "# HELP ")) else line
    return name.startswith(_FAMILIES)


def _sum(found: Sequence[Told]) -> Told:
    refused: Counter[str] = Counter()
    durations: Counter[float] = Counter()
    for told in found:
        refused.update(told.refused)
        durations.update(told.durations)
    workers = sum(told.workers for told in found)
    return Told(refused, workers, sum(told.violations for told in found), durations)
