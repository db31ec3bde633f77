"""What does not fit into a life: the same as a device's own ledger says, whatever the files are."""

import tempfile
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.store.accounts import Account
from aggregator.store.ledger_sample import LedgerSample
from client_sdk.epochs import epoch_of
from client_sdk.ledger import Ledger
from client_sdk.registry import Registry, loads
from client_sdk.state import State
from estimator.ledger.fitting import fullest_life, taken_up, without_a_report
from tests.registries import Date, crashed, registry, theme

FIRST = date(2026, 1, 1)
TODAY = date(2026, 4, 1)
MICRO = 1_000_000
EPOCHS = st.sampled_from(["day", "week", "month", "once"])
MEMOIZED = """
[metrics.{name}]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = {epsilon}
memoize = {{ epsilon_permanent = 4.0, distinct_values = {distinct} }}
rappor = {{ bits = 16, hashes = 2, cohorts = 4 }}
epoch = "{epoch}"
owners = ["web@example.org"]
"""


def day(number: int) -> Date:
    return Date(FIRST + timedelta(days=number))


@st.composite
def table(draw: st.DrawFn, name: str) -> str:
    """One metric: fresh noise, or remembered."""
    epoch = draw(EPOCHS)
    if draw(st.integers(0, 3)) == 0:
        text = MEMOIZED.format(
            name=name,
            epsilon=draw(st.sampled_from([1.0, 2.0])),
            distinct=draw(st.integers(1, 3)),
            epoch=epoch,
        )
        if draw(st.booleans()):
            text += f"starts = {day(draw(st.integers(0, 40)))}\n"
        return text
    starts = draw(st.integers(0, 60))
    keys: dict[str, Any] = {
        "epoch": epoch,
        "epsilon": draw(st.sampled_from([0.5, 1.0, 2.0])),
        "starts": day(starts),
        "expires": day(starts + draw(st.integers(1, 60))),
    }
    if epoch != "once":
        keys["every"] = draw(st.integers(1, 3))
    return crashed(**keys).replace("crashed", name)


@st.composite
def history(draw: st.DrawFn) -> list[Registry]:
    """Files that follow each other, each with just enough of a life for its own metrics, or more;
    many tables are those of the file before."""
    files: list[Registry] = []
    before: dict[str, str] = {}
    for _ in range(draw(st.integers(1, 4))):
        names = draw(st.lists(st.sampled_from("abcd"), min_size=1, max_size=3, unique=True))
        tables = {}
        for name in names:
            keep = name in before and draw(st.booleans())
            tables[name] = before[name] if keep else draw(table(name))
        before |= tables
        roomy = loads(registry(*tables.values()))
        least = sum(metric.share(metric.starts) for metric in roomy.metrics.values()) / MICRO
        more = draw(st.sampled_from([0, 0, 1, 5, 50]))
        files.append(loads(registry(*tables.values(), lifetime=min(1000, least + more))))
    return files


def lived(files: Sequence[Registry]) -> tuple[int, dict[str, tuple[int, int, bool]]]:
    """Live day by day with a device's own ledger; return what was spent before the newest file,
    and shares when it is taken up."""
    days = taken_up(files, TODAY)
    with tempfile.TemporaryDirectory() as directory:
        state = State(directory)
        with state.transaction() as connection:
            for place, file in enumerate(files):
                ledger = Ledger(connection, file.lifetime_micro)
                spent = ledger.spent()
                ledger.reserve(file, (days[place] - date(1970, 1, 1)).days * 86_400.0)
                end = days[place + 1] if place + 1 < len(files) else days[place]
                for number in range((end - days[place]).days):
                    now = days[place] + timedelta(days=number)
                    for metric in file.metrics.values():
                        if metric.starts <= now < metric.expires:
                            ledger.charge(metric, epoch_of(metric.epoch, now))
            shares = {s.metric: (s.reserved, s.spent, s.fits) for s in ledger.shares()}
        state.close()
    return spent, shares


