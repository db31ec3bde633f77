"""Attacks on the server: ballot stuffing, races for budget, fakes, other devices' keys.

Nothing here is left to chance but honest responses, which both sides of a comparison share; so no
test has a false alarm.
"""

import hmac
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import requests

from aggregator import intake
from aggregator.app import create_app
from aggregator.catalogue import Catalogue
from aggregator.keyring.keys import Keys
from aggregator.tally import Tally
from client_sdk.authentication import MAC_HEADER, batch_mac, derive_device_key
from client_sdk.randomness import Coin
from client_sdk.report import REPORTS_PATH
from estimator.debias import Channel, shares

CROWD = 64
THEME = 'type = "category"\nvalues = ["light", "dark", "system", "other"]\ncatch_all = "other"\n'
GUNICORN = pytest.param("gunicorn", marks=pytest.mark.slow)


def all_at_once(calls: list[Callable[[], int]]) -> list[int]:
    gate = threading.Barrier(len(calls))

    def wait_and_call(call: Callable[[], int]) -> int:
        gate.wait()
        return call()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(wait_and_call, calls))


@pytest.fixture
def sender(serve: Any) -> Callable[[Any, str], Callable[[Any, bytes], int]]:
    """How uploads reach a world: through its application, or through gunicorn over HTTP."""

    def make(world: Any, way: str) -> Callable[[Any, bytes], int]:
        if way == "in process":
            return lambda device, body: int(world.send(body, device.key).status_code)
        url = serve(world) + REPORTS_PATH

        def post(device: Any, body: bytes) -> int:
            headers = {MAC_HEADER: batch_mac(device.key, body), "Content-Type": "application/json"}
            return requests.post(url, data=body, headers=headers, timeout=30).status_code

        return post

    return make


def naively_counted(world: Any, device: Any, bodies: list[bytes]) -> int:
    """The control: count every report of every upload whose form and MAC are right."""
    counted = 0
    for body in bodies:
        upload = intake.parse(body)
        if world.keys.verified(upload.device, body, batch_mac(device.key, body)):
            counted += len(upload.reports)
    return counted


@pytest.mark.parametrize("way", ["in process", GUNICORN])
def test_sixty_four_parallel_uploads_of_one_device_count_once(
    registry_of: Any, lasting: Any, world_of: Any, sender: Any, note: Any, way: str
) -> None:
    """Bound: one report per metric and epoch, however many uploads race.

    Control: counting every upload whose MAC is right.
    """
    world = world_of(registry_of(lasting("theme", THEME + "epsilon = 1.0")))
    send, device = sender(world, way), world.device()
    bodies = [device.batch(world.report("theme", 2)) for _ in range(CROWD)]
    answers = all_at_once([lambda body=body: send(device, body) for body in bodies])
    tally, naive = world.tally("theme"), naively_counted(world, device, bodies)
    note(
        f"ballot stuffing, {CROWD} parallel uploads, {way} (reports counted)",
        bound=1,
        measured=tally.n,
        control=naive,
    )
    assert set(answers) <= {200, 409} and 200 in answers
    assert tally.n == 1 and tally.counts[0].tolist() == [0, 0, 1, 0]
    assert world.store.accounts.spent(device.id) == world.metric("theme").charge
    assert naive == CROWD


@pytest.mark.parametrize("way", ["in process", GUNICORN])
def test_parallel_uploads_never_pass_the_lifetime_cap(
    registry_of: Any, lasting: Any, world_of: Any, sender: Any, note: Any, way: str
) -> None:
    """Bound: the cap of the newest registry, 20, by plain addition of epsilon 1 a report.

    64 uploads race, each with 8 reports of days that are still open; then 8 more follow, so that
    the cap is reached in any case. Control: adding up every report whose MAC is right.
    """
    world = world_of(registry_of(lasting("theme", THEME + "epsilon = 1.0")))
    world.register(registry_of(lasting("theme", THEME + "epsilon = 1.0", 8), lifetime=20))
    send, device = sender(world, way), world.device()

    def batch(turn: int) -> bytes:
        days = range(8 * (turn % 8), 8 * (turn % 8) + 8)
        made: bytes = device.batch(*(world.report("theme", 1, before=day) for day in days))
        return made

    race = [batch(turn) for turn in range(CROWD)]
    answers = all_at_once([lambda body=body: send(device, body) for body in race])
    rest = [batch(turn) for turn in range(8)]
    answers += [send(device, body) for body in rest]
    spent = world.store.accounts.spent(device.id) / 1e6
    counted = sum(world.tally("theme", before=day).n for day in range(64))
    naive = naively_counted(world, device, race + rest)
    note(f"budget race, {way} (epsilon spent)", bound=20, measured=spent, control=naive)
    assert set(answers) <= {200, 409} and answers[-1] == 200
    assert counted == 20 and 20 - 1e-3 < spent <= 20 < naive


