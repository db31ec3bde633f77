"""POST /v1/reports on a real store: what is refused leaves no trace, what repeats counts once."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import redis

from aggregator.connection import Connection
from aggregator.recovery.witness import Witness
from aggregator.store import Store
from client_sdk.authentication import MAC_HEADER, answer_mac, macs_match
from client_sdk.registry import loads
from client_sdk.report import MAX_BATCH_BYTES, REPORTS_PATH


def problem(answer: Any, status: int, kind: str, field: str | None = None) -> dict[str, Any]:
    """Check a problem document and return it."""
    assert answer.status_code == status
    assert answer.content_type == "application/problem+json"
    document: dict[str, Any] = answer.json
    assert document["type"] == f"urn:sottovoce:problem:{kind}" and document["status"] == status
    assert document.get("field") == field
    return document


def test_an_accepted_batch_is_answered_under_the_devices_mac(world: Any) -> None:
    device = world.device()
    answer = world.send(device, device.batch(world.report("theme", 2), world.report("crashed", 1)))
    assert answer.status_code == 200
    told = answer.json
    assert (told["sequence"], told["verdict"], told["spent"]) == (1, "accepted", 1_500_000)
    assert told["reports"] == ["accepted", "accepted"]
    mac = answer_mac(device.key, f"{1:032x}", 1, "accepted", 1_500_000, told["reports"])
    assert macs_match(mac, told["mac"])
    world.folder.fold_once()
    theme, crashed = (world.metric(name) for name in ("theme", "crashed"))
    assert world.store.tallies.of(theme, world.epoch("theme")).counts.tolist() == [[0, 0, 1, 0]]
    assert world.store.tallies.of(crashed, world.epoch("crashed")).counts.tolist() == [[1]]


MALFORMED = [
    pytest.param(lambda body: body[:-2], "body", id="cut off"),
    pytest.param(lambda body: b"[" * 50_000, "body", id="deeply nested"),
    pytest.param(lambda body: body.replace(b'"cohort":0', b'"cohort":NaN'), "body", id="NaN"),
    pytest.param(
        lambda body: body.replace(b'"cohort":0', b'"cohort":' + b"9" * 5000),
        "body",
        id="5000 digits",
    ),
    pytest.param(
        lambda body: body.replace(b'"version":1', b'"version":1,"epsilon":0.5'),
        "body",
        id="epsilon",
    ),
    pytest.param(
        lambda body: body.replace(b'"00ff"', b'"00f"'), "reports[1].response", id="12 of 16 bits"
    ),
    pytest.param(
        lambda body: body.replace(b'"00ff"', b'"000ff"'), "reports[1].response", id="20 of 16 bits"
    ),
]


@pytest.mark.parametrize(("spoil", "field"), MALFORMED)
def test_a_malformed_batch_names_its_field_and_leaves_no_trace(
    world: Any, spoil: Any, field: str
) -> None:
    device = world.device()
    body = spoil(device.batch(world.report("theme"), world.report("home_page", 0xFF)))
    problem(world.send(device, body), 400, "malformed", field)
    assert world.contents() == {}


def test_a_batch_without_its_devices_mac_leaves_no_trace(world: Any) -> None:
    device, other = world.device(), world.device()
    body = device.batch(world.report("theme"))
    wrong = other.headers(body)[MAC_HEADER]
    right = device.headers(body)[MAC_HEADER]
    for mac in (None, "", "0" * 64, wrong, right.upper(), right[:-1], "é" * 64, f"{right},{right}"):
        problem(world.send(device, body, Sottovoce_MAC=mac), 401, "bad_mac", MAC_HEADER)
    changed = body.replace(b'"response":0', b'"response":1')
    problem(world.send(device, changed, Sottovoce_MAC=right), 401, "bad_mac", MAC_HEADER)
    assert world.contents() == {}


def test_a_device_id_that_no_server_drew_is_nobody(world: Any) -> None:
    device = world.device()
    device.id = "0" * 32
    problem(world.send(device, device.batch(world.report("theme"))), 401, "bad_mac", MAC_HEADER)
    assert world.contents() == {}


def test_size_and_encoding_are_refused_before_the_body_is_read(world: Any) -> None:
    device = world.device()
    body = device.batch(world.report("theme"))
    long = body + b" " * MAX_BATCH_BYTES
    problem(world.send(device, long), 413, "too_large", "Content-Length")
    answer = world.send(device, body, Content_Encoding="gzip")
    problem(answer, 415, "unsupported_media", "Content-Encoding")
    answer = world.send(device, body, Content_Type="text/plain")
    problem(answer, 415, "unsupported_media", "Content-Type")
    chunked = {"Transfer-Encoding": "chunked", **device.headers(body)}
    answer = world.app.test_client().post(REPORTS_PATH, data=body, headers=chunked)
    problem(answer, 411, "length_required", "Content-Length")
    assert world.contents() == {}
    assert world.send(device, body, Content_Encoding="identity").status_code == 200


def test_reports_are_refused_by_reason_and_the_rest_is_counted(world: Any) -> None:
    device = world.device()
    week, day = world.epoch("theme"), world.epoch("crashed")
    sent = {
        world.report("theme", 3): "accepted",
        world.report("theme", metric="nobody"): "unknown_metric",
        world.report("crashed", fingerprint="0" * 16): "unknown_fingerprint",
        world.report("theme", epoch=week + 1): "too_early",
        world.report("crashed", epoch=day - 60): "epoch_closed",
        world.report("theme", 2): "already_reported",
        world.report("theme", 1, epoch=week - 1): "accepted",
    }
    answer = world.send(device, device.batch(*sent))
    assert answer.status_code == 200 and answer.json["reports"] == list(sent.values())
    assert answer.json["spent"] == 2_000_000
    world.folder.fold_once()
    assert world.store.tallies.of(world.metric("theme"), week).counts.tolist() == [[0, 0, 0, 1]]
    assert world.store.tallies.of(world.metric("theme"), week - 1).counts.tolist() == [[0, 1, 0, 0]]
    counters = world.store.figures.counters()
    for reason in set(sent.values()) - {"accepted"}:
        assert counters[reason] == 1
    assert counters["accepted"] == counters["folded"] == 2


def test_a_batch_of_nothing_but_refused_reports_uses_its_sequence(world: Any) -> None:
    device = world.device()
    body = device.batch(world.report("theme", metric="nobody"))
    first, again = world.send(device, body), world.send(device, body)
    assert first.json["reports"] == again.json["reports"] == ["unknown_metric"]
    assert again.json["verdict"] == "duplicate"


def test_the_same_upload_three_times_in_a_row_is_counted_once(world: Any) -> None:
    device = world.device()
    body = device.batch(world.report("theme", 1), world.report("theme", 2), world.report("crashed"))
    answers = [world.send(device, body).json for _ in range(3)]
    assert [answer["verdict"] for answer in answers] == ["accepted", "duplicate", "duplicate"]
    for answer in answers:  # always the first answer
        assert answer["reports"] == ["accepted", "already_reported", "accepted"]
        assert answer["spent"] == 1_500_000
    world.folder.fold_once()
    assert world.store.tallies.of(world.metric("theme"), world.epoch("theme")).n == 1
    assert world.store.figures.counters()["duplicates"] == 2


def test_the_same_upload_eight_times_at_once_is_counted_once(world: Any) -> None:
    for _ in range(5):
        device = world.device()
        body = device.batch(world.report("theme", 1))
        gate = threading.Barrier(8)

        def send(device: Any = device, body: bytes = body, gate: Any = gate) -> Any:
            gate.wait()
            return world.send(device, body)

        with ThreadPoolExecutor(8) as pool:
            answers = [job.result() for job in [pool.submit(send) for _ in range(8)]]
        assert {answer.status_code for answer in answers} == {200}
        verdicts = sorted(answer.json["verdict"] for answer in answers)
        assert verdicts == ["accepted"] + ["duplicate"] * 7
    world.folder.fold_once()
    assert world.store.tallies.of(world.metric("theme"), world.epoch("theme")).n == 5


def test_a_repeat_is_found_however_late_it_comes(world: Any) -> None:
    # C36: at once, after 301 seconds, after 25 hours, and a burst; a repeat costs no memory.
    device = world.device()
    body = device.batch(world.report("theme", 1))
    began = world.now
    assert world.send(device, body).json["verdict"] == "accepted"
    before = set(world.contents())
    for later in (0, 301, 25 * 3600):
        world.now = began + later
        assert world.send(device, body).json["verdict"] == "duplicate"
    for _ in range(200):
        assert world.send(device, body).json["verdict"] == "duplicate"
    assert set(world.contents()) == before
    world.folder.fold_once()
    assert world.store.tallies.of(world.metric("theme"), world.epoch("theme")).n == 1


def test_other_bytes_under_a_used_or_older_sequence_are_a_suspected_clone(world: Any) -> None:
    device = world.device()
    first = device.batch(world.report("theme", 1))
    second = device.batch(world.report("crashed", 1))
    for body in (first, second):
        assert world.send(device, body).status_code == 200
    state = {key: value for key, value in world.contents().items() if b"counters" not in key}
    for body in (device.batch(world.report("theme", 2), sequence=2), first):
        document = problem(world.send(device, body), 409, "clone_suspected", "sequence")
        assert (document["verdict"], document["spent"]) == ("clone_suspected", 1_500_000)
        assert document["reports"] == []
        sequence = json.loads(body)["sequence"]
        nonce = f"{sequence:032x}"
        mac = answer_mac(device.key, nonce, sequence, "clone_suspected", 1_500_000, [])
        assert macs_match(mac, document["mac"]) and document["sequence"] == sequence
    after = {key: value for key, value in world.contents().items() if b"counters" not in key}
    assert after == state
    assert world.store.figures.counters()["clones"] == 2


def test_a_sequence_may_skip_numbers_and_the_gaps_are_counted(world: Any) -> None:
    # Either the device has lost batches or the server has lost history: a hint for the operator.
    device, other = world.device(), world.device()
    for sequence in (5, 6, 2**32 - 1):
        body = device.batch(world.report("theme"), sequence=sequence)
        assert world.send(device, body).json["verdict"] == "accepted"
        assert world.send(device, body).json["verdict"] == "duplicate"
    for _ in range(3):
        world.send(other, other.batch(world.report("theme")))
    assert world.store.figures.counters()["gaps"] == 2


def test_a_new_version_of_a_metric_cannot_report_the_same_epoch_again(world: Any) -> None:
    device = world.device()
    assert world.send(device, device.batch(world.report("theme"))).json["reports"] == ["accepted"]
    newer = world.catalogue.register(
        world.registry.text.replace('"system", "other"]', '"system", "sepia", "other"]')
    )
    fingerprint = newer.metrics["theme"].fingerprint
    assert fingerprint != world.metric("theme").fingerprint
    again = device.batch(world.report("theme", 3, fingerprint=fingerprint))
    assert world.send(device, again).json["reports"] == ["already_reported"]


def test_a_version_registered_elsewhere_is_found_when_first_used(world: Any) -> None:
    text = world.registry.text.replace('"system", "other"]', '"system", "sepia", "other"]')
    newer = loads(text)
    world.store.registries.add(newer.digest, text)  # by another process
    world.catalogue._loaded_at = float("-inf")
    device = world.device()
    body = device.batch(world.report("theme", fingerprint=newer.metrics["theme"].fingerprint))
    assert world.send(device, body).json["reports"] == ["accepted"]


def test_a_store_that_cannot_write_is_a_503_and_takes_the_batch_later(world: Any) -> None:
    device = world.device()
    body = device.batch(world.report("theme", 1))
    with redis.Redis.from_url(world.redis_url) as admin:
        admin.config_set("maxmemory", 1)  # every write is now out of memory
        try:
            answer = world.send(device, body)
            problem(answer, 503, "unavailable")
            assert int(answer.headers["Retry-After"]) > 0
            ready = world.app.test_client().get("/readyz")
            problem(ready, 503, "unavailable")
        finally:
            admin.config_set("maxmemory", 0)
    assert world.contents() == {}
    assert world.send(device, body).json["verdict"] == "accepted"
    assert world.app.test_client().get("/readyz").status_code == 200


def test_a_store_that_is_away_is_a_503_in_words_without_its_address(
    redis_url: str, world: Any
) -> None:
    witness = Witness.beside(world.settings.keys_file)
    away = Store(Connection("redis://127.0.0.1:1", 1.0), world.store._layout, witness)
    world.store, original = away, world.store
    world.__post_init__()
    device = world.device()
    answer = world.send(device, device.batch(world.report("theme")))
    document = problem(answer, 503, "unavailable")
    assert "reached" in document["detail"] and "127.0.0.1" not in answer.get_data(as_text=True)
    assert world.app.test_client().get("/livez").status_code == 200
    problem(world.app.test_client().get("/readyz"), 503, "unavailable")
    original.close()


def test_a_stalled_store_applies_a_batch_once(world: Any) -> None:
    # C33: the reply is lost to a timeout, the store carries the script out all the same.
    settings = replace(world.settings, store_timeout_seconds=0.3)
    world.store = Store.connect(settings, world.keys.pseudonym_key)
    device = world.device()
    warm = device.batch(world.report("crashed"))
    assert world.send(device, warm).json["verdict"] == "accepted"
    world.__post_init__()
    assert world.send(device, device.batch(world.report("home_page"))).status_code == 200
    body = device.batch(world.report("theme", 1))
    with redis.Redis.from_url(world.redis_url) as admin:
        admin.execute_command("CLIENT", "PAUSE", 1000, "ALL")
    problem(world.send(device, body), 503, "unavailable")
    with redis.Redis.from_url(world.redis_url) as admin:
        admin.ping()  # waits for the end of the pause
    assert world.send(device, body).json["verdict"] in ("accepted", "duplicate")
    world.folder.fold_once()
    assert world.store.tallies.of(world.metric("theme"), world.epoch("theme")).n == 1
    assert world.store.accounts.spent(device.id) == 500_000 + 8_000_000 + 1_000_000
    world.store.close()


def test_unknown_addresses_and_methods_are_problems_too(world: Any) -> None:
    client = world.app.test_client()
    problem(client.get("/nowhere"), 404, "not_found")
    wrong = client.get(REPORTS_PATH)
    problem(wrong, 405, "method_not_allowed")
    assert "POST" in wrong.headers["Allow"]


def test_nothing_of_a_device_is_logged(world: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    device = world.device()
    body = device.batch(world.report("theme"))
    for sent in (body, body, device.batch(world.report("crashed"), sequence=1), body[:-1]):
        world.send(device, sent)
    assert device.id not in caplog.text and device.key.hex() not in caplog.text


def test_stored_reports_carry_no_pseudonym(world: Any) -> None:
    device = world.device()
    world.send(device, device.batch(world.report("theme"), world.report("home_page", 0xFFFF, 63)))
    pseudonym = world.store._layout.place(device.id).pseudonym
    with redis.Redis.from_url(world.redis_url) as client:
        for key in client.scan_iter(match="*:stream"):
            entries = str(client.xrange(key))
            assert str(pseudonym)[2:-1] not in entries and device.id not in entries
        everything = b"".join(client.dump(key) for key in client.scan_iter())
    assert device.id.encode() not in everything and bytes.fromhex(device.id) not in everything
