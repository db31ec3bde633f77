"""Lives of devices that the browser's ledger must repeat, lived by the Python client.

python -m tests.client_sdk.web_lives > tests/client_sdk/web_lives.json
"""

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, cast

from client_sdk import Registry
from client_sdk.epochs import DAY_SECONDS, LENGTHS, end_of, epoch_of
from client_sdk.ledger import Ledger
from client_sdk.mechanisms.randomized_response import RandomizedResponse
from client_sdk.new_state import _TABLES
from client_sdk.pending import Pending, current_epoch
from client_sdk.randomness import Coin, PrfStream
from client_sdk.recorder import Recorder
from client_sdk.spreading import is_turn, takes_part
from client_sdk.state import State
from client_sdk.web_definition import definitions
from tests.client_sdk.conftest import HOME_PAGE, START, THEME, build_registry
from tests.client_sdk.web_vectors import metric_of, written

LIVES = 24
STEPS = 60
LOOK = 12
"""What is kept is looked at after so many steps, not after each: the file would be large."""
MOODS = """
[metrics.{name}]
question = "How is it?"
type = "boolean"
mechanism = "randomized_response"
sensitivity = "product"
epsilon = {epsilon}
epoch = "{epoch}"
owners = ["ui-team@example.org"]
starts = {starts}
expires = {expires}
every = {every}
sample = {sample}
grace = {grace}
"""


class Life:
    """What a `Recorder` asks of a state, in memory and with a known secret."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        for statement in _TABLES.split(";"):
            self.connection.execute(statement)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        yield self.connection


def epoch_cases() -> Iterator[dict[str, Any]]:
    """Days, the epoch that holds each, and the day after that epoch."""
    days = [date(1970, 1, 1) + timedelta(shift) for shift in (*range(70), 365, 366, 789, 11016)]
    days += [date(2026, 11, 28) + timedelta(shift) for shift in range(70)]
    days += [date(2028, 2, 29), date(2100, 2, 28), date(2100, 3, 1), date(8999, 12, 31)]
    for length in LENGTHS:
        for day in days:
            epoch = epoch_of(length, day)
            end = end_of(length, epoch) / DAY_SECONDS
            number = (day - date(1970, 1, 1)).days
            yield {"length": length, "day": number, "epoch": epoch, "end": _finite(end)}


def _finite(days: float) -> int | None:
    return None if days == float("inf") else int(days)


def spreading_cases() -> Iterator[dict[str, Any]]:
    """Which epochs are a device's turn, and whether it is in a sample."""
    law = RandomizedResponse.from_epsilon(1)
    for number in range(12):
        secret = bytes([number]) * 32
        for name, every, sample in (
            ("theme", 1, "1"),
            ("theme", 2, "0.5"),
            ("home.page_2", 7, "0.01"),
            ("mood", 30, "0.999"),
            ("mood", 3, "0.25"),
        ):
            metric = metric_of(law, name=name, every=every, sample=Decimal(sample))
            epochs = range(20_788, 20_788 + 4 * every)
            yield {
                "secret": secret.hex(),
                "name": name,
                "every": every,
                "sample": str(metric.sample_threshold),
                "first": epochs[0],
                "turns": "".join(str(int(is_turn(secret, metric, epoch))) for epoch in epochs),
                "takes_part": takes_part(secret, metric),
            }


def life_cases() -> Iterator[dict[str, Any]]:
    """Devices that record now and then while their file is edited, and the server knows more."""
    for number in range(LIVES):
        chance = random.Random(number)
        files = [_file(chance) for _ in range(3)]
        secret = bytes([number]) * 32
        with closing((life := Life(secret)).connection):
            steps = list(_lived(life, files, chance))
        yield {
            "secret": secret.hex(),
            "files": [definitions(file) for file in files],
            "steps": steps,
        }


def _file(chance: random.Random) -> Registry:
    moods = []
    for name in ("constructor", "mood", "weather"):
        epoch = chance.choice(["day", "day", "week", "month", "once"])
        keys = {
            "epsilon": chance.choice(["0.5", "1.0", "1.25"]),
            "starts": date(2026, 12, 1) + timedelta(chance.randrange(10)),
            "expires": date(2026, 12, 12) + timedelta(chance.randrange(30)),
            "every": 1 if epoch == "once" else chance.choice([1, 1, 2, 3]),
            "sample": chance.choice(["1.0", "0.5"]),
            "grace": chance.randrange(6),
        }
        moods.append(MOODS.format(name=name, epoch=epoch, **keys))
    home = HOME_PAGE.replace("values = 2", f"values = {chance.choice([1, 2, 3])}")
    tables = chance.sample([THEME, home, *moods], chance.randrange(2, 6))
    whole = build_registry(*tables, lifetime=1000)
    shares = sum(metric.share(metric.starts) for metric in whole.metrics.values())
    return build_registry(*tables, lifetime=-(-shares // 100_000) / 10)


def _lived(life: Life, files: list[Registry], chance: random.Random) -> Iterator[dict[str, Any]]:
    hour, turn = 0, 0
    for step in range(1, STEPS + 1):
        hour += chance.choice([0, 1, 5, 20, 70])
        turn = min(turn + (chance.random() < 0.05), 2)
        now = START + hour * 3600
        file = files[turn]
        name = chance.choice(list(file.metrics))
        metric = file.metrics[name]
        answer = _answer(name, chance)
        if chance.random() < 0.05:
            figure = Ledger(life.connection, 0).spent() + chance.choice([-1, 0, 1, 700_000])
            Ledger(life.connection, file.lifetime_micro).raise_to(figure)
        else:
            figure = None
        recorder = Recorder(cast(State, life), file, now, Coin(PrfStream(b"c" * 32)))
        epoch = current_epoch(metric, now)
        reasons = recorder.store([Pending(metric, epoch, metric.encode(answer)[0])])
        yield {
            "file": turn,
            "seconds": now,
            "server": figure,
            "name": name,
            "epoch": epoch,
            "answer": answer,
            "reasons": reasons,
            "kept": None if step % LOOK else _kept(life),
        }


def _answer(name: str, chance: random.Random) -> Any:
    if name == "home_page":
        return chance.choice(["example.org", "example.com", "", "\u00e9.example", "a", "b"])
    return chance.choice(["light", "dark"] if name == "theme" else [True, False])


def _kept(life: Life) -> dict[str, Any]:
    ask = life.connection.execute
    shares = ask("SELECT metric, reserved, spent, fits FROM shares ORDER BY metric").fetchall()
    until = ask("SELECT max(keep_until) FROM spool").fetchone()[0]
    memory = ask("SELECT metric, channel, permanent FROM memory ORDER BY id").fetchall()
    return {
        "shares": shares,
        "queued": ask("SELECT count(*) FROM spool").fetchone()[0],
        "until": until,
        "memory": [
            [f"{metric} {channel}", str(int.from_bytes(permanent, "little"))]
            for metric, channel, permanent in memory
        ],
    }


def document() -> dict[str, Any]:
    """Return the whole file."""
    return {
        "epochs": list(epoch_cases()),
        "spreading": list(spreading_cases()),
        "lives": list(life_cases()),
    }


if __name__ == "__main__":
    print(written(json.loads(json.dumps(document()))), end="")
