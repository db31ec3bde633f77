"""sentry-sdk: messages, and a counter of its metrics. Default settings."""

from collections.abc import Callable

IMPORT = "import sentry_sdk"


def needle(token: str, name: str) -> bytes:
    return f"{token}-{name}".encode()


class Adapter:
    def start(self, url: str, state: str, job: str) -> None:
        import sentry_sdk

        self.sdk = sentry_sdk
        sentry_sdk.init(dsn=url.replace("http://", "http://key@") + "/1")

    def mark(self, token: str, name: str) -> None:
        self.sdk.capture_message(f"{token}-{name}")

    def message(self) -> None:
        self.sdk.capture_message("clicked")

    def count(self) -> None:
        self.sdk.metrics.count("clicks", 1)

    @property
    def calls(self) -> dict[str, Callable[[], None]]:
        return {"capture_message": self.message, "metrics.count": self.count}

    first = message
