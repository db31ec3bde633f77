"""What the browser module must repeat byte for byte, worked out by the Python client.

    python -m tests.client_sdk.web_vectors > tests/client_sdk/web_vectors.json

Random words are injected: each case notes the bytes that its draw used up, no more and no fewer.
"""

import json
import unicodedata
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any

from client_sdk.authentication import answer_mac, batch_mac
from client_sdk.mechanisms import Mechanism, build
from client_sdk.mechanisms.generalized_randomized_response import GeneralizedRandomizedResponse
from client_sdk.mechanisms.local_hashing import BinaryLocalHashing, OptimizedLocalHashing
from client_sdk.mechanisms.one_bit_mean import OneBitMean
from client_sdk.mechanisms.randomized_response import RandomizedResponse
from client_sdk.mechanisms.rappor import Rappor
from client_sdk.mechanisms.unary import OptimizedUnary, SymmetricUnary
from client_sdk.metric import FOREVER, Memoize, Metric
from client_sdk.randomness import ONE, Coin, PrfStream, Source
from client_sdk.recorder import cohort_of_report, permanent_response
from client_sdk.report import (
    MAX_BATCH_REPORTS,
    REFUSAL_REASONS,
    Report,
    encode_batch,
    report_to_json,
)
from client_sdk.web_definition import definition

SECRET = bytes(range(32))
DRAWS = 5
"""Reports of each value."""
STRINGS = (
    "",
    "a",
    "https://example.org/",
    "Zürich",
    "Zu\u0308rich",  # the same in NFC
    "\u1100\u1161\u11a8",  # conjoining letters
    "\u0958",  # NFC of one character makes two
    "\U0001f9ea and \U00010348",
    "\ud800 alone \udfff",
    "nul \x00 within",
    "e\u0301" * 600,  # NFC halves what the first cut left
    "x" * 1023 + "\u0958y",
    "\U0001f9ea" * 1030,
)
HASHED = ("Zürich", "", "\U00010348\U0001f9ea\U0010ffff", "\ud800\x7f\x80\u07ff\u0800\uffff")
"""Characters of every length in UTF-8, first and last ones among them."""


class Recorded:
    """A byte source that remembers what it gave: first `first`, then a stream of its own."""

    def __init__(self, name: str, first: bytes = b"") -> None:
        self.given = b""
        self._first = first
        self._stream = PrfStream(b"w" * 32, name.encode())

    def __call__(self, count: int) -> bytes:
        head, self._first = self._first[:count], self._first[count:]
        drawn = head + self._stream(count - len(head))
        self.given += drawn
        return drawn


def metric_of(mechanism: Mechanism, **fields: Any) -> Metric:
    """A metric around a mechanism: of its type only what the mechanism needs."""
    if mechanism.encodes == "string":
        assert mechanism.epsilon_permanent is not None
        shape: dict[str, Any] = {
            "type": "string",
            "missing": "",
            "memoize": Memoize(Decimal(40), 2),
        }
    elif mechanism.encodes == "number":
        shape = {"type": "number", "edges": (Decimal(0), Decimal("59.9")), "missing": 0}
    elif mechanism.name == "randomized_response":
        shape = {"type": "boolean", "labels": (False, True)}
    else:
        assert mechanism.domain is not None
        labels = tuple(f"value {index}" for index in range(mechanism.domain))
        shape = {"type": "category", "labels": labels, "catch_all": mechanism.domain - 1}
    declared: dict[str, Any] = {
        "name": "asked.once_2",
        "question": "Which one?",
        "mechanism": mechanism,
        "epsilon": mechanism.epsilon,
        "epoch": "once",
        "starts": date(2026, 12, 1),
        "expires": FOREVER,
        "sensitivity": "census",
        "owners": ("team@example.org",),
    }
    return Metric(**{**declared, **shape, **fields})


