"""Shares, charges, marks: plain addition that no edit of the file can get around."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client_sdk import Registry
from client_sdk.ledger import ELSEWHERE, Ledger
from client_sdk.state import State

DAY = 86_400
START = 1_796_083_200.0  # 2026-12-01


class Book:
    """A ledger in a real state, one transaction per act."""

    def __init__(self, directory: Path) -> None:
        self.state = State(directory)

    def _do(self, registry: Registry, act: Callable[[Ledger], Any]) -> Any:
        with self.state.transaction() as connection:
            return act(Ledger(connection, registry.lifetime_micro))

    def reserve(self, registry: Registry, day: int = 0) -> None:
        self._do(registry, lambda ledger: ledger.reserve(registry, START + day * DAY))

    def charge(self, registry: Registry, name: str, day: int = 0) -> str | None:
        metric = registry.metrics[name]
        epoch = {"day": 20_788 + day, "week": 2_970 + day // 7, "once": 0}[metric.epoch]
        answer: str | None = self._do(registry, lambda ledger: ledger.charge(metric, epoch))
        return answer

    def raise_to(self, registry: Registry, spent: int) -> None:
        self._do(registry, lambda ledger: ledger.raise_to(spent))

    def shares(self, registry: Registry) -> dict[str, tuple[int, int, bool]]:
        found: dict[str, tuple[int, int, bool]] = self._do(
            registry,
            lambda ledger: {s.metric: (s.reserved, s.spent, s.fits) for s in ledger.shares()},
        )
        return found

    def spent(self, registry: Registry) -> int:
        spent: int = self._do(registry, lambda ledger: ledger.spent())
        return spent


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    opened = Book(tmp_path)
    yield opened
    opened.state.close()


MakeRegistry = Callable[..., Registry]


def test_shares_are_reserved_whole_when_a_registry_is_first_loaded(
    book: Book, registry_of: MakeRegistry, tables: dict[str, str]
) -> None:
    registry = registry_of(*tables.values())
    book.reserve(registry)
    assert book.shares(registry) == {
        "theme": (7_000_000, 0, True),
        "home_page": (8_000_000, 0, True),
    }


def test_a_device_that_starts_late_reserves_what_is_left(
    book: Book, registry_of: MakeRegistry
) -> None:
    registry = registry_of()
    book.reserve(registry, day=5)
    assert book.shares(registry)["theme"] == (2_000_000, 0, True)


def test_a_metric_that_does_not_fit_is_off_from_the_start(
    book: Book, registry_of: MakeRegistry, tables: dict[str, str]
) -> None:
    old = registry_of(tables["home_page"], lifetime=10)
    book.reserve(old)
    assert book.charge(old, "home_page") is None
    grown = registry_of(tables["theme"], lifetime=10)
    book.reserve(grown)
    # 8 of 10 are spent for ever, though the metric is gone; 7 do not fit.
    assert book.shares(grown)["theme"] == (0, 0, False)
    assert book.charge(grown, "theme") == "does_not_fit"


def test_a_share_is_spent_to_the_last_millionth_and_no_further(
    book: Book, registry_of: MakeRegistry
) -> None:
    # Case C46: cap 1.0, ten reports of 0.1; Python's floats leave 1e-16 for an eleventh.
    registry = registry_of(lifetime="1.0", epsilon="0.1", expires="2026-12-11")
    book.reserve(registry)
    for day in range(10):
        assert book.charge(registry, "theme", day) is None
    assert book.spent(registry) == 1_000_000
    assert book.charge(registry, "theme", 10) == "budget_exhausted"
    assert book.spent(registry) == 1_000_000


def test_idle_days_do_not_lower_what_was_spent(book: Book, registry_of: MakeRegistry) -> None:
    # Case C48: no renewal by day, epoch or window.
    registry = registry_of(expires="2027-01-01")
    book.reserve(registry)
    book.charge(registry, "theme", 0)
    book.reserve(registry, day=30)
    assert book.spent(registry) == 1_000_000


def test_an_epoch_is_charged_once(book: Book, registry_of: MakeRegistry) -> None:
    registry = registry_of()
    book.reserve(registry)
    assert book.charge(registry, "theme") is None
    assert book.charge(registry, "theme") == "already_reported"
    assert book.spent(registry) == 1_000_000
    assert book.charge(registry, "theme", 1) is None


def test_a_restart_in_mid_epoch_does_not_grow_the_reservation(
    book: Book, registry_of: MakeRegistry
) -> None:
    registry = registry_of()
    for day in range(7):
        book.reserve(registry, day)
        assert book.charge(registry, "theme", day) is None
        book.reserve(registry, day)
        book.reserve(registry, day)
        assert book.shares(registry)["theme"][0] == 7_000_000
    assert book.shares(registry)["theme"] == (7_000_000, 7_000_000, True)


def test_a_memoized_metric_pays_its_reservation_with_the_first_report(
    book: Book, registry_of: MakeRegistry, tables: dict[str, str]
) -> None:
    registry = registry_of(tables["home_page"])
    book.reserve(registry)
    for day in range(20):
        assert book.charge(registry, "home_page", day) is None
        book.reserve(registry, day)
        assert book.shares(registry)["home_page"] == (8_000_000, 8_000_000, True)


def test_more_distinct_values_of_the_same_channel_are_paid_for(
    book: Book, registry_of: MakeRegistry, tables: dict[str, str]
) -> None:
    registry = registry_of(tables["home_page"])
    book.reserve(registry)
    book.charge(registry, "home_page")
    more = registry_of(
        tables["home_page"], memoize="{ epsilon_permanent = 4.0, distinct_values = 5 }"
    )
    assert more.metrics["home_page"].channel_hash == registry.metrics["home_page"].channel_hash
    book.reserve(more, day=1)
    assert book.charge(more, "home_page", 1) is None
    assert book.spent(more) == 20_000_000
    book.reserve(registry, day=2)  # and back: what is paid stays paid
    assert book.charge(registry, "home_page", 2) is None
    assert book.spent(more) == 20_000_000


def test_a_longer_life_reserves_more_only_while_it_fits(
    book: Book, registry_of: MakeRegistry
) -> None:
    book.reserve(registry_of(lifetime=9))
    longer = registry_of(lifetime=9, expires="2026-12-10")
    book.reserve(longer)
    assert book.shares(longer)["theme"] == (9_000_000, 0, True)


def test_another_epoch_length_does_not_buy_beyond_the_cap(
    book: Book, registry_of: MakeRegistry
) -> None:
    daily, weekly = registry_of(lifetime=8), registry_of(lifetime=8, epoch='"week"')
    spent = []
    for day in range(30):
        for registry in (daily, weekly):
            book.reserve(registry, day)
            book.charge(registry, "theme", day)
            spent.append(book.spent(registry))
    assert max(spent) <= 8_000_000


edits = st.fixed_dictionaries(
    {},
    optional={
        "epsilon": st.sampled_from(["0.5", "1.0", "1.5", "3"]),
        "expires": st.sampled_from(["2026-12-04", "2026-12-08", "2026-12-12"]),
        "starts": st.sampled_from(["2026-11-01", "2026-12-01", "2026-12-03"]),
        "epoch": st.sampled_from(['"day"', '"week"', '"once"']),
    },
)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(history=st.lists(st.tuples(edits, st.integers(0, 12)), max_size=12))
def test_no_history_of_edited_files_exceeds_the_cap(
    history: list[tuple[dict[str, str], int]],
    tmp_path_factory: pytest.TempPathFactory,
    registry_of: MakeRegistry,
) -> None:
    book = Book(tmp_path_factory.mktemp("book"))
    cap = 12
    try:
        for edit, day in sorted(history, key=lambda step: step[1]):
            try:
                registry = registry_of(lifetime=cap, **edit)
            except ValueError:
                continue
            book.reserve(registry, day)
            book.charge(registry, "theme", day)
            reserved = sum(share[0] for share in book.shares(registry).values())
            assert book.spent(registry) <= reserved <= cap * 1_000_000
    finally:
        book.state.close()


def test_the_servers_figure_raises_and_never_lowers(book: Book, registry_of: MakeRegistry) -> None:
    registry = registry_of()
    book.reserve(registry)
    book.charge(registry, "theme")
    book.raise_to(registry, 500_000)
    assert book.spent(registry) == 1_000_000
    book.raise_to(registry, 5_000_000)
    book.raise_to(registry, 4_000_000)
    assert book.spent(registry) == 5_000_000
    assert book.shares(registry)[ELSEWHERE] == (4_000_000, 4_000_000, False)


def test_what_the_server_knows_of_counts_against_the_cap(
    book: Book, registry_of: MakeRegistry
) -> None:
    registry = registry_of(lifetime=7)
    book.reserve(registry)
    book.raise_to(registry, 6_500_000)
    assert book.charge(registry, "theme") == "budget_exhausted"
    assert book.spent(registry) == 6_500_000


def test_a_lowered_cap_is_kept(book: Book, registry_of: MakeRegistry) -> None:
    book.reserve(registry_of(lifetime=50))
    lower = registry_of(lifetime=3, expires="2026-12-04")
    book.reserve(lower)
    answers = [book.charge(lower, "theme", day) for day in range(7)]
    assert answers[:3] == [None] * 3
    assert set(answers[3:]) == {"budget_exhausted"}
    assert book.spent(lower) == 3_000_000
