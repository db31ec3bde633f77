"""Invitations: used once, answered alike when asked again, and linked to no report."""

import json
import random
import string
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from aggregator.catalogue import Catalogue
from aggregator.connection import StoreRefused, StoreUnavailable
from aggregator.enrolment.limits import EnrolmentLimits
from aggregator.fold import Folder
from aggregator.intake import Malformed, parse_admission
from aggregator.keyring.kinds import MasterKey
from aggregator.keyring.rotation import retire, rotate
from aggregator.store.invitations import Figures
from aggregator.survey.admission import key_document
from aggregator.survey.admitted import device_of, is_admitted
from aggregator.survey.invitations import SurveyKeys, link, told
from client_sdk.authentication import MAC_HEADER, erase_mac
from client_sdk.epochs import DAY_SECONDS
from client_sdk.errors import RegistryError
from client_sdk.registry import loads
from client_sdk.report import ERASE_PATH, PROBLEM_TYPE, encode_erasure
from tests.aggregator.contract import conforming
from tests.aggregator.respondents import LAST_DAY, Blinding, Hall, survey_of

TODAY = date(2026, 11, 30)


@pytest.fixture
def hall(world: Any) -> Hall:
    return Hall(world)


def kind(answer: Any) -> str:
    return str(answer.json["type"]).removeprefix(PROBLEM_TYPE)


def figures(hall: Hall) -> tuple[int, int, int]:
    found = hall.world.store.invitations.figures(hall.survey.name)
    return found.made, found.used, found.unused


def test_an_invited_respondent_is_admitted_enrols_and_is_counted_once(hall: Hall) -> None:
    device = hall.device(hall.admission(hall.tokens[0]))
    assert hall.world.charged(device, hall.report()) == ["accepted"]
    assert hall.world.charged(device, hall.report()) == ["already_reported"]
    assert figures(hall) == (3, 1, 2)
    assert hall.world.folder.fold_once() == 1


def test_the_same_request_is_answered_alike_and_another_is_refused(hall: Hall) -> None:
    drawn, other = hall.drawn(), hall.drawn()
    answers = [hall.ask(hall.tokens[0], drawn.blinded) for _ in range(3)]
    assert len({answer.data for answer in answers}) == 1
    refused = hall.ask(hall.tokens[0], other.blinded)
    assert (refused.status_code, kind(refused)) == (409, "invitation_used")
    assert hall.ask(hall.tokens[0], drawn.blinded).data == answers[0].data
    assert figures(hall) == (3, 1, 2)


def test_what_was_never_made_is_unknown_and_uses_nothing_up(hall: Hall) -> None:
    answer = hall.ask("0" * 32, hall.drawn().blinded)
    assert (answer.status_code, kind(answer)) == (403, "invitation_unknown")
    assert figures(hall) == (3, 0, 3)


@pytest.mark.parametrize("name", ["nobody", "Habits", "{survey}", "a" * 25, "habits%20key"])
def test_a_survey_without_invitations_is_unknown(hall: Hall, name: str) -> None:
    shown = hall.world.app.test_client().get(f"/v1/surveys/{name}/key")
    for answer in (hall.ask(hall.tokens[0], hall.drawn().blinded, name), shown):
        assert (answer.status_code, kind(answer)) == (404, "unknown_survey")


def test_what_is_malformed_uses_no_invitation_up(hall: Hall) -> None:
    token, good = hall.tokens[0], hall.drawn().blinded
    modulus = f"{hall.key.public.modulus:x}"
    bodies = [
        b"",
        b"[]",
        json.dumps({"invitation": token}).encode(),
        json.dumps({"invitation": token, "blinded": good, "device": "0"}).encode(),
        json.dumps({"invitation": token, "blinded": good[2:]}).encode(),
        json.dumps({"invitation": token, "blinded": "0" * 768}).encode(),
        json.dumps({"invitation": token, "blinded": modulus}).encode(),
        json.dumps({"invitation": token, "blinded": "f" * 768}).encode(),
        json.dumps({"invitation": token.upper() + "g", "blinded": good}).encode(),
        f'{{"invitation":"{token}","blinded":"{good}","blinded":"{good}"}}'.encode(),
    ]
    for body in bodies:
        answer = hall.post(body)
        assert (answer.status_code, kind(answer)) == (400, "malformed"), body[:80]
        assert token not in answer.text
    assert figures(hall) == (3, 0, 3)


