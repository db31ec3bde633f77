"""From a recorded value to a stored report: charge, randomize, spool, in one transaction.

This is the only place where a value meets a mechanism. What comes out is finished: spool,
retry and upload can change nothing about privacy any more.
"""

import sqlite3

from client_sdk.absence import unrecorded, watch
from client_sdk.epochs import end_of
from client_sdk.ledger import Ledger
from client_sdk.mechanisms import Value
from client_sdk.metric import Metric
from client_sdk.pending import Pending, keep_until
from client_sdk.randomness import Coin, PrfStream, keyed_tag
from client_sdk.registry import Registry
from client_sdk.report import Report, report_to_json
from client_sdk.spool import LONGEST_ONCE_SECONDS, add
from client_sdk.spreading import is_turn, takes_part
from client_sdk.state import State


class Recorder:
    """Stores reports in a device's state.

    Args:
        state: The device's state.
        registry: Whose shares are reserved now, if they were not before.
        now: Unix time in seconds.
        coin: Fresh randomness; tests replace it.
    """

    def __init__(self, state: State, registry: Registry, now: float, coin: Coin) -> None:
        self._state = state
        self._registry = registry
        self._now = now
        self._coin = coin
        self._secret = state.secret
        with state.transaction() as connection:
            ledger = Ledger(connection, registry.lifetime_micro)
            ledger.reserve(registry, now, lambda metric: takes_part(self._secret, metric))
            watch(connection, registry, now)

    def store(self, pending: list[Pending], now: float | None = None) -> list[str]:
        """Charge, randomize and spool values; all of it becomes durable at once.

        Args:
            pending: What to store.
            now: Unix time in seconds, if it is no longer that of construction.

        Returns:
            The reason of each value that was dropped.

        Raises:
            StateError: Nothing was stored.
        """
        self._now = self._now if now is None else now
        dropped = []
        with self._state.transaction() as connection:
            ledger = Ledger(connection, self._registry.lifetime_micro)
            for each in pending:
                reason = self._refusal(each) or ledger.charge(each.metric, each.epoch)
                if reason is None:
                    self._spool(connection, each)
                else:
                    dropped.append(reason)
        return dropped

    def report_absence(self, now: float) -> None:
        """Report `when_absent` for every watched epoch that is over without a record.

        Raises:
            StateError: Nothing was stored.
        """
        with self._state.transaction() as connection:
            absent = list(unrecorded(connection, self._registry, now))
        if absent:
            self.store(absent, now)

    def _refusal(self, pending: Pending) -> str | None:
        """Return why the device's secret keeps it from reporting now, whatever the value."""
        if not takes_part(self._secret, pending.metric):
            return "not_sampled"
        if not is_turn(self._secret, pending.metric, pending.epoch):
            return "not_its_turn"
        return None

    def _spool(self, connection: sqlite3.Connection, pending: Pending) -> None:
        metric, mechanism = pending.metric, pending.metric.mechanism
        cohort = cohort_of_report(self._secret, metric, self._coin)
        if metric.memoize is None:
            permanent = mechanism.permanent(pending.value, cohort, self._coin)
        else:
            permanent = self._remembered(connection, metric, pending.value, cohort)
        report = Report(
            metric=metric.name,
            fingerprint=metric.fingerprint,
            epoch=pending.epoch,
            cohort=cohort,
            response=mechanism.instantaneous(permanent, self._coin),
        )
        # With when_absent all reports leave after the epoch: an early one would tell that
        # something was recorded.
        not_before = 0.0 if metric.when_absent is None else end_of(metric.epoch, pending.epoch)
        keep = keep_until(metric, pending.epoch)
        if metric.epoch == "once":
            keep = min(keep, self._now + LONGEST_ONCE_SECONDS)
        text = report_to_json(report, mechanism)
        add(connection, text, not_before=not_before, keep_until=keep)

    def _remembered(
        self, connection: sqlite3.Connection, metric: Metric, value: Value, cohort: int
    ) -> int:
        """Return the permanent response of a value, paying for a new one while some are left.

        When the reservation's distinct values are used up, the latest paid one is reported
        instead: post-processing that costs nothing, where silence would tell that a further
        value was seen.
        """
        assert metric.memoize is not None
        channel = metric.channel_hash
        tag = memory_tag(self._secret, metric, value, cohort)
        row = connection.execute(
            "SELECT permanent FROM memory WHERE metric = ? AND channel = ? AND tag = ?",
            (metric.name, channel, tag),
        ).fetchone()
        if row is None:
            paid, latest = connection.execute(
                "SELECT count(*), max(id) FROM memory WHERE metric = ? AND channel = ?",
                (metric.name, channel),
            ).fetchone()
            if paid < metric.memoize.distinct_values:
                permanent = permanent_response(self._secret, metric, value, cohort)
                connection.execute(
                    "INSERT INTO memory (metric, channel, tag, permanent) VALUES (?, ?, ?, ?)",
                    (metric.name, channel, tag, _packed(metric, permanent)),
                )
                return permanent
            row = connection.execute(
                "SELECT permanent FROM memory WHERE id = ?", (latest,)
            ).fetchone()
        return int.from_bytes(row[0], "little")


def cohort_of_report(secret: bytes, metric: Metric, coin: Coin) -> int:
    """Return the cohort of a new report, which never depends on its value.

    Remembered noise belongs to one cohort for ever. Otherwise each report draws one: a lasting
    cohort would only help to recognise a device.
    """
    if metric.mechanism.cohorts == 1:
        return 0
    if metric.memoize is not None:
        return device_cohort(secret, metric)
    return coin.uniform(metric.mechanism.cohorts)


def device_cohort(secret: bytes, metric: Metric) -> int:
    """Return the device's cohort for a metric: drawn by its secret, whatever its values."""
    cohorts = metric.mechanism.cohorts
    return Coin(PrfStream(secret, b"cohort", metric.name.encode())).uniform(cohorts)


def permanent_response(secret: bytes, metric: Metric, value: Value, cohort: int) -> int:
    """Return the remembered response of a value: a function of the secret, never drawn anew."""
    stream = PrfStream(secret, b"permanent", *_memory_key(metric, value, cohort))
    return metric.mechanism.permanent(value, cohort, Coin(stream))


def memory_tag(secret: bytes, metric: Metric, value: Value, cohort: int) -> bytes:
    """Return the 128-bit keyed tag under which a permanent response is kept."""
    return keyed_tag(secret, *_memory_key(metric, value, cohort))


def _memory_key(metric: Metric, value: Value, cohort: int) -> tuple[bytes, ...]:
    name = metric.mechanism.remembered_as(value, cohort).encode("utf-8", "surrogatepass")
    return metric.name.encode(), metric.channel_hash.encode(), name


def _packed(metric: Metric, permanent: int) -> bytes:
    return permanent.to_bytes((metric.mechanism.cells + 7) // 8, "little")