def mechanisms() -> Iterator[tuple[str, Mechanism]]:
    """Every mechanism of browsers, at the edges of its parameters and as people use it."""
    last = ONE - 1
    yield "rr epsilon 1", RandomizedResponse.from_epsilon(1)
    yield "rr two coins", RandomizedResponse.from_probabilities("0.75", "0.25")
    yield "rr turned round", RandomizedResponse(ONE // 4, 3 * ONE // 4)
    yield "rr least and most", RandomizedResponse(last, 1)
    yield "grr domain 2", GeneralizedRandomizedResponse.from_epsilon(2, 1)
    yield "grr domain 3", GeneralizedRandomizedResponse.from_epsilon(3, "0.1")
    yield "grr domain 7, most", GeneralizedRandomizedResponse(7, last)
    yield "grr domain 300", GeneralizedRandomizedResponse.from_epsilon(300, 4)
    yield "sue domain 2", SymmetricUnary.from_epsilon(2, 1)
    yield "sue domain 13", SymmetricUnary.from_epsilon(13, 2)
    yield "sue domain 9, 1 and 2**64 - 1", SymmetricUnary(9, last, 1)
    yield "oue domain 8", OptimizedUnary.from_epsilon(8, 1)
    yield "oue domain 300", OptimizedUnary.from_epsilon(300, 3)
    yield "oue domain 5, 1 and 2", OptimizedUnary(5, 2, 1)
    for domain, epsilon, cells in ((2, 1, 3), (5, 1, 2), (200, 2, 8), (130, 1, 5), (90, 3, 16)):
        name = f"olh domain {domain}, {cells} cells"
        yield name, OptimizedLocalHashing.from_epsilon(domain, epsilon, cells)
    yield "olh as declared", build("optimized_local_hashing", domain=250, epsilon=5)
    yield "olh of one digit", OptimizedLocalHashing(100, 128, last)
    yield "blh domain 2", BinaryLocalHashing.from_epsilon(2, 1, 2)
    yield "blh domain 300", BinaryLocalHashing.from_epsilon(300, "0.5", 2)
    yield "mean epsilon 1", OneBitMean.from_epsilon(1)
    yield "mean, least noise", OneBitMean(1 << 31)
    yield "mean, least told", OneBitMean((1 << 63) - (1 << 31))
    epsilons = {"epsilon": 1, "epsilon_permanent": 4}
    yield "rappor", Rappor.from_epsilons(128, 2, 64, **epsilons)
    yield "rappor one cohort", Rappor.from_epsilons(129, 2, 1, **epsilons)
    yield "rappor most cohorts", Rappor.from_epsilons(16, 3, 65536, **epsilons)
    yield "rappor width 1", Rappor(1, 1, 3, f="0.5", p="0.25", q="0.75")
    yield "rappor thresholds 0 and 2**64", Rappor(31, 4, 7, f=0, p=0, q=1)
    yield "rappor all bits", Rappor(12, 12, 2, f="0.25", p="0.5", q="0.75")
    yield "rappor widest", Rappor.from_epsilons(4096, 16, 5, **epsilons)


def values_of(mechanism: Mechanism) -> list[Any]:
    """Values to report: the ends, and some between."""
    if mechanism.encodes == "string":
        return list(HASHED[: 1 if mechanism.cells > 1000 else None])
    assert mechanism.domain is not None
    last = mechanism.domain - 1
    return sorted({0, 1, last // 3, last // 2, last - 1, last})


def report_cases() -> Iterator[dict[str, Any]]:
    """Definitions, and reports of several answers to each."""
    for name, mechanism in mechanisms():
        metric = metric_of(mechanism)
        draws = []
        for value in values_of(mechanism):
            for number in range(DRAWS):
                source = Recorded(f"{name} {value!a} {number}", crafted(mechanism, number))
                # The device's secret decides the cohort of remembered noise.
                secret = bytes([number]) * 32 if metric.memoize else SECRET
                draws.append(drawn(metric, answer_of(metric, value), secret, source, number))
        yield {"name": name, "definition": definition(metric), "draws": draws}


def crafted(mechanism: Mechanism, number: int) -> bytes:
    """First bytes of a draw: some of chance, then words at the edges."""
    if mechanism.kind == "bits" and mechanism.cells > 1 and number == 2:
        # Every lane ties with the second stage's first threshold: more ties than spare words.
        parameters = mechanism.parameters()
        threshold = parameters.get("one_if_one", parameters.get("report_if_one", 0))
        return bytes([min(threshold >> 56, 255)]) * mechanism.cells
    return {3: b"\xff" * 16, 4: bytes(8)}.get(number, b"")


def answer_of(metric: Metric, value: Any) -> Any:
    """Return what a page hands over so that this value, or one beside it, is randomized."""
    answer = metric.decode(value)
    return float(answer) if isinstance(answer, Decimal) else answer


def drawn(
    metric: Metric, answer: Any, secret: bytes, source: Recorded, epoch: int
) -> dict[str, Any]:
    """One report of an answer, by the steps of `Recorder`."""
    mechanism, coin = metric.mechanism, Coin(source)
    value, _ = metric.encode(answer)
    cohort = cohort_of_report(secret, metric, coin)
    if metric.memoize is None:
        permanent = mechanism.permanent(value, cohort, coin)
    else:
        permanent = permanent_response(secret, metric, value, cohort)
    response = mechanism.instantaneous(permanent, coin)
    report = Report(metric.name, metric.fingerprint, epoch, cohort, response)
    return {
        "answer": answer,
        "epoch": epoch,
        "secret": secret.hex(),
        "words": source.given.hex(),
        "report": report_to_json(report, mechanism),
    }


def coin_cases() -> Iterator[dict[str, Any]]:
    """Decisions by themselves, thresholds and words at every edge."""
    some = 0x0123456789ABCDEF
    for threshold in (0, 1, 255 << 56, some, ONE // 2, ONE - 1, ONE):
        for word in sorted({0, 1, some - 1, some, some + 1, ONE // 2 - 1, ONE // 2, ONE - 1}):
            yield decision("bernoulli", [threshold], word.to_bytes(8, "big"))
    for bound in (1, 2, 3, 10, 65536, (1 << 32) + 1, ONE // 2 + 1, ONE - 1, ONE):
        limit = ONE - ONE % bound
        words = {0, bound - 1, limit - 1, min(limit, ONE - 1), ONE - 1}
        for word in sorted(words):
            # Two words that may be rejected, then what chance brings.
            yield decision("uniform", [bound], word.to_bytes(8, "big") + b"\xff" * 8)
    edges = (0, 1, 255, 1 << 56, some, ONE // 2, 255 << 56, ONE - 1, ONE)
    for width in (1, 7, 8, 9, 128):
        for if_one in edges:
            for if_zero in (0, some, ONE // 2 + 1, ONE):
                bits = (0x5A5A5A5A5A << 170 | some << 90 | some) % (1 << width)
                arguments = [bits, width, if_one, if_zero]
                yield decision("flip_bits", arguments, b"")
    for width in (1, 9, 128, 260):
        for if_one, if_zero in ((some, some + 1), (ONE - 1, 1), (3 << 56 | 5, 3 << 56 | 6)):
            for tied in (if_one, if_zero):
                digits = bytes([tied >> 56]) * width
                close = (if_one & (1 << 56) - 1).to_bytes(7, "big")
                below = max((if_one & (1 << 56) - 1) - 1, 0).to_bytes(7, "big")
                yield decision(
                    "flip_bits",
                    [(1 << width) - 1, width, if_one, if_zero],
                    digits + (close + below) * 4,
                )


def decision(act: str, arguments: list[int], first: bytes) -> dict[str, Any]:
    source = Recorded(f"{act} {arguments} {first.hex()}", first)
    calls: dict[str, Callable[..., int | bool]] = {
        "bernoulli": Coin(source).bernoulli,
        "uniform": Coin(source).uniform,
        "flip_bits": Coin(source).flip_bits,
    }
    result = int(calls[act](*arguments))
    return {
        "act": act,
        "arguments": [str(argument) for argument in arguments],
        "words": source.given.hex(),
        "result": str(result),
    }


def stream_cases() -> Iterator[dict[str, Any]]:
    """Repeatable streams, cut in several ways."""
    contexts: list[list[bytes]] = [
        [],
        [b""],
        [b"a"],
        [b"a", b""],
        [b"cohort", b"theme"],
        [b"x" * 300],
    ]
    for context in contexts:
        for cuts in ([0, 1, 31, 32, 33], [100], [8, 8, 8]):
            stream: Source = PrfStream(SECRET, *context)
            yield {
                "secret": SECRET.hex(),
                "context": [part.hex() for part in context],
                "cuts": cuts,
                "bytes": [stream(cut).hex() for cut in cuts],
            }


def encoding_cases() -> Iterator[dict[str, Any]]:
    """Answers, and what is randomized for them."""
    yes_no = RandomizedResponse.from_epsilon(1)
    of_four = OptimizedUnary.from_epsilon(4, 1)
    mean, rappor = OneBitMean.from_epsilon(1), Rappor(8, 1, 1, f="0.5", p=0, q=1)
    words = ("light", "dark", "syst\u00e8me", "other")
    thirds = (Decimal(-1), Decimal(-1) / 3, Decimal(0), Decimal("0.1"), Decimal(2))
    numbers = [0, -0.0, 1, -1, 2, 0.1, 0.30000000000000004, -1 / 3, 0.5, 29.95, 59.9, 59.89999999]
    numbers += [-1.0000000000000002, 2.0000000000000004, 5e-324, -5e-324, 1e308, -1e308, 1e-7]
    numbers += [2.0**-33, 3 * 2.0**-33, 5 * 2.0**-34, 123456.789, 1.7320508075688772]
    yield from encoded(metric_of(yes_no), [True, False, None])
    yield from encoded(metric_of(yes_no, missing=1), [True, False, None])
    category = metric_of(of_four, labels=words, catch_all=3, missing=1)
    yield from encoded(category, [*words, "syste\u0300me", "", "neither", None])
    years = {"type": "ordinal", "labels": (1, 2, 5, 2**53 - 1), "catch_all": None, "missing": 2}
    yield from encoded(metric_of(of_four, **years), [1, 2, 5, 2**53 - 1, 3, -1, 0, None])
    buckets: dict[str, Any] = {"type": "number", "labels": words, "catch_all": None}
    yield from encoded(metric_of(of_four, **buckets, edges=thirds, missing=2), [*numbers, None])
    for low, high in (("0", "59.9"), ("-1", "2"), ("-0.25", "1E+3"), ("0", "1"), ("1E-7", "7")):
        ends = {"edges": (Decimal(low), Decimal(high)), "missing": 17}
        yield from encoded(metric_of(mean, **ends), [*numbers, None])
    yield from encoded(metric_of(rappor, missing="nothing"), [*STRINGS, None])


def encoded(metric: Metric, answers: list[Any]) -> Iterator[dict[str, Any]]:
    yield {
        "definition": definition(metric),
        "answers": [{"answer": each, "value": metric.encode(each)[0]} for each in answers],
    }


def batch_cases() -> Iterator[dict[str, Any]]:
    """Batches as they are sent, and all that may be answered under a MAC."""
    device, nonce = bytes(range(16)).hex(), bytes(range(240, 256)).hex()
    reports = [
        report_to_json(Report(metric.name, metric.fingerprint, epoch, 0, epoch), metric.mechanism)
        for epoch, name in enumerate(("rr epsilon 1", "grr domain 3", "oue domain 8", "rappor"))
        for metric in [metric_of(dict(mechanisms())[name])]
    ]
    most = [reports[0]] * MAX_BATCH_REPORTS
    keys = (bytes(32), bytes([255]) * 32, SECRET)
    sequences = (1, 2**31, 2**32 - 1)
    for key, sequence, sent in zip(keys, sequences, (reports[:1], reports, most), strict=True):
        body = encode_batch(device, sequence, nonce, sent)
        answers = []
        accepted = ["accepted"] * len(sent)
        some = [*accepted[1:], *REFUSAL_REASONS][: len(sent)]
        for status, verdict, spent, told in (
            (200, "accepted", 1_000_000, accepted),
            (200, "accepted", 2**53 - 1, some),
            (200, "duplicate", 0, accepted),
            (200, "duplicate", 17, []),
            (401, "identity_revoked", 0, []),
            (409, "clone_suspected", 9_000_000, []),
            (410, "erased", 0, []),
        ):
            mac = answer_mac(key, nonce, sequence, verdict, spent, told)
            answer = {"verdict": verdict, "spent": spent, "reports": told, "mac": mac}
            answers.append({"status": status, "answer": {"sequence": sequence, **answer}})
        yield {
            "key": key.hex(),
            "device": device,
            "sequence": sequence,
            "nonce": nonce,
            "reports": sent,
            "body": body.decode(),
            "mac": batch_mac(key, body),
            "answers": answers,
        }


def document() -> dict[str, Any]:
    """Return the whole file."""
    assert unicodedata.is_normalized("NFC", STRINGS[3])
    return {
        "reports": list(report_cases()),
        "coins": list(coin_cases()),
        "streams": list(stream_cases()),
        "encodings": list(encoding_cases()),
        "batches": list(batch_cases()),
    }


def written(vectors: dict[str, Any]) -> str:
    """Return the file's text: a case a line, so that a difference can be read."""
    parts = []
    for name, cases in vectors.items():
        lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
        parts.append(f'"{name}":[\n{lines}\n]')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    print(written(document()), end="")
