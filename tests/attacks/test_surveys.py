"""Attacks on respondents of browser surveys: another draw, a stolen browser, a joined invitation.

The attacker knows the survey, its exact odds, and where it says so everybody's true answers.
"""

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import redis
from cryptography.hazmat.primitives.asymmetric import rsa
from scipy import stats

from aggregator.enrolment.limits import EnrolmentLimits
from aggregator.survey.blind_signatures import EXPONENT, KEY_BITS, PrivateKey, PublicKey
from client_sdk.survey import Survey, load_survey, page_document
from estimator.debias import Channel
from tests.aggregator.conftest import World, world
from tests.aggregator.respondents import Blinding, Hall
from tests.javascript import WEB, laid_out, node

__all__ = ["world"]

ROOT = Path(__file__).parents[2]
HABITS = ROOT / "examples" / "surveys" / "habits.toml"
PROGRAM = ROOT / "tests" / "web" / "rerolls.js"
FALSE_ALARM = 1e-6
PEOPLE = 20


@pytest.fixture
def tried(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Let respondents with some answers try so often: what tests/web/rerolls.js says of each."""
    site = laid_out(tmp_path / "site")

    def run(survey: Survey, answers: Sequence[Sequence[int]], tries: int) -> list[dict[str, Any]]:
        told = {"site": site, "document": page_document(survey, "en"), "tries": tries}
        answer = node(PROGRAM, told=told | {"answers": answers})
        found: list[dict[str, Any]] = json.loads(answer)["respondents"]
        return found

    return run


@pytest.fixture
def survey() -> Survey:
    """Of two, three and seven answers, at epsilon 1, 1 and 2."""
    return load_survey(HABITS)


def answered(survey: Survey, count: int, seed: int) -> list[list[int]]:
    """Somebody's answers, uniform: what they are is not to be guessed beforehand."""
    chance = np.random.default_rng(seed)
    sizes = [len(question.answers) for question in survey.questions]
    return [[int(chance.integers(size)) for size in sizes] for _ in range(count)]


def texts(survey: Survey, place: int) -> list[str]:
    return [answer.text["en"] for answer in survey.questions[place].answers]


def channels(survey: Survey) -> list[Channel]:
    return [Channel.of_values(question.metric.mechanism) for question in survey.questions]


def test_fifty_tries_for_another_draw_give_one_report(
    survey: Survey, tried: Any, most_hits: Any, note: Any
) -> None:
    """Bound: the most frequent answer of 50 tries is right no more often than that of one report.

    Of 60 respondents with uniform answers a report of the second question speaks for the answer
    with probability p_true, 0.58; the number of right guesses exceeds Bin(60, p_true) with 1e-6.
    Tries are reloads, Cancel before Send, and two tabs at once. Control: a new coin for each.
    """
    tries, place = 50, 1
    answers = answered(survey, 60, 1)
    respondents = tried(survey, answers, tries)
    names, p = texts(survey, place), channels(survey)[place].p_true

    def right(what: str) -> int:
        guesses = [
            Counter(said[place] for said in each[what]).most_common(1)[0][0] for each in respondents
        ]
        pairs = zip(guesses, answers, strict=True)
        return sum(guess == names[indices[place]] for guess, indices in pairs)

    draws = max(len({tuple(said) for said in each["tried"]}) for each in respondents)
    note("another draw of a survey (reports of 50 tries)", bound=1, measured=draws, control=tries)
    hits, control = right("tried"), right("fresh")
    note(
        f"averaging {tries} tries of a survey's page (answers found of {len(answers)})",
        bound=most_hits(len(answers), p),
        measured=hits,
        control=control,
    )
    assert draws == 1
    assert hits <= most_hits(len(answers), p) < control
    # After Send there is no coin to go on with, and no other is tossed.
    assert {each["ended"] for each in respondents} == {"cancelled"}


def test_what_a_browser_keeps_after_send_tells_no_answer(
    survey: Survey, tried: Any, most_hits: Any, note: Any
) -> None:
    """Bound: one report's own, p_true = 0.58 of the second question, as above.

    A thief reads all that the browser keeps from Send to the server's answer, which may take days
    without a network. Control: the coin is there, too; then each report has one answer.
    """
    place = 1
    answers = answered(survey, 150, 2)
    respondents = tried(survey, answers, 1)
    names, p = texts(survey, place), channels(survey)[place].p_true

    def right(kept: str) -> int:
        hits = 0
        for each, indices in zip(respondents, answers, strict=True):
            fits = each["stolen"][kept]
            guess = names.index(each["tried"][0][place]) if fits is None else fits[place][0]
            hits += guess == indices[place]
        return hits

    hits, control = right("kept"), right("with")
    note(
        f"what a browser keeps after Send (answers found of {len(answers)})",
        bound=most_hits(len(answers), p),
        measured=hits,
        control=control,
    )
    assert {tuple(each["kept"]) for each in respondents} == {("sending",)}
    assert hits <= most_hits(len(answers), p) < control == len(answers)


def test_one_of_twenty_is_found_by_a_batch_no_better_than_total_epsilon_allows(
    survey: Survey, tried: Any, most_hits: Any, note: Any
) -> None:
    """Bound: e^E / (e^E + 19), E the survey's one number, 4.

    The attacker knows the true answers of 20 people, all different, sees the whole batch of one,
    and names the likeliest. What that finds is summed over all batches, exactly, and is below the
    bound; 500 batches differ from it as Bin(500, it) does, but for 1e-6 to either side. Control:
    answers that chance has not changed.
    """
    chance, trials = random.Random(3), 500
    people: list[list[int]] = []
    for candidate in answered(survey, 500, 3):
        if candidate not in people and len(people) < PEOPLE:
            people.append(candidate)
    who = [chance.randrange(PEOPLE) for _ in range(trials)]
    respondents = tried(survey, [people[person] for person in who], 1)
    laws = channels(survey)
    names = [texts(survey, place) for place in range(len(laws))]

    def likelihood(said: Sequence[str], person: list[int]) -> float:
        return math.prod(
            law.p_true if names[place][person[place]] == said[place] else law.p_false
            for place, law in enumerate(laws)
        )

    def named(said: Sequence[str]) -> int:
        return max(range(PEOPLE), key=lambda index: likelihood(said, people[index]))

    found = sum(
        named(each["tried"][0]) == person for each, person in zip(respondents, who, strict=True)
    )
    raw = sum(
        named([names[place][index] for place, index in enumerate(people[person])]) == person
        for person in who
    )
    total = math.exp(float(survey.epsilon))
    bound = total / (total + PEOPLE - 1)
    exact = sum(likelihood(said, people[named(said)]) for said in product(*names)) / PEOPLE
    note(
        f"one of {PEOPLE} respondents by their batch (found, 0.05 by chance)",
        bound=bound,
        measured=found / trials,
        control=raw / trials,
    )
    assert 2 / PEOPLE < exact <= bound  # a batch does tell something: it is no anonymous vote
    assert trials - most_hits(trials, 1 - exact) <= found <= most_hits(trials, exact)
    assert raw == trials


def order_in(dump: dict[bytes, bytes], parts: Sequence[bytes]) -> list[int]:
    """The order in which some parts, each once there, lie in a store's serialized values."""
    (value,) = (value for value in dump.values() if all(part in value for part in parts))
    return sorted(range(len(parts)), key=lambda index: value.index(parts[index]))


def test_a_full_dump_links_no_invitation_to_a_report(world: World, note: Any) -> None:
    """Bound: what chance links, 1 of 20 in the mean; 2 surveys of 20, so 14 or more with 3e-7.

    (Fixed points of permutations have no larger moments than Poisson's, so Chernoff's bound of
    Poisson(2) holds.) The attacker has every value of the store, taken before a report was folded,
    all links, all keys, and joins the k-th invitation that was used, as the store holds them, with
    the k-th report of its stream. Control: a list, to which each is appended as it is used.
    """
    chance, linked, control, rounds = random.Random(4), 0, 0, 2
    for number in range(rounds):
        hall = Hall(world, f"round{number}", PEOPLE)
        order = list(range(PEOPLE))
        chance.shuffle(order)
        digests = [
            world.store.invitations._digest(hall.survey.name, "invitation", token)
            for token in hall.tokens
        ]
        for person in order:
            device = hall.device(hall.admission(hall.tokens[person]))
            assert world.charged(device, hall.report()) == ["accepted"]
        with redis.Redis.from_url(world.redis_url) as client:
            client.rpush(f"control:{number}", *(digests[person][::-1] for person in order))
            compression = client.config_get("rdbcompression")
            client.config_set("rdbcompression", "no")  # or parts would not lie there as they are
            dump = {key: client.dump(key) for key in client.scan_iter()}
            client.config_set("rdbcompression", compression["rdbcompression"])
            entries = [e for key in client.scan_iter("*:stream") for e in client.xrange(key)]
        assert len(entries) == PEOPLE  # ids of entries are milliseconds: they tell their order
        kept = [digest[::-1] for digest in digests]
        linked += sum(a == b for a, b in zip(order_in(dump, digests), order, strict=True))
        control += sum(a == b for a, b in zip(order_in(dump, kept), order, strict=True))
        world.folder.fold_once()
    note(
        f"invitations joined with reports by a full dump (of {rounds * PEOPLE}; 2 by chance)",
        bound=13,
        measured=linked,
        control=control,
    )
    assert stats.poisson.sf(13, rounds) < FALSE_ALARM
    assert linked <= 13 < control == rounds * PEOPLE


BLINDED = """
import {{ readFileSync }} from "node:fs";
const {{ blind }} = await import("{web}/blind_signatures.js");
const {{ randomBytes }} = await import("{web}/randomness.js");
const told = [];
for (const modulus of JSON.parse(readFileSync(0, "utf8"))) {{
  const made = blind({{ modulus, exponent: 65537 }}, randomBytes(32), randomBytes);
  told.push(await made.then(() => "blinded", ({{ reason }}) => reason));
}}
console.log(JSON.stringify(told));
"""


def test_a_key_that_was_made_to_leak_tells_no_invitations_apart(note: Any) -> None:
    """Bound: no number is shown for such a key, so nobody is linked; nothing is left to chance.

    A server whose key has the factors 3, 5, 7, 11 and 13 knows which of them divide a number, and
    blinding keeps that: by it numbers and messages fall into classes, each with one right pair in
    the mean if pairs are guessed in it. Control: respondents who do not look at the key.
    """
    factors = (3, 5, 7, 11, 13)
    good = rsa.generate_private_key(EXPONENT, KEY_BITS).private_numbers()
    leaking = PublicKey(good.public_numbers.n * math.prod(factors))

    def classes(number: int) -> tuple[bool, ...]:
        return tuple(number % factor == 0 for factor in factors)

    chance, seen, shown = random.Random(5), [], []
    while len(seen) < PEOPLE:
        drawn = Blinding.drawn(leaking, chance)
        if math.gcd(drawn.mask, leaking.modulus) == 1:  # or its page finds no inverse
            seen.append(classes(drawn.number))
            shown.append(classes(drawn.encoded))
    program = BLINDED.format(web=WEB.as_uri())
    moduli = [f"{n:x}" for n in (leaking.modulus, good.public_numbers.n)]
    refused, taken = json.loads(node("--input-type=module", "-e", program, "-", told=moduli))
    note(
        f"a key that leaks (pairs of {PEOPLE} invitations and admissions in the mean, 1 by chance)",
        bound=0,
        measured=0 if refused == "bad_key" else PEOPLE,
        control=len(set(seen)),
    )
    assert (refused, taken) == ("bad_key", "blinded")
    assert seen == shown and len(set(seen)) > 3


def test_a_flood_of_admissions_computes_no_more_signatures_than_its_limit(
    world: World, monkeypatch: pytest.MonkeyPatch, note: Any
) -> None:
    """Bound: 5 signatures in an hour from a network whose limit is 5, and none without invitation.

    Each takes a server's processor some 16 ms. Nothing is left to chance. Control: no limit.
    """
    hall, signed = Hall(world), 0
    real = PrivateKey.sign_blinded

    def counted(key: PrivateKey, blinded: int) -> int:
        nonlocal signed
        signed += 1
        return real(key, blinded)

    monkeypatch.setattr(PrivateKey, "sign_blinded", counted)
    drawn = hall.drawn()

    def flood(limit: int) -> tuple[int, int]:
        nonlocal signed
        app = world.app_with(
            limits=EnrolmentLimits(network=limit),
        )
        client = app.test_client()
        counts = []
        for network, token in (("192.0.2.1", "0" * 32), ("198.51.100.1", hall.tokens[0])):
            client.environ_base["REMOTE_ADDR"] = network
            signed = 0
            for _ in range(20):
                client.post(
                    "/v1/surveys/habits/admissions",
                    json={"invitation": token, "blinded": drawn.blinded},
                )
            counts.append(signed)
        return counts[0], counts[1]

    guessed, repeated = flood(5)
    with redis.Redis.from_url(world.redis_url) as client:
        client.delete(*client.scan_iter("limit:*"))
    control = flood(100_000)
    note(
        "20 requests for admission by guesses, 20 by one invitation (signatures computed)",
        bound="0 and 5",
        measured=f"{guessed} and {repeated}",
        control=f"{control[0]} and {control[1]}",
    )
    assert (guessed, repeated) == (0, 5)
    assert control == (0, 20)


def test_no_request_that_pages_elsewhere_send_unasked_changes_anything(
    world: World, note: Any
) -> None:
    """Bound: 0 of the requests that browsers send for any page without asking (Fetch standard) act.

    Those have three types of content, or none, and no header of ours; whatever else a page sends
    a browser asks about first, and is told nothing (aggregator/test_web_origins.py). Control: the
    same invitation with the type that is asked about.
    """
    hall = Hall(world)
    body = json.dumps({"invitation": hall.tokens[0], "blinded": hall.drawn().blinded})
    client = world.app.test_client()
    path = "/v1/surveys/habits/admissions"

    def acted(kind: str | None, address: str = path, sent: str = body) -> bool:
        before = world.contents(), world.store.invitations.figures("habits")
        answer = client.post(address, data=sent, content_type=kind)
        assert not any(name.startswith("Access-Control") for name in answer.headers.keys())
        after = world.contents(), world.store.invitations.figures("habits")
        return answer.status_code < 300 or before != after

    unasked = (None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data")
    addresses = (path, "/v1/devices", "/v1/reports", "/v1/erase")
    tried = [acted(kind, address) for kind in unasked for address in addresses]
    tried += [acted(kind, address, "") for kind in unasked for address in addresses]
    control = acted("application/json")
    note(
        f"requests of pages elsewhere ({len(tried)}, those that act)",
        bound=0,
        measured=sum(tried),
        control=int(control),
    )
    assert not any(tried) and control