def test_one_percent_fakes_shift_an_estimate_by_no_more_than_stated(
    registry_of: Any, lasting: Any, world_of: Any, note: Any
) -> None:
    """Bound (reference 17): beta [(1 - p_false)/(p_true - p_false) - share], beta = 1 %.

    990 honest devices and 10 fakes that mimic one target value: the strongest response for it, and
    ten uploads each. Control: counting every upload.
    """
    oracles = {
        "theme": THEME + "epsilon = 1.0",
        "screen": THEME + 'epsilon = 1.0\nmechanism = "optimized_unary"',
    }
    world = world_of(registry_of(*(lasting(name, keys) for name, keys in oracles.items())))
    coin, chance, target = Coin(), np.random.default_rng(8), 3
    strongest = {"theme": target, "screen": 0b1111}

    def honest(name: str, value: int) -> str:
        mechanism = world.metric(name).mechanism
        sent = mechanism.instantaneous(mechanism.permanent(value, 0, coin), coin)
        return str(world.report(name, sent))

    for value in chance.choice(4, 990, p=[0.4, 0.3, 0.2, 0.1]):
        device = world.device()
        body = device.batch(*(honest(name, int(value)) for name in oracles))
        assert world.send(body, device.key).status_code == 200
    before = {name: world.tally(name) for name in oracles}
    for _ in range(10):
        device = world.device()
        for _ in range(10):
            body = device.batch(*(world.report(name, strongest[name]) for name in oracles))
            assert world.send(body, device.key).status_code == 200
    for name in oracles:
        mechanism = world.metric(name).mechanism
        channel = Channel.of(mechanism)
        honest_share = shares(before[name], mechanism)[target]
        gain = (1 - channel.p_false) / channel.gap
        bound = 0.01 * (gain - honest_share)
        measured = shares(world.tally(name), mechanism)[target] - honest_share
        stuffed = before[name].counts.copy()
        stuffed[0, list(mechanism.support(strongest[name]))] += 100
        everything = Tally(before[name].reports + 100, stuffed)
        control = shares(everything, mechanism)[target] - honest_share
        note(
            f"1 % fakes, {mechanism.name} (shift of the target's share)",
            bound=float(bound),
            measured=float(measured),
            control=float(control),
        )
        assert 0 < measured <= bound + 1e-12
        assert control > 5 * bound


class Trusting(Keys):
    """The control: a server that takes any MAC for the one it should be."""

    def verified(self, device: str, body: bytes, mac: str) -> bytes | None:
        return derive_device_key(self.master_keys[-1].secret or b"", device)


def test_no_key_and_no_mac_of_another_device_can_be_had(
    registry_of: Any, lasting: Any, world_of: Any, note: Any
) -> None:
    """Bound: no upload in a victim's name is taken, and none leaves a trace.

    The attacker knows both ids, the write key, its own key and its own valid MACs, and tries
    whatever can be derived from those by the public derivations. Control: a server that does not
    check the MAC.
    """
    world = world_of(registry_of(lasting("theme", THEME + "epsilon = 1.0")))
    victim, attacker = world.device(), world.device()
    forged = victim.batch(world.report("theme", 3))
    own = attacker.batch(world.report("theme", 1))
    known = [
        attacker.key,
        world.keys.write_key.encode(),
        bytes.fromhex(victim.id),
        bytes.fromhex(attacker.id),
        b"",
        bytes(32),
        bytes.fromhex(batch_mac(attacker.key, own)),
    ]
    keys = set(known)
    keys |= {derive_device_key(key, victim.id) for key in known}
    keys |= {hmac.digest(key, other, "sha256") for key in known for other in known}
    keys |= {
        bytes(x ^ y ^ z for x, y, z in zip(attacker.key, a, b, strict=True))
        for a in (victim.id.encode(), os.urandom(32))
        for b in (attacker.id.encode(), bytes(32))
    }
    assert victim.key not in keys
    before = world.contents()
    answers = [world.send(forged, key).status_code for key in keys]
    replayed = world.app.test_client().post(
        REPORTS_PATH,
        data=forged,
        headers={MAC_HEADER: batch_mac(attacker.key, own), "Content-Type": "application/json"},
    )
    answers.append(replayed.status_code)
    assert world.contents() == before and world.store.accounts.spent(victim.id) is None

    keyring = Trusting(world.keys.pseudonym_key, world.keys.master_keys, world.keys.write_keys)
    world.app = create_app(store=world.store, keys=keyring, catalogue=Catalogue(world.store))
    control = [world.send(forged, key).status_code for key in list(keys)[:1]]
    note(
        f"uploads in another device's name ({len(answers)} tried)",
        bound="0 taken",
        measured=f"{sum(status != 401 for status in answers)} taken",
        control=f"{control.count(200)} of 1 taken",
    )
    assert set(answers) == {401}
    assert (
        control == [200] and world.store.accounts.spent(victim.id) == world.metric("theme").charge
    )


def test_enrolment_gives_no_chosen_id_and_no_key_twice(
    registry_of: Any, lasting: Any, world_of: Any, note: Any
) -> None:
    """Bound: an id that a client names is refused in every form; 200 enrolments, 200 identities."""
    world = world_of(registry_of(lasting("theme", THEME + "epsilon = 1.0")))
    victim = world.device()
    asked = [
        b'{"device": "%s"}' % victim.id.encode(),
        b'{"device": null}',
        b'{"id": "%s"}' % victim.id.encode(),
        b'["%s"]' % victim.id.encode(),
        b'"%s"' % victim.id.encode(),
    ]
    refused = [world.enrol(body).status_code for body in asked]
    identities = [world.device() for _ in range(200)]
    note(
        "choosing an id at enrolment",
        bound="0 taken",
        measured=f"{sum(status != 400 for status in refused)} of {len(asked)} taken",
        control="the same request without an id is answered",
    )
    assert set(refused) == {400}
    assert len({d.id for d in identities} | {victim.id}) == 201
    assert len({d.key for d in identities} | {victim.key}) == 201
