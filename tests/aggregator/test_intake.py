"""Intake: every body is exactly a batch, or malformed by a field that is named."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.batch import Batch, Candidate
from aggregator.catalogue import Versions
from aggregator.intake import (
    CLOCK_TOLERANCE_SECONDS,
    MOST_EPOCH,
    Malformed,
    Upload,
    judge,
    parse,
    parse_erasure,
)
from client_sdk.epochs import DAY_SECONDS, day_of, epoch_of
from client_sdk.registry import loads

NOW = 1_796_040_000.0  # 30 November 2026, 12:00 UTC, a Monday
HEAD = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 1000
contact = "telemetry@example.org"
"""
TAIL = """
question = "?"
sensitivity = "product"
epsilon = 1.0
owners = ["ui@example.org"]
starts = 2026-11-15
expires = 2026-12-10
"""
REGISTRY = loads(
    f"""{HEAD}
[metrics.theme]
type = "category"
values = ["light", "dark", "system", "other"]
catch_all = "other"
epoch = "week"
{TAIL}
[metrics.crashed]
type = "boolean"
epoch = "day"
{TAIL}
[metrics.plan]
type = "boolean"
epoch = "once"
{TAIL}
[metrics.page]
type = "string"
memoize = {{ epsilon_permanent = 4.0, distinct_values = 2 }}
rappor = {{ bits = 18, hashes = 2, cohorts = 64 }}
epoch = "month"
{TAIL}
"""
)
VERSIONS = Versions.of([REGISTRY])
WEEK = epoch_of("week", day_of(NOW))
TODAY = epoch_of("day", day_of(NOW))


def report(name: str = "theme", **changes: Any) -> dict[str, Any]:
    metric = REGISTRY.metrics[name]
    epoch = epoch_of(metric.epoch, day_of(NOW))
    response: int | str = {"theme": 1, "crashed": "1", "plan": "0", "page": "3f00f"}[name]
    whole = {
        "metric": name,
        "fingerprint": metric.fingerprint,
        "epoch": epoch,
        "cohort": 0,
        "response": response,
    }
    return whole | changes


def body(*reports: object, **changes: object) -> bytes:
    batch: dict[str, object] = {
        "version": 1,
        "device": "0123456789abcdef" * 2,
        "sequence": 7,
        "nonce": "fedcba9876543210" * 2,
        "reports": list(reports) or [report()],
    }
    return json.dumps(batch | changes).encode()


def verdicts(*reports: object, now: float = NOW) -> list[str]:
    batch = judge(parse(body(*reports)), VERSIONS, now)
    return ["candidate" if isinstance(v, Candidate) else v for v in batch.verdicts]


def refused_field(data: bytes) -> str:
    with pytest.raises(Malformed) as caught:
        judge(parse(data), VERSIONS, NOW)
    return caught.value.field


def test_a_well_formed_batch_becomes_rows_of_its_groups() -> None:
    batch = judge(parse(body(report(), report("page", cohort=63))), VERSIONS, NOW)
    cell, bits = batch.verdicts
    assert isinstance(cell, Candidate) and isinstance(bits, Candidate)
    assert cell.row == b"\0\0\1\0" and cell.memo is None and cell.charge == 1_000_000
    assert bits.row == b"\x3f\0" + (0x3F00F).to_bytes(3, "little")
    assert bits.memo == REGISTRY.metrics["page"].channel_hash and bits.charge == 8_000_000
    assert batch.sequence == 7 and len(batch.digest) == 16


def without(key: str) -> bytes:
    document = json.loads(body())
    del document[key]
    return json.dumps(document).encode()


def raw(pattern: str, text: str) -> bytes:
    """A body with a piece of its text replaced, for what json.dumps would not write."""
    whole = body().decode()
    assert pattern in whole
    return whole.replace(pattern, text, 1).encode()


