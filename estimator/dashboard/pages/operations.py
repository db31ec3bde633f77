"""The operations page: what arrives, what is refused, counted and published, and who did what."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from aggregator.connection import StoreRefused, StoreUnavailable
from aggregator.keyring.kinds import KINDS
from aggregator.store import Store
from aggregator.store.figures import Memory
from aggregator.store.ledger_sample import LedgerSample
from aggregator.store.log_heads import Head
from aggregator.store.migrations import newest_schema
from aggregator.store.verdicts import in_words
from client_sdk.epochs import day_of
from client_sdk.report import ACCEPTED
from estimator.dashboard.pages.audit import Audit, audit
from estimator.dashboard.pages.closings import Closing, closings
from estimator.dashboard.pages.ingest import COUNTER_OF, HEIGHT, HOUR_SECONDS, WIDTH, Day, day
from estimator.dashboard.pages.inputs import Inputs
from estimator.dashboard.pages.reasons import OF_SERVERS, OF_THE_STORE
from estimator.dashboard.pages.standing import MOST_KEY_SECONDS, Standing, standing
from estimator.dashboard.pages.suspicions import Suspicions, suspicions
from estimator.dashboard.servers import Answers
from estimator.releases.failures import Failure, failures

WORDS = {"of_the_store": OF_THE_STORE, "of_servers": OF_SERVERS, "picture": (WIDTH, HEIGHT)}
"""What the template takes beside the page."""
_SOONEST = 10


@dataclass(frozen=True)
class Total:
    """One counter.

    Attributes:
        name: What is counted.
        hour: In the last hour, as far as known; None: not known.
        day: In the last day.
        ever: Since the store began.
    """

    name: str
    hour: int | None
    day: int | None
    ever: int


@dataclass(frozen=True)
class StoreFigures:
    """What the store tells.

    Attributes:
        counters: Since it began, see `aggregator.store.figures`.
        oldest_seconds: Age of the oldest report that is not folded.
        stream_bytes: Memory of reports that wait.
        generation: The least of its shards.
        memory: Its memory.
        published: Releases ever, by result.
        passed_at: When the schedule last passed without a failure, Unix time; None: never.
        enrolled: Devices ever enrolled.
        sample: The last look at the ledger.
        closings: What is due next, the soonest first, at most some.
        further: How many more.
        heads: What it has seen of administrators' logs.
        checks: Name of each check, and what it found, in words.
        day: Its last 24 hours.
    """

    counters: Counter[str]
    oldest_seconds: float
    stream_bytes: int
    generation: int
    memory: Memory
    published: Mapping[str, int]
    passed_at: float | None
    enrolled: int
    sample: LedgerSample | None
    closings: Sequence[Closing]
    further: int
    heads: Mapping[str, Head]
    checks: Sequence[tuple[str, str]]
    day: Day

    def ever(self, counter: str) -> int:
        """Return a counter: one of `counters`, or the devices enrolled."""
        if counter == "enrolled":
            return self.enrolled
        return self.counters[COUNTER_OF.get(counter, counter)]

    def totals(self, counters: Iterable[str]) -> list[Total]:
        """Return what became of some counters."""
        return [
            Total(name, self.day.total(name, HOUR_SECONDS), self.day.total(name), self.ever(name))
            for name in counters
        ]

    @property
    def refusals(self) -> list[Total]:
        """Refusals by the store, what is frequent now first."""
        found = self.totals(OF_THE_STORE)
        return sorted(found, key=lambda total: (-(total.day or 0), -total.ever))

    @property
    def lag(self) -> int:
        """Accepted reports in no tally yet."""
        return self.counters[ACCEPTED] - self.counters["folded"] - self.counters["late"]


@dataclass(frozen=True)
class HeldKey:
    """One key; nothing of its secret.

    Attributes:
        kind: What it is for.
        id: Its number.
        label: Of a read key, who holds it.
        state: pending, active or retiring.
        age_seconds: Since it was made; None where no file tells.
        since: Day on which it came into its state.
    """

    kind: str
    id: int
    label: str
    state: str
    age_seconds: float | None
    since: str | None

    @property
    def old(self) -> bool:
        """Whether it should be replaced."""
        return self.state == "active" and (self.age_seconds or 0.0) > MOST_KEY_SECONDS


@dataclass(frozen=True)
class Operations:
    """The page.

    Attributes:
        standing: Whether the system does its work.
        store: None while it does not answer.
        servers: What they count before the store is asked.
        failures: Releases that could not be published.
        suspicions: What is odd about the newest releases.
        keys: All that are not retired.
        retired: How many are.
        audit: The end of the administrators' log.
        free_share: Of the store's disk; None where it is elsewhere or cannot be looked at.
    """

    standing: Standing
    store: StoreFigures | None
    servers: Answers
    failures: Sequence[Failure]
    suspicions: Suspicions
    keys: Sequence[HeldKey]
    retired: int
    audit: Audit
    free_share: float | None

    @property
    def refused_by_servers(self) -> list[tuple[str, int]]:
        """Reasons that occurred, the most frequent first."""
        told = self.servers.told
        return [] if told is None else [pair for pair in told.refused.most_common() if pair[1]]

    @property
    def never_by_servers(self) -> list[str]:
        """Reasons that did not occur."""
        occurred = {reason for reason, _ in self.refused_by_servers}
        return [reason for reason in OF_SERVERS if reason not in occurred]


def operations(inputs: Inputs) -> Operations:
    """Gather the page."""
    found, now = standing(inputs), inputs.clock()
    store = _of_the_store(inputs, now) if found.reached else None
    held = [key for kind in KINDS.values() for key in inputs.keys.current().ring(kind)]
    return Operations(
        standing=found,
        store=store,
        servers=inputs.servers.ask(),
        failures=failures(inputs.releases),
        suspicions=suspicions(inputs.published, day_of(now)),
        keys=[
            HeldKey(
                key.kind,
                key.id,
                getattr(key, "label", ""),
                key.state,
                None if key.created is None else max(0.0, now - _midnight(key.created)),
                None if key.since is None else key.since.isoformat(),
            )
            for key in held
            if key.state != "retired"
        ],
        retired=sum(key.state == "retired" for key in held),
        audit=audit(inputs.log, None if store is None else store.heads),
        free_share=_free(inputs),
    )


def _of_the_store(inputs: Inputs, now: float) -> StoreFigures | None:
    store = inputs.source.store
    try:
        shards = store.figures.shards()
        results, passed_at = store.figures.published()
        coming = closings(inputs.source.metrics(), now)
        return StoreFigures(
            counters=in_words(shard.counters for shard in shards),
            oldest_seconds=max(shard.oldest_seconds for shard in shards),
            stream_bytes=sum(shard.stream_bytes for shard in shards),
            generation=min(shard.generation for shard in shards),
            memory=store.figures.memory(),
            published=results,
            passed_at=passed_at,
            enrolled=store.figures.enrolled(),
            sample=store.figures.ledger_sample(),
            closings=coming[:_SOONEST],
            further=max(0, len(coming) - _SOONEST),
            heads=store.log_heads.all(),
            checks=_checks(store),
            day=day(inputs),
        )
    except (StoreUnavailable, StoreRefused):  # it went away since its standing was told
        return None


def _checks(store: Store) -> list[tuple[str, str]]:
    return [
        ("Eviction", _word(store.check_policy, "off, as it must be")),
        ("Restored from a backup", _word(store.check_generation, "no")),
        ("Schema", _word(store.check_schema, f"{newest_schema()}, that of this version")),
    ]


def _word(check: Callable[[], None], sound: str) -> str:
    try:
        check()
    except StoreRefused as error:
        return str(error)
    return sound


def _midnight(day: object) -> float:
    return datetime.fromisoformat(str(day)).replace(tzinfo=UTC).timestamp()


def _free(inputs: Inputs) -> float | None:
    if inputs.free_share is None:
        return None
    try:
        return inputs.free_share()
    except OSError:
        return None