def test_a_race_of_32_admits_one(hall: Hall) -> None:
    drawn = [hall.drawn() for _ in range(32)]
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda each: hall.ask(hall.tokens[0], each.blinded), drawn))
    good = [each for each, answer in zip(drawn, answers, strict=True) if answer.status_code == 200]
    assert len(good) == 1
    assert {kind(a) for a in answers if a.status_code != 200} == {"invitation_used"}
    assert figures(hall) == (3, 1, 2)


def test_an_admission_is_one_device_however_often_it_enrols(hall: Hall) -> None:
    admission = hall.admission(hall.tokens[0])
    assert len({hall.enrol(admission).data for _ in range(3)}) == 1
    # The same message under another signature is the same device too: the salt buys no second.
    other = hall.drawn()
    first = bytes.fromhex(admission.split(".")[1])
    again = hall.admission(hall.tokens[1], replace(other, message=first))
    assert again != admission
    assert hall.device(again).id == hall.device(admission).id


@pytest.mark.parametrize("spoil", ["", "x", "habits", "habits.00.11", "-", "habits..", "a.b.c.d"])
def test_what_is_no_admission_enrols_nobody(hall: Hall, spoil: str) -> None:
    answer = hall.enrol(spoil)
    assert (answer.status_code, kind(answer)) == (403, "bad_admission")


def test_a_forged_admission_enrols_nobody(hall: Hall) -> None:
    survey, message, signature = hall.admission(hall.tokens[0]).split(".")
    other = f"{int(message, 16) ^ 1:064x}"
    for shown in (
        f"{survey}.{other}.{signature}",
        f"{survey}.{message}.{signature[:-2]}00",
        f"{survey}.{message}.{'0' * 768}",
        f"{survey}.{message}.{signature}00",
        f"{survey}.{message}.{signature[:-2]}",
        f"nobody.{message}.{signature}",
    ):
        answer = hall.enrol(shown)
        assert (answer.status_code, kind(answer)) == (403, "bad_admission"), shown[:80]


def test_whoever_is_not_invited_is_refused_though_enrolled(hall: Hall) -> None:
    device = hall.world.device()
    assert hall.world.charged(device, hall.report(), hall.world.report("theme")) == [
        "not_invited",
        "accepted",
    ]
    assert hall.world.store.figures.counters()["not_invited"] == 1


def test_an_admission_to_one_survey_is_none_to_another(world: Any) -> None:
    hall, other = Hall(world), Hall(world, "other")
    admission = hall.admission(hall.tokens[0])
    device = hall.device(admission)
    assert world.charged(device, other.report(), hall.report()) == ["not_invited", "accepted"]
    moved = admission.replace("habits.", "other.")
    assert kind(other.enrol(moved)) == "bad_admission"
    assert kind(other.ask(hall.tokens[1], other.drawn().blinded)) == "invitation_unknown"


def test_an_open_version_does_not_open_what_another_closes(hall: Hall) -> None:
    open_text = survey_of(admission="open").registry_text
    assert loads(open_text).by_invitation is None
    hall.world.catalogue.register(open_text)
    assert hall.world.charged(hall.world.device(), hall.report()) == ["not_invited"]


def test_a_server_that_was_told_of_no_survey_refuses_the_uninvited(hall: Hall) -> None:
    # It knows a metric from the store, and with it that the metric is by invitation.
    world = hall.world
    world.catalogue = Catalogue(world.store)
    world.__post_init__()
    assert world.charged(world.device(), hall.report()) == ["not_invited"]
    admitted = hall.device(hall.admission(hall.tokens[0]))
    assert world.charged(admitted, hall.report()) == ["accepted"]


def test_only_metrics_of_one_survey_can_be_by_invitation() -> None:
    text = survey_of().registry_text
    assert loads(text).by_invitation == "habits"
    for name in ("theme", "survey.habits", "survey.habits.a.b", "survey.Habits.a"):
        with pytest.raises(RegistryError):
            loads(text.replace("survey.habits.ever_late", name))
    other = text[text.index("[metrics") :].replace("survey.habits.", "survey.other.")
    with pytest.raises(RegistryError, match="of one survey"):
        loads(text.replace("lifetime_epsilon = 2.0", "lifetime_epsilon = 9.0") + other)