@settings(max_examples=120, deadline=None)
@given(history())
def test_what_fits_is_what_a_device_that_has_lived_with_all_files_says(
    files: list[Registry],
) -> None:
    found = fullest_life(files, TODAY)
    spent, shares = lived(files)
    assert found.spent == spent
    assert {fit.metric: fit.fits for fit in found.fits} == {
        name: shares[name][2] for name in files[-1].metrics
    }
    reserved = sum(share[0] for share in shares.values())
    for fit in found.fits:
        assert fit.fits == (fit.needed <= fit.free)
    if found.fits and found.fits[-1].fits:
        left = found.fits[-1].free - found.fits[-1].needed
        assert left == max(0, files[-1].lifetime_micro - reserved)


THEME = theme(starts=day(4), expires=day(368))  # 52 weeks, from Monday 5 January on
CRASHED = crashed(epoch="day", starts=day(60), expires=day(260))  # 200 days, from 2 March on


def test_a_new_metric_is_off_for_who_has_spent_what_it_needs() -> None:
    files = [loads(registry(table, lifetime=204)) for table in (THEME, CRASHED)]
    life = fullest_life(files, TODAY)
    assert (life.since, life.day) == (date(2026, 1, 5), date(2026, 3, 2))
    assert life.spent == 8 * MICRO  # eight weeks, and theme gave back the rest
    (fit,) = life.off
    assert (fit.metric, fit.needed, fit.free) == ("crashed", 200 * MICRO, 196 * MICRO)


def test_what_still_stands_in_the_file_gives_nothing_back() -> None:
    files = [loads(registry(*tables, lifetime=252)) for tables in ([THEME], [THEME, CRASHED])]
    assert fullest_life(files, TODAY).off == ()
    narrow = theme(starts=day(4), expires=day(60))
    files[1] = loads(registry(narrow, CRASHED, lifetime=251))
    (fit,) = fullest_life(files, TODAY).off  # theme holds 52 although 8 would do now
    assert (fit.metric, fit.free) == ("crashed", 199 * MICRO)


def test_the_only_file_always_fits() -> None:
    life = fullest_life([loads(registry(theme(), crashed()))], TODAY)
    assert life.off == () and life.spent == 0 and life.since == life.day == date(2026, 11, 2)


def test_a_file_that_begins_nothing_new_is_taken_up_as_late_as_can_be() -> None:
    both, one = (loads(registry(*tables)) for tables in ([THEME, CRASHED], [THEME]))
    late = loads(registry(theme(starts=day(300))))
    web = loads(registry(THEME, MEMOIZED.format(name="web", epsilon=1.0, distinct=1, epoch="day")))
    first, following = date(2026, 1, 5), date(2026, 3, 2)
    assert taken_up([both, one], TODAY) == [first, TODAY]
    assert taken_up([one, one, both], TODAY) == [first, following, following]
    assert taken_up([one, web], TODAY) == [first, TODAY]  # it has no start that could tell
    assert taken_up([late, one, both], TODAY)[0] == date(2026, 10, 28)
    assert len(set(taken_up([late, one, both], TODAY))) == 1  # and none before an older one


@pytest.mark.parametrize(
    ("charge", "found"),
    [(1, (0, 4)), (5, (0, 4)), (6, (4, 4)), (7, (4, 7)), (11, (7, 7)), (12, (7, 9)), (20, (9, 10))],
)
def test_devices_that_cannot_pay_are_counted_by_classes(
    charge: int, found: tuple[int, int]
) -> None:
    # Of a life of 20: below 5 spent 1 device, below 10 two, below 15 three, up to 20 four.
    assert without_a_report((1, 2, 3, 4), 20, charge) == found


@given(st.lists(st.integers(1, 410), max_size=50), st.integers(1, 400))
def test_the_true_number_of_devices_lies_between_the_two(spent: list[int], charge: int) -> None:
    histogram = LedgerSample.of(
        [Account(each, 1, ()) for each in spent], cap=400, cheapest=1, scale=1, now=0
    ).histogram
    least, most = without_a_report(histogram, 400, charge)
    assert least <= sum(400 - each < charge for each in spent) <= most
