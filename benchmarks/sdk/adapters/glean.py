"""glean-sdk: a counter and events; what has to arrive is a string in a ping that is submitted."""

from collections.abc import Callable
from pathlib import Path

IMPORT = "from glean import Configuration, Glean, load_metrics, load_pings"

_METRICS = """
$schema: moz://mozilla.org/schemas/glean/metrics/2-0-0
bench:
  clicks: &shared
    type: counter
    description: What is measured
    bugs: ["https://example.org/1"]
    data_reviews: ["https://example.org/2"]
    notification_emails: [bench@example.org]
    send_in_pings: [bench]
    expires: never
  opened:
    <<: *shared
    type: event
    extra_keys: {label: {description: Any, type: string}}
  mark:
    <<: *shared
    type: string
"""
_PINGS = """
$schema: moz://mozilla.org/schemas/glean/pings/2-0-0
bench:
  description: What is measured
  include_client_id: false
  bugs: ["https://example.org/1"]
  data_reviews: ["https://example.org/2"]
  notification_emails: [bench@example.org]
"""


def needle(token: str, name: str) -> bytes:
    return f"{token}-{name}".encode()


class Adapter:
    def start(self, url: str, state: str, job: str) -> None:
        from glean import Configuration, Glean, load_metrics, load_pings

        folder = Path(state).with_suffix(".yaml")
        folder.mkdir(exist_ok=True)
        (folder / "metrics.yaml").write_text(_METRICS)
        (folder / "pings.yaml").write_text(_PINGS)
        self.pings = load_pings(folder / "pings.yaml")
        self.metrics = load_metrics(folder / "metrics.yaml").bench
        Glean.initialize(
            application_id="bench",
            application_version="1",
            upload_enabled=True,
            data_dir=Path(state),
            configuration=Configuration(server_endpoint=url),
        )

    def mark(self, token: str, name: str) -> None:
        self.metrics.mark.set(f"{token}-{name}")
        self.pings.bench.submit()

    def add(self) -> None:
        self.metrics.clicks.add(1)

    def event(self) -> None:
        self.metrics.opened.record(self.metrics.OpenedExtra(label="x"))

    @property
    def calls(self) -> dict[str, Callable[[], None]]:
        return {"counter.add": self.add, "event.record": self.event}

    first = add
