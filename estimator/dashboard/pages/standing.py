"""Whether the system does its work: healthy, degraded or not publishing, why, and what to do.

Looks at what everybody can see who reaches store, releases and keys; whether the servers answer
devices is for their own /readyz and metrics to tell.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from aggregator.connection import StoreRefused, StoreUnavailable
from aggregator.keyring.ages import ages
from aggregator.keyring.kinds import KINDS
from aggregator.watching.readiness import LEAST_FREE_SHARE
from client_sdk.registry import Registry
from estimator.dashboard.pages.inputs import Inputs
from estimator.dashboard.pages.words import duration
from estimator.errors import NotPublishable
from estimator.releases.failures import failures

Word = Literal["healthy", "degraded", "not publishing"]
MOST_LAG_SECONDS = 60.0
MOST_LATE_SECONDS = 600.0
MOST_MEMORY = 0.8
MOST_EXHAUSTED = 0.2
MOST_SAMPLE_SECONDS = 3600.0
MOST_KEY_SECONDS = 365 * 86_400.0
"""What the alerts in docker/prometheus go by too."""


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        publishing: Whether it keeps releases back; else it only degrades.
        what: In one sentence.
        do: In one sentence, what helps.
        more: The part of docs/operations.md that says more.
    """

    publishing: bool
    what: str
    do: str
    more: str


@dataclass(frozen=True)
class Standing:
    """The whole picture.

    Attributes:
        findings: What is wrong, what keeps releases back first.
        registry: The newest of the store; None where it has none, or does not answer: then nothing
            more should be asked of it for this page, for each question may have to be waited for.
        reached: Whether the store answers, whatever it says.
    """

    findings: tuple[Finding, ...]
    registry: Registry | None
    reached: bool

    @property
    def word(self) -> Word:
        """The worst of it."""
        if not self.findings:
            return "healthy"
        return "not publishing" if self.findings[0].publishing else "degraded"


def standing(inputs: Inputs) -> Standing:
    """Look at everything once."""
    registry, of_the_store, reached = _store(inputs)
    found = [*of_the_store, *_files(inputs), *_keys(inputs)]
    worst_first = tuple(sorted(found, key=lambda finding: not finding.publishing))
    return Standing(worst_first, registry, reached)


def _store(inputs: Inputs) -> tuple[Registry | None, list[Finding], bool]:
    try:
        registry = inputs.source.newest()
        return registry, list(_of_a_store_that_answers(inputs)), True
    except (StoreUnavailable, StoreRefused, NotPublishable) as error:
        return None, [trouble(error)], not isinstance(error, StoreUnavailable)


def trouble(error: StoreUnavailable | StoreRefused | NotPublishable) -> Finding:
    """Say why nothing can be said of the store."""
    if isinstance(error, StoreUnavailable):
        return Finding(
            True,
            f"The store cannot be reached: {error}.",
            "Look at the store's process and log. Devices keep their reports until it is back.",
            "Health",
        )
    if isinstance(error, StoreRefused):
        return Finding(
            True, f"The store must not be used: {error}.", "Do what the sentence says.", "Health"
        )
    return Finding(
        True,
        "Nothing is asked yet: no metrics.toml was registered.",
        "Name one in SOTTOVOCE_METRICS and start a server.",
        "Several machines",
    )


def _of_a_store_that_answers(inputs: Inputs) -> Iterator[Finding]:
    store, now = inputs.source.store, inputs.clock()
    store.check_policy()
    store.check_generation()
    store.check_schema()
    lag = store.figures.oldest_seconds()
    if lag > MOST_LAG_SECONDS:
        yield Finding(
            True,
            f"A report has waited for {duration(lag)} to be counted.",
            "Start `sottovoce fold`; an epoch cannot be released before its reports are counted.",
            "What to watch",
        )
    _, last = store.figures.published()
    if last is None:
        yield Finding(
            True,
            "The schedule has not passed without a failure yet.",
            "Start `sottovoce schedule`; within a minute this goes away.",
            "Publishing",
        )
    elif now - last > MOST_LATE_SECONDS:
        yield Finding(
            True,
            f"The schedule has not passed without a failure for {duration(now - last)}.",
            "See whether `sottovoce schedule` runs, and what its log says.",
            "Publishing",
        )
    memory = store.figures.memory()
    if memory.most_bytes and memory.used_bytes > MOST_MEMORY * memory.most_bytes:
        yield Finding(
            False,
            f"The store uses {memory.used_bytes / memory.most_bytes:.0%} of its memory.",
            "Raise maxmemory: a full store takes no more reports.",
            "What to watch",
        )
    if memory.log_written is False:
        yield Finding(
            False,
            "The store's last write to its disk failed.",
            "Look at its disk and its log; until then it takes no reports.",
            "Health",
        )
    sample = store.figures.ledger_sample()
    if sample is not None and now - sample.taken_at > MOST_SAMPLE_SECONDS:
        yield Finding(
            False,
            f"The ledger was last looked at {duration(now - sample.taken_at)} ago.",
            "See whether `sottovoce schedule` runs.",
            "What to watch",
        )
    if sample is not None and sample.exhausted > MOST_EXHAUSTED * sample.devices:
        yield Finding(
            False,
            f"{sample.exhausted / sample.devices:.0%} of devices can pay for no metric any more.",
            "They stay silent for good. Ask less, or each device less often (`every`), in new "
            "metrics; a higher lifetime_epsilon is a new promise to users.",
            "What to watch",
        )


def _files(inputs: Inputs) -> Iterator[Finding]:
    if not inputs.releases.is_dir():
        yield Finding(
            True,
            "The directory of releases does not exist.",
            "Name it in SOTTOVOCE_RELEASES, as for `sottovoce schedule`.",
            "Settings",
        )
    failed = failures(inputs.releases)
    for each in failed[:5]:
        yield Finding(
            True,
            f"{each.metric} {each.epoch} could not be published: {each.reason}.",
            "Mend the cause; it is tried again every minute.",
            "Publishing",
        )
    if len(failed) > 5:
        yield Finding(
            True,
            f"{len(failed) - 5} more releases could not be published.",
            "`sottovoce releases` lists them.",
            "Publishing",
        )
    if inputs.free_share is not None:
        try:
            free = inputs.free_share()
        except OSError:
            return
        if free < 2 * LEAST_FREE_SHARE:
            yield Finding(
                False,
                f"The store's disk has {free:.0%} free.",
                f"Make room: below {LEAST_FREE_SHARE:.0%} no reports are taken.",
                "Health",
            )


def _keys(inputs: Inputs) -> Iterator[Finding]:
    for kind, age in ages(inputs.keys.current(), inputs.clock()).items():
        if age > MOST_KEY_SECONDS:
            replace = "rotate" if KINDS[kind].single else "new"
            yield Finding(
                False,
                f"The {kind} key in use is {duration(age)} old.",
                f"Replace it: `sottovoce keys {replace} {kind}`.",
                "Rotating keys",
            )