@pytest.mark.parametrize(
    ("data", "field"),
    [
        pytest.param(b"", "body", id="empty"),
        pytest.param(b"\xff\xfe", "body", id="not UTF-8"),
        pytest.param(b"\xef\xbb\xbf" + body(), "body", id="byte order mark"),
        pytest.param(body()[:-1], "body", id="cut off"),
        pytest.param(body() + b"{}", "body", id="more after the end"),
        pytest.param(b"[" * 60_000, "body", id="open brackets"),
        pytest.param(b"[" * 30_000 + b"]" * 30_000, "body", id="deep array"),
        pytest.param(b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "body", id="deep object"),
        pytest.param(b"null", "body", id="null"),
        pytest.param(b"[]", "body", id="array"),
        pytest.param(b" " * 65_537, "body", id="too long"),
        pytest.param(raw('"sequence": 7', '"sequence": NaN'), "body", id="NaN"),
        pytest.param(raw('"sequence": 7', '"sequence": -Infinity'), "body", id="Infinity"),
        pytest.param(raw('"sequence": 7', '"sequence": 1e999'), "body", id="1e999"),
        pytest.param(raw('"sequence": 7', '"sequence": 7.0'), "body", id="float"),
        pytest.param(raw('"sequence": 7', '"sequence": ' + "9" * 5000), "body", id="5000 digits"),
        pytest.param(raw('"sequence": 7', '"sequence": 7, "sequence": 7'), "body", id="key twice"),
        pytest.param(raw('"cohort": 0', '"cohort": 0, "cohort": 1'), "body", id="inner key twice"),
        pytest.param(body(epsilon="0.5"), "body", id="epsilon from the client"),
        pytest.param(body(version=2), "version", id="unknown version"),
        pytest.param(body(version=True), "version", id="version true"),
        *(
            pytest.param(without(key), key, id=f"no {key}")
            for key in ("version", "device", "sequence", "nonce", "reports")
        ),
        # C50: a blank id for everybody would make all devices one.
        *(
            pytest.param(body(device=device), "device", id=f"device {device!r:.12}")
            for device in ("", " ", None, "0", 0, "a" * 300, "A" * 32, "a" * 31 + "\n", "é" * 32)
        ),
        pytest.param(body(nonce="0" * 31), "nonce", id="short nonce"),
        *(
            pytest.param(body(sequence=sequence), "sequence", id=f"sequence {sequence}")
            for sequence in (0, -1, 2**32, 10**17, True, "7", None)
        ),
        pytest.param(body(reports=[]), "reports", id="no reports"),
        pytest.param(body(reports={}), "reports", id="reports not a list"),
        pytest.param(body(*[report()] * 257), "reports", id="257 reports"),
        pytest.param(body(report(), 5), "reports[1]", id="report not an object"),
        pytest.param(body(report() | {"epsilon": 1}), "reports[0]", id="unknown key in a report"),
        pytest.param(body(report(metric="")), "reports[0].metric", id="blank metric"),
        pytest.param(body(report(metric="\ud800")), "reports[0].metric", id="lone surrogate"),
        pytest.param(body(report(metric="a:b")), "reports[0].metric", id="separator in metric"),
        pytest.param(
            body(report(fingerprint="0" * 17)), "reports[0].fingerprint", id="fingerprint"
        ),
        pytest.param(body(report(epoch=-1)), "reports[0].epoch", id="negative epoch"),
        pytest.param(body(report(epoch=MOST_EPOCH + 1)), "reports[0].epoch", id="huge epoch"),
        pytest.param(body(report(epoch=True)), "reports[0].epoch", id="epoch true"),
        pytest.param(body(report("plan", epoch=1)), "reports[0].epoch", id="second once"),
        pytest.param(body(report(cohort=1)), "reports[0].cohort", id="cohort of a closed domain"),
        pytest.param(body(report("page", cohort=64)), "reports[0].cohort", id="C24: cohort 64"),
        pytest.param(body(report("page", cohort=65_536)), "reports[0].cohort", id="huge cohort"),
        pytest.param(body(report(response=4)), "reports[0].response", id="cell too high"),
        pytest.param(body(report(response=-1)), "reports[0].response", id="negative cell"),
        pytest.param(body(report(response=False)), "reports[0].response", id="cell false"),
        pytest.param(body(report(response=None)), "reports[0].response", id="no response"),
        pytest.param(body(report(response="1")), "reports[0].response", id="text for a cell"),
        pytest.param(body(report("page", response=3)), "reports[0].response", id="int for bits"),
        # C24: never padded, since absent bits would count as zeros.
        pytest.param(
            body(report(), report(), report(), report("page", response="2f")),
            "reports[3].response",
            id="C24: 8 bits",
        ),
        pytest.param(body(report("page", response="0" * 6)), "reports[0].response", id="24 bits"),
        pytest.param(body(report("page", response="40000")), "reports[0].response", id="bit 19"),
        pytest.param(body(report("page", response="3F00F")), "reports[0].response", id="capitals"),
        pytest.param(body(report("page", response="3g00f")), "reports[0].response", id="no hex"),
        pytest.param(body(report("page", response="0x00f")), "reports[0].response", id="0x"),
        pytest.param(body(report("page", response="1_00f")), "reports[0].response", id="_"),
        pytest.param(body(report("page", response="0" * 1025)), "reports[0].response", id="long"),
    ],
)
@pytest.mark.usefixtures("uncollected")
def test_a_malformed_body_is_refused_by_the_field_that_is_wrong(data: bytes, field: str) -> None:
    assert refused_field(data) == field