def test_an_erased_respondent_stays_erased(hall: Hall) -> None:
    admission = hall.admission(hall.tokens[0])
    device = hall.device(admission)
    assert hall.world.charged(device, hall.report()) == ["accepted"]
    body = encode_erasure(device.id, "0" * 32)
    headers = {MAC_HEADER: erase_mac(device.key, body), "Content-Type": "application/json"}
    client = hall.world.app.test_client()
    assert client.post(ERASE_PATH, data=body, headers=headers).status_code == 200
    again = hall.device(admission)
    answer = hall.world.send(again, again.batch(hall.report()))
    assert (answer.status_code, kind(answer)) == (410, "erased")


def test_a_rotated_and_retired_master_key_gives_no_second_vote(hall: Hall) -> None:
    admission, world = hall.admission(hall.tokens[0]), hall.world
    before = hall.device(admission)
    assert world.charged(before, hall.report()) == ["accepted"]
    path = world.settings.keys_file
    world.keys = rotate(path, MasterKey, TODAY).keys
    world.__post_init__()
    after = hall.device(admission)
    assert after.id == before.id and after.key != before.key
    assert world.send(before, before.batch(world.report("theme"))).status_code == 200
    world.keys = retire(path, MasterKey, 1, TODAY).keys
    world.__post_init__()
    revoked = world.send(before, before.batch(world.report("theme")))
    assert kind(revoked) == "identity_revoked"
    again = hall.device(admission)
    assert (again.id, again.key) == (after.id, after.key)
    again.sequence = 9
    assert world.charged(again, hall.report()) == ["already_reported"]


def test_the_day_after_the_last_nobody_is_admitted(hall: Hall) -> None:
    admission, world = hall.admission(hall.tokens[0]), hall.world
    world.now += 31 * DAY_SECONDS  # the last day
    assert hall.enrol(admission).status_code == 201
    world.now += DAY_SECONDS
    assert kind(hall.ask(hall.tokens[1], hall.drawn().blinded)) == "unknown_survey"
    assert kind(hall.enrol(admission)) == "bad_admission"


def test_a_survey_that_is_over_is_forgotten_but_for_its_numbers(hall: Hall) -> None:
    world = hall.world
    hall.admission(hall.tokens[0])
    world.store.invitations.forget_over(LAST_DAY)
    assert figures(hall) == (3, 1, 2)
    Folder(world.store, clock=lambda: world.now + 32 * DAY_SECONDS)._raise_generation()
    assert figures(hall) == (3, 1, 0)
    with redis.Redis.from_url(world.redis_url) as client:
        assert client.keys("{meta}:*used:*") == []
        assert set(client.hkeys("{meta}:invitations")) == {b"habits made", b"habits used"}
    assert kind(hall.ask(hall.tokens[1], hall.drawn().blinded)) == "unknown_survey"


def test_what_is_taken_back_is_unknown_and_what_was_used_may_be_asked_again(hall: Hall) -> None:
    drawn = hall.drawn()
    first = hall.ask(hall.tokens[0], drawn.blinded)
    assert hall.world.store.invitations.forget_unused("habits") == 2
    assert kind(hall.ask(hall.tokens[1], hall.drawn().blinded)) == "invitation_unknown"
    assert hall.ask(hall.tokens[0], drawn.blinded).data == first.data
    assert told(hall.world.store.invitations.figures("habits")) == (
        "3 made, 1 used, 0 unused, 2 forgotten"
    )


def test_a_store_that_a_backup_put_back_admits_nobody(hall: Hall) -> None:
    hall.world.store._generation.witness.remember(99)
    answer = hall.ask(hall.tokens[0], hall.drawn().blinded)
    assert (answer.status_code, kind(answer)) == (503, "unavailable")
    with pytest.raises(StoreUnavailable):
        hall.world.store.invitations.use("habits", hall.tokens[0], "00")


def test_guesses_are_limited_by_network_and_do_not_use_up_enrolments(hall: Hall) -> None:
    world = hall.world
    app = world.app_with(
        limits=EnrolmentLimits(network=2),
    )
    client = conforming(app).test_client()
    client.environ_base["REMOTE_ADDR"] = "192.0.2.7"

    def guess() -> Any:
        body = json.dumps({"invitation": "0" * 32, "blinded": hall.drawn().blinded})
        path = "/v1/surveys/habits/admissions"
        return client.post(path, data=body, content_type="application/json")

    assert [kind(guess()) for _ in range(3)] == ["invitation_unknown"] * 2 + ["rate_limited"]
    shown = {"Authorization": f"Bearer {world.keys.write_key}"}
    assert client.post("/v1/devices", headers=shown).status_code == 201


