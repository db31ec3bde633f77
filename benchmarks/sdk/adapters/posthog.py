"""posthog: events. Default settings."""

from collections.abc import Callable

IMPORT = "from posthog import Posthog"


def needle(token: str, name: str) -> bytes:
    return f"{token}-{name}".encode()


class Adapter:
    def start(self, url: str, state: str, job: str) -> None:
        from posthog import Posthog

        self.client = Posthog("phc_key", host=url)

    def mark(self, token: str, name: str) -> None:
        self.client.capture(f"{token}-{name}", distinct_id="d")

    def capture(self) -> None:
        self.client.capture("clicked", distinct_id="d", properties={"v": 1})

    @property
    def calls(self) -> dict[str, Callable[[], None]]:
        return {"capture": self.capture}

    first = capture
