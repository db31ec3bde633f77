"""The server's view of spent epsilon: devices, metrics, and figures that nothing enforces."""

import pytest

from aggregator.store.accounts import Account
from aggregator.store.ledger_sample import LedgerSample
from client_sdk.accounting import of_unknown_reports
from client_sdk.registry import loads
from estimator.ledger.spending import Prices, sampled, spending

REGISTRY = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 24
contact = "telemetry@example.org"
[metrics.crashed]
question = "Did the app crash?"
type = "boolean"
sensitivity = "product"
epsilon = 0.1
epoch = "day"
starts = 2026-11-01
expires = 2026-12-01
[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = { epsilon_permanent = 4.0, distinct_values = 2 }
rappor = { bits = 32, hashes = 2, cohorts = 4 }
epoch = "week"
"""
WIDER = REGISTRY.replace("distinct_values = 2", "distinct_values = 3")


@pytest.fixture
def prices():
    return Prices.of([*loads(REGISTRY).metrics.values(), *loads(WIDER).metrics.values()])


@pytest.fixture
def metrics():
    return loads(REGISTRY).metrics


def test_what_each_metric_cost_adds_up_to_the_ledger(metrics, prices):
    crashed, home_page = metrics["crashed"], metrics["home_page"]
    price = crashed.charge
    paid = (home_page.channel_hash,)
    accounts = [Account(10 * price, 10, ()), Account(12_000_000 + price, 2, paid)]
    reports = {
        ("crashed", crashed.fingerprint): 11,
        ("home_page", home_page.fingerprint): 5,
    }
    found = spending(iter(accounts), reports, prices, 24_000_000, price)
    assert found.metrics["crashed"].reports == 11
    assert found.metrics["crashed"].devices_paid is None
    assert found.metrics["crashed"].epsilon == pytest.approx(11 * price / 1e6)
    # Two versions reserve differently for one channel; the dearer one is taken.
    assert (found.metrics["home_page"].reports, found.metrics["home_page"].devices_paid) == (5, 1)
    assert found.metrics["home_page"].epsilon == pytest.approx(12.0)
    total = sum(account.spent for account in accounts) / 1e6
    assert sum(metric.epsilon for metric in found.metrics.values()) == pytest.approx(total)


def test_composition_tightens_fresh_reports_and_adds_reservations_plainly(metrics, prices):
    price, paid = metrics["crashed"].charge, (metrics["home_page"].channel_hash,)
    accounts = [
        Account(100 * price, 100, ()),
        Account(12_000_000 + 100 * price, 101, paid),
        Account(100 * price, 100, ()),
    ]
    found = spending(accounts, {}, prices, 24_000_000, price)
    assert found.highest.spent == pytest.approx(22.0, abs=1e-3)
    assert found.highest.remembered == 12.0
    fresh = of_unknown_reports(100 * price / 1e6, {price / 1e6})
    # 100 x 0.1 at delta 1e-6: 4.7746 exactly (reference 11).
    assert fresh == pytest.approx(4.7746, abs=1e-3)
    assert found.highest.epsilon == pytest.approx(12.0 + fresh)
    assert found.median.epsilon == pytest.approx(fresh)
    assert found.median.spent == pytest.approx(10.0, abs=1e-3)
    assert found.highest.delta == 1e-6


def test_of_devices_with_one_figure_the_one_with_least_to_gain_is_shown(metrics, prices):
    paid = (metrics["home_page"].channel_hash,)
    accounts = [Account(12_000_000, 120, ()), Account(12_000_000, 1, paid)]
    found = spending(accounts, {}, prices, 24_000_000, 1)
    assert found.highest.epsilon == found.highest.spent == 12.0


def test_no_devices_have_no_figures(prices):
    found = spending([], {}, prices, 24_000_000, 100_000)
    assert found.lifetime.devices == 0 and found.highest is None and found.median is None
    assert found.to_dict()["composition"] == {"highest": None, "median": None}


def test_a_version_registered_meanwhile_is_left_out(prices):
    assert spending([], {("crashed", "0" * 16): 5}, prices, 1, 1).metrics["crashed"].reports == 0


def test_a_sample_of_everything_says_what_the_whole_ledger_says(metrics, prices):
    crashed, home_page = metrics["crashed"], metrics["home_page"]
    price, paid = crashed.charge, (home_page.channel_hash,)
    accounts = [Account(n * price, n, ()) for n in range(1, 8)]
    accounts += [Account(12_000_000 + price, 2, paid)] * 2
    reports = {("crashed", crashed.fingerprint): 30, ("home_page", home_page.fingerprint): 2}
    whole = spending(accounts, reports, prices, 24_000_000, price)
    sample = LedgerSample.of(
        accounts, cap=24_000_000, cheapest=price, scale=1.0, now=0.0, memos=prices.memos
    )
    seen = sampled(sample, reports, prices, 24_000_000)
    assert (seen.highest, seen.median) == (whole.highest, whole.median)
    assert seen.metrics == whole.metrics and seen.cap == whole.lifetime.cap
    assert (
        sampled(LedgerSample.of([], cap=1, cheapest=1, scale=1.0, now=0.0), {}, prices, 1).highest
        is None
    )
