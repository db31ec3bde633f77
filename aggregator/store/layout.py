"""Where everything lies in the store: the only file that knows a key.

Devices are spread over shards. All keys of a shard share a hash tag, so that one script is atomic
on a cluster too, and no call touches two shards.

    {meta}:shape            hash: what is fixed for the store's life
    {meta}:registries       hash: digest -> text of every registry version
    {meta}:registry_order   list: digests in the order they came
    {meta}:ready            written by readiness checks; on a cluster's other servers {sNN}:ready
    {meta}:recovery         hash: the recovery from a backup that is under way
    {meta}:recovered        hash: the last one that was finished
    {meta}:counters         hash: what happened in no shard: enrolments, publishing
    {meta}:history          hash: minute, going round -> JSON: the counters then; see store.history
    {meta}:newest_releases  hash: metric -> what its newest release says; see store.newest_releases
    {meta}:survey           JSON: the last look at how much devices have spent
    {meta}:rewriting        there while the append-only file need not be rewritten yet
    {meta}:migrating        lock of who migrates, see store.migrations
    {meta}:log_heads        hash: administrators' log -> how far it has come
    {meta}:invitations      hash: survey and what -> its sealed key, last day, how many invitations
    {meta}:unused:SURVEY    sorted set of equal scores: digests of unused invitations
    {meta}:used:SURVEY      the same of used ones, each with the digest of its blinded message
    limit:NAME              counter of a rate limit, with a time to live; a name holds no address,
                            only what aggregator.enrolment.networks makes of one
    {sNN}:life              hash: generation, when it was raised, floor, and how far a recovery has
                            come here; see store.generation and store.recovery
    {sNN}:ledger:B          hash, bucket B: pseudonym -> record (aggregator.ledger)
    {sNN}:answers:B         hash: pseudonym -> verdict codes of the last batch, unless all accepted
    {sNN}:mark:SERIES:E:B   intset of pseudonyms that have reported a metric in epoch E
    {sNN}:memo:CHANNEL:B    intset of pseudonyms that have paid for a memoized channel
    {sNN}:erased:B          intset of pseudonyms that were erased: nothing is taken from them again
    {sNN}:stream            reports that are not folded yet; no entry holds a pseudonym
    {sNN}:cursor            id of the last folded entry
    {sNN}:tally:GROUP       hash: cohort -> reports and counts, uint32
    {sNN}:groups            set: groups that have a tally
    {sNN}:popcounts         hash: group of bit vectors -> reports by number of bits set, uint32
    {sNN}:watermarks        hash: series -> last epoch that intake refuses
    {sNN}:frozen            hash: series -> last epoch that the fold refuses
    {sNN}:counters          hash: what happened here, by name
    {sNN}:reports           hash: metric:fingerprint -> reports ever folded
    {sNN}:probe             for a moment at start, see store.admission
"""

import hmac
from dataclasses import dataclass
from functools import cached_property

SHAPE = "{meta}:shape"
REGISTRIES = "{meta}:registries"
REGISTRY_ORDER = "{meta}:registry_order"
READY = "{meta}:ready"
RECOVERY = "{meta}:recovery"
RECOVERED = "{meta}:recovered"
COUNTERS = "{meta}:counters"
HISTORY = "{meta}:history"
NEWEST_RELEASES = "{meta}:newest_releases"
LEDGER_SAMPLE = "{meta}:survey"
REWRITING = "{meta}:rewriting"
MIGRATING = "{meta}:migrating"
LOG_HEADS = "{meta}:log_heads"
INVITATIONS = "{meta}:invitations"


def limit(name: str) -> str:
    """A rate limit's counter."""
    return f"limit:{name}"


def unused_invitations(survey: str) -> str:
    """The invitations of a survey that nobody has used."""
    return f"{{meta}}:unused:{survey}"


def used_invitations(survey: str) -> str:
    """Those that somebody has."""
    return f"{{meta}}:used:{survey}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a device's record lies: shard and bucket, and its 8-byte name there."""

    shard: int
    bucket: int
    pseudonym: bytes

    @property
    def member(self) -> int:
        """The pseudonym as intsets hold it."""
        return int.from_bytes(self.pseudonym, "big", signed=True)


@dataclass(frozen=True)
class Shard:
    """The keys of one shard."""

    number: int

    @cached_property
    def tag(self) -> str:
        """The hash tag that keeps the shard in one slot."""
        return f"{{s{self.number:02d}}}"

    def key(self, name: str) -> str:
        """A key that the shard has once."""
        return f"{self.tag}:{name}"

    def in_bucket(self, name: str, bucket: int) -> str:
        """A key that each bucket of devices has."""
        return f"{self.tag}:{name}:{bucket}"

    def memo(self, channel: str, bucket: int) -> str:
        """The set of a bucket's devices that have paid for a memoized channel."""
        return f"{self.tag}:memo:{channel}:{bucket}"

    def mark(self, series: str, epoch: int, bucket: int) -> str:
        """The set of a bucket's devices that have reported in an epoch."""
        return f"{self.tag}:mark:{series}:{epoch}:{bucket}"

    def tally(self, group: str) -> str:
        """The tally of a group."""
        return f"{self.tag}:tally:{group}"


@dataclass(frozen=True)
class Layout:
    """What is fixed for the store's life.

    Attributes:
        shards: Number of shards.
        buckets: Number of ledger buckets per shard.
        pseudonym_key: Names devices in the ledger.
    """

    shards: int
    buckets: int
    pseudonym_key: bytes

    @cached_property
    def all_shards(self) -> tuple[Shard, ...]:
        """Every shard, by number."""
        return tuple(Shard(number) for number in range(self.shards))

    def place(self, device: str) -> Place:
        """Return where a device's record lies."""
        message = b"sottovoce device\x00" + device.encode()
        drawn = hmac.digest(self.pseudonym_key, message, "sha256")
        shard = int.from_bytes(drawn[8:16], "big") % self.shards
        bucket = int.from_bytes(drawn[16:24], "big") % self.buckets
        return Place(shard, bucket, drawn[:8])

    @property
    def seal(self) -> str:
        """Tells one pseudonym key from another, and nothing about it."""
        return hmac.digest(self.pseudonym_key, b"sottovoce store seal", "sha256").hex()[:16]