def test_all_servers_have_the_key_that_the_first_made_and_it_is_sealed(hall: Hall) -> None:
    again = SurveyKeys(hall.world.store.invitations, hall.world.keys.pseudonym_key)
    assert again.open("habits", LAST_DAY).public == hall.key.public
    shown = hall.world.app.test_client().get("/v1/surveys/habits/key")
    assert shown.json == key_document("habits", hall.key.public)
    sealed = hall.world.store.invitations.key("habits", TODAY)
    numbers = hall.key._numbers
    for secret in (numbers.p, numbers.q, numbers.d):
        assert secret.to_bytes(384, "big").lstrip(b"\0") not in sealed
    stranger = SurveyKeys(hall.world.store.invitations, bytes(32))
    with pytest.raises(StoreRefused, match="another pseudonym key"):
        stranger.of("habits", TODAY)
    with redis.Redis.from_url(hall.world.redis_url) as client:
        client.hset("{meta}:invitations", "other key", sealed)
        client.hset("{meta}:invitations", "other last_day", LAST_DAY.isoformat())
    with pytest.raises(StoreRefused, match="survey other was changed"):
        again.of("other", TODAY)
    with pytest.raises(ValueError, match="survey must match"):
        again.open("Habits!", LAST_DAY)


# What the store could tell. The claim: which invitation went with which report is in nothing that
# is kept. Each number that was signed hides each message equally well, so the requests that a
# server sees are the same whoever came with which invitation; and of the requests it keeps what
# has neither time nor order nor anything in common.


def hidden_in(number: int, drawn: Blinding, hall: Hall) -> Blinding:
    """The draw by which a number hides a message: there is exactly one, for each message."""
    modulus = hall.key.public.modulus
    ratio = number * pow(drawn.encoded, -1, modulus) % modulus
    return replace(drawn, mask=pow(ratio, hall.key._numbers.d, modulus))


def test_every_signed_number_fits_every_admission(hall: Hall) -> None:
    drawn = [hall.drawn() for _ in hall.tokens]
    asked = zip(hall.tokens, drawn, strict=True)
    signed = [hall.ask(token, each.blinded).json["signature"] for token, each in asked]
    admissions = [each.finish(by) for each, by in zip(drawn, signed, strict=True)]
    for seen, answer in zip(drawn, signed, strict=True):
        for each, admission in zip(drawn, admissions, strict=True):
            other = hidden_in(seen.number, each, hall)
            assert other.blinded == seen.blinded and other.finish(answer) == admission


def everything(url: str) -> dict[bytes, bytes]:
    """All that a store holds."""
    with redis.Redis.from_url(url) as client:
        return {key: client.dump(key) for key in client.scan_iter()}


def after_all_came(
    hall: Hall, drawn: list[Blinding], order: list[int], partner: list[int]
) -> dict[bytes, bytes]:
    """Have respondents come in an order, and return what the store holds when all have reported.

    The one with invitation i has the message `drawn[partner[i]]`; reports come in one order.
    """
    admissions = [hall.admission(hall.tokens[i], drawn[partner[i]]) for i in order]
    by_message = {admission.split(".")[1]: admission for admission in admissions}
    for place, each in enumerate(drawn):
        device = hall.device(by_message[each.message.hex()])
        assert hall.world.charged(device, hall.report(place % 2)) == ["accepted"]
    assert hall.world.folder.fold_once() == len(drawn)
    with redis.Redis.from_url(hall.world.redis_url) as client:
        assert not any(client.xlen(key) for key in client.scan_iter("*:stream"))
    # But for what tells how long a fold took, and when the last report of a shard was sent.
    timed = (b"}:counters", b"}:cursor", b"}:stream")
    found = everything(hall.world.redis_url)
    return {k: v for k, v in found.items() if not (k.startswith(b"{s") and k.endswith(timed))}


