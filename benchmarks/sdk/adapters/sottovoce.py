"""sottovoce: a boolean by randomized response, and a string by RAPPOR with 128 bits.

A report cannot carry a text, so what is looked for at the server is the metric's name. Costs are
those of fresh (metric, epoch) pairs: a pair that was answered already would cost next to nothing.
Uploads are due at once where delivery is measured, else within the default hour.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

IMPORT = "from client_sdk import Client"
MARKS = ("exit", "parent", "child", "offline", "again")
FLAGS = 50
DAY = 86_400.0

_HEAD = """
schema = 1
[project]
name = "bench"
lifetime_epsilon = 1000
contact = "bench@example.org"
"""
_MARK = """
[metrics.{name}]
question = "Was the mark {name} set?"
type = "boolean"
sensitivity = "product"
epsilon = 1
epoch = "once"
starts = 2026-01-01
expires = 2036-01-01
"""
_FLAG = """
[metrics.flag{number}]
question = "Was feature {number} used today?"
type = "boolean"
sensitivity = "product"
epsilon = 0.005
epoch = "day"
starts = 2026-01-01
expires = 2036-01-01
"""
_PAGE = """
[metrics.page{number}]
question = "Which page {number} was opened today?"
type = "string"
sensitivity = "product"
epsilon = 1
memoize = {{ epsilon_permanent = 4, distinct_values = 1 }}
epoch = "day"
"""
_WHOLE = _HEAD + "".join(_MARK.format(name=name) for name in MARKS)


def needle(token: str, name: str) -> bytes:
    """What the server finds in a body that carries a mark."""
    return f'"metric":"{name}"'.encode()


class Adapter:
    def start(self, url: str, state: str, job: str) -> None:
        from client_sdk import Client

        self.calls_made = 0
        self.began = time.time()
        text = {
            "flag": _HEAD + "".join(_FLAG.format(number=n) for n in range(FLAGS)),
            "string": _HEAD + "".join(_PAGE.format(number=n) for n in range(FLAGS)),
        }.get(job, _WHOLE)
        metrics = Path(state).with_suffix(".toml")
        metrics.write_text(text)
        options: dict[str, Any] = {}
        if job in ("flag", "string"):
            options["clock"] = self.clock
        elif job != "memory":
            options["upload_within_seconds"] = 0.0
        self.client = Client(metrics, endpoint=url, enabled=True, state_dir=state, **options)

    def clock(self) -> float:
        """Each round over all metrics is a day later."""
        return self.began + self.calls_made // FLAGS * DAY

    def mark(self, token: str, name: str) -> None:
        self.client.record(name, True)

    def flag(self) -> None:
        self.calls_made += 1
        self.client.record(f"flag{self.calls_made % FLAGS}", True)

    def string(self) -> None:
        self.calls_made += 1
        self.client.record(f"page{self.calls_made % FLAGS}", "https://example.org/a")

    @property
    def calls(self) -> dict[str, Callable[[], None]]:
        return {"flag": self.flag, "string": self.string}

    def first(self) -> None:
        self.client.record("again", True)