@pytest.mark.parametrize(
    "twice",
    [
        '"metric": "a:b:c", "metric": "theme"',
        '"metric": {"x": {"y": 1}}, "metric": "theme"',
        '"metric": "theme", "\\u006detric": "theme"',
        '"\\u006detric": "\\u003a", "metric": "theme"',
    ],
)
def test_a_key_given_twice_is_found_however_it_is_written(twice: str) -> None:
    data = raw('"metric": "theme"', twice)
    with pytest.raises(Malformed, match="must not give a key twice"):
        parse(data)


def test_an_erasure_gives_no_key_twice() -> None:
    once = b'{"version": 1, "device": "%s", "nonce": "%s"}' % (b"0" * 32, b"1" * 32)
    assert parse_erasure(once).nonce == "1" * 32
    with pytest.raises(Malformed, match="must not give a key twice"):
        parse_erasure(once.replace(b"{", b'{"nonce": "a:b", '))
    with pytest.raises(Malformed, match="must not give a key twice"):
        parse_erasure(once.replace(b'"version": 1', b'"version": 2, "version": 1'))


def test_escapes_and_white_space_are_no_second_keys() -> None:
    data = raw('"metric": "theme"', '"\\u006detric"\n:\t"\\u0074heme"')
    assert parse(data).reports[0].metric == "theme"


def test_what_devices_claim_does_not_decide_how_many_terms_are_kept() -> None:
    versions = Versions.of([REGISTRY])
    for epoch in range(0, MOST_EPOCH, 50):
        judge(parse(body(report("crashed", epoch=epoch))), versions, NOW)
    judge(parse(body(*(report(name) for name in REGISTRY.metrics))), versions, NOW)
    assert len(versions._terms) <= len(REGISTRY.metrics) + 1


def test_an_error_never_repeats_what_was_sent() -> None:
    with pytest.raises(Malformed) as caught:
        parse(body(device="planted-identifier"))
    assert "planted" not in str(caught.value)


def test_unknown_metrics_and_fingerprints_are_refused_alone() -> None:
    stranger = report(metric="nobody")
    old = report(fingerprint="0" * 16)
    assert verdicts(report(), stranger, old) == [
        "candidate",
        "unknown_metric",
        "unknown_fingerprint",
    ]


def test_an_epoch_counts_as_begun_ten_minutes_early() -> None:
    midnight = (TODAY + 1) * DAY_SECONDS
    early = report("crashed", epoch=TODAY + 1)
    assert verdicts(early, now=midnight - CLOCK_TOLERANCE_SECONDS) == ["candidate"]
    assert verdicts(early, now=midnight - CLOCK_TOLERANCE_SECONDS - 1) == ["too_early"]


def test_epochs_outside_the_life_of_a_metric_are_closed() -> None:
    # starts 15 November (a Sunday), expires 10 December 2026 (a Thursday)
    first, last = (epoch_of("week", day_of(NOW)) + weeks for weeks in (-3, 1))
    later = NOW + 60 * DAY_SECONDS
    sent = [report(epoch=epoch) for epoch in (first - 1, first, last, last + 1)]
    assert verdicts(*sent, now=later) == ["epoch_closed", "candidate", "candidate", "epoch_closed"]


def test_an_old_epoch_is_left_to_the_watermark() -> None:
    # Whatever was acknowledged is in its release: only a closed epoch refuses.
    assert verdicts(report(epoch=WEEK - 2)) == ["candidate"]


def test_a_metric_asked_once_is_too_early_before_it_starts() -> None:
    starts = epoch_of("day", REGISTRY.metrics["plan"].starts) * DAY_SECONDS
    assert verdicts(report("plan"), now=starts - 3600) == ["too_early"]
    assert verdicts(report("plan"), now=starts) == ["candidate"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner),
    max_leaves=12,
)


@st.composite
def nearly_right(draw: st.DrawFn) -> bytes:
    """A right body with some members replaced or removed."""
    document: dict[str, Any] = json.loads(body(report(), report("page"), report("crashed")))
    targets = [document, *document["reports"]]
    for _ in range(draw(st.integers(1, 3))):
        target = draw(st.sampled_from(targets))
        key = draw(st.sampled_from(sorted(target)) | st.text(max_size=8))
        if draw(st.booleans()):
            target[key] = draw(json_values | st.integers(0, 2**17))
        else:
            target.pop(key, None)
    return json.dumps(document).encode()


@given(st.binary(max_size=200) | json_values.map(lambda v: json.dumps(v).encode()) | nearly_right())
def test_any_bytes_are_a_batch_or_malformed(data: bytes) -> None:
    try:
        upload = parse(data)
        assert isinstance(upload, Upload)
        assert isinstance(judge(upload, VERSIONS, NOW), Batch)
    except Malformed as error:
        assert error.field and error.detail