def test_what_is_stored_is_the_same_whoever_came_with_which_invitation_and_when(
    redis_url: str, new_world: Callable[..., Any]
) -> None:
    count, chance = 5, random.Random(11)
    tokens = [f"{chance.getrandbits(128):032x}" for _ in range(count)]
    kept: list[dict[bytes, bytes]] = []
    drawn: list[Blinding] = []
    sealed = b""
    for run in range(3):
        with redis.Redis.from_url(redis_url) as client:
            client.flushall()
            world = new_world(redis_url)
            hall = Hall(world, count=0)
            # Drawn once, for all runs.
            sealed = sealed or world.store.invitations.key("habits", TODAY)
            client.hset("{meta}:invitations", "habits key", sealed)
        hall.key = hall.keys.open("habits", LAST_DAY)
        hall.tokens = tokens
        world.store.invitations.add("habits", chance.sample(tokens, count))
        drawn = drawn or [hall.drawn(chance) for _ in range(count)]
        order, partner = list(range(count)), list(range(count))
        if run:
            chance.shuffle(order)
            chance.shuffle(partner)
            world.now += run * DAY_SECONDS
        # Each number that is signed is that of the first run, and hides another message now.
        masked = list(drawn)
        for i, place in enumerate(partner):
            masked[place] = hidden_in(drawn[i].number, drawn[place], hall)
            assert masked[place].blinded == drawn[i].blinded
        kept.append(after_all_came(hall, masked, order, partner))
        world.store.close()
    assert kept[0].keys() == kept[1].keys() == kept[2].keys()
    assert {key for key in kept[0] if not kept[0][key] == kept[1][key] == kept[2][key]} == set()


def test_nothing_of_an_invitation_is_found_with_a_device_or_at_all(hall: Hall) -> None:
    drawn = hall.drawn()
    admission = hall.admission(hall.tokens[0], drawn)
    device = hall.device(admission)
    hall.world.charged(device, hall.report())
    dump = everything(hall.world.redis_url)
    whole = b"".join(dump.keys()) + b"".join(dump.values())
    _, message, signature = admission.split(".")
    for secret in (hall.tokens[0], message, signature, drawn.blinded, device.id, device.key.hex()):
        assert secret.encode() not in whole and bytes.fromhex(secret) not in whole
    with redis.Redis.from_url(hall.world.redis_url) as client:
        ((pair, score),) = client.zrange("{meta}:used:habits", 0, -1, withscores=True)
        assert score == 0 and client.zscore("{meta}:unused:habits", pair[:16]) is None
    for part in (pair[:16], pair[16:]):
        assert sum(part in value for value in dump.values()) == 1


def test_small_sets_of_invitations_lie_in_the_order_of_their_bytes(hall: Hall) -> None:
    tokens = hall.invite(40)
    random.shuffle(tokens)
    for token in tokens:
        hall.world.store.invitations.use("habits", token, token)
    with redis.Redis.from_url(hall.world.redis_url) as client:
        for key in ("{meta}:used:habits", "{meta}:unused:habits"):
            assert client.object("encoding", key) == b"listpack"
            members = client.zrange(key, 0, -1)
            assert members == sorted(members)


HEX = st.text("0123456789abcdef", min_size=32, max_size=32)


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: json.dumps(text).encode()))
def test_any_bytes_are_malformed_or_a_request(body: bytes) -> None:
    with pytest.raises(Malformed):
        parse_admission(body, 384)


@given(HEX, st.text("0123456789abcdef", min_size=768, max_size=768))
def test_a_request_is_read_as_it_was_written(token: str, blinded: str) -> None:
    body = json.dumps({"invitation": token, "blinded": blinded}).encode()
    asked = parse_admission(body, 384)
    assert (asked.invitation, asked.blinded) == (token, blinded)
    with pytest.raises(Malformed):
        parse_admission(body, 383)


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32), HEX)
def test_an_admitted_device_is_known_by_its_id_and_no_other_is(
    pseudonym_key: bytes, message: bytes, stranger: str
) -> None:
    device = device_of(pseudonym_key, "habits", message)
    assert len(device) == 32 and not set(device) - set(string.hexdigits.lower())
    assert is_admitted(pseudonym_key, device, "habits")
    assert device == device_of(pseudonym_key, "habits", message)
    assert not is_admitted(pseudonym_key, device, "other")
    assert not is_admitted(bytes(31) + b"\1", device, "habits")
    # A stranger's id has the tag by chance once in 2**64.
    assert not is_admitted(pseudonym_key, stranger, "habits")


def test_a_link_shows_its_token_to_no_server_and_is_no_option() -> None:
    assert (
        link("https://s.example/", "habits", "0f" * 16, "a1" * 32)
        == f"https://s.example/s/habits#i={'0f' * 16}&k={'a1' * 32}"
    )
    assert told(Figures(5, 2, 3)) == "5 made, 2 used, 3 unused"
