"""The privacy page: its figures are those of the ledger, and an id that is typed goes nowhere."""

import logging
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aggregator.store.accounts import Account
from aggregator.store.layout import LEDGER_SAMPLE
from client_sdk.accounting import DELTA, of_unknown_reports
from client_sdk.metric import Metric
from client_sdk.registry import loads
from estimator.dashboard.pages.words import NOTHING
from tests.aggregator.conftest import NOW, World, make_world
from tests.estimator.dashboard.conftest import Desk
from tests.estimator.dashboard.reading import Element
from tests.estimator.dashboard.showcase import REGISTRIES, age, look
from tests.registries import Date, crashed, registry, theme

CAP = 400.0
NEWEST = loads(REGISTRIES[1]).metrics


@pytest.fixture
def aged(shop: Desk) -> Desk:
    """Devices that have lived for half a year."""
    age(shop.world)
    return shop


def accounts(desk: Desk) -> list[Account]:
    """Every device's account, read without the page's help."""
    channels = [m.channel_hash for m in NEWEST.values() if m.memoize is not None]
    return list(desk.world.store.accounts.all(channels))


def number(text: str) -> float:
    return float(text.replace(",", "").removesuffix(" %"))


def rows(page: Element, table: str) -> dict[str, list[str]]:
    """The rows of a table by their first cell's first word."""
    return {row[0].split()[0]: row[1:] for row in page.one("table", id=table).rows[1:]}


def tiles(page: Element) -> dict[str, str]:
    return {
        tile.one("span").text: tile.text.removeprefix(tile.one("span").text).strip()
        for tile in page.all("p", class_="tile")
    }


def test_the_tiles_say_what_all_accounts_say(aged: Desk) -> None:
    spent = np.array([account.spent for account in accounts(aged)]) / 1e6
    page = aged.page("/privacy")
    found = tiles(page)
    median, highest = np.quantile(spent, 0.5, method="lower"), spent.max()
    cheapest = min(metric.charge for metric in NEWEST.values()) / 1e6
    out = int((spent + cheapest > CAP).sum())
    assert spent.size == 240 and out == 4
    assert found == {
        "Devices known": "240 that have ever reported",
        "Median spent, epsilon": f"{median:.4g} {100 * median / CAP:.2f} % of a life",
        "Highest spent, epsilon": f"{highest:.4g} {100 * highest / CAP:.2f} % of a life",
        "Exhausted": f"1.67 % can pay for no question any more: {out} devices",
    }
    words = page.part("What devices have spent").text
    assert "Looked at 2026-11-30 11:59 UTC, 1 minute ago" in words and "sample" in words


def test_the_histogram_counts_every_account_in_its_class(aged: Desk) -> None:
    spent = [account.spent for account in accounts(aged)]
    table = aged.page("/privacy").one("table", id="classes").rows[1:]
    assert len(table) == 20
    for place, (ends, devices, share) in enumerate(table):
        low, high = 20_000_000 * place, 20_000_000 * (place + 1)
        held = sum(low <= each < high or (place == 19 and each >= high) for each in spent)
        words = "and with " if place == 19 else "below "
        assert ends == f"{low // 10**6} to {words}{high // 10**6}"
        assert (devices, share) == (str(held), f"{100 * held / 240:.2f} %")


def test_shares_are_those_of_the_newest_file_and_used_is_an_average(aged: Desk) -> None:
    found = rows(aged.page("/privacy"), "parts")
    assert list(found) == [*NEWEST, "Free,"]
    reports = aged.world.store.figures.folded()
    payers = Counter(channel for account in accounts(aged) for channel in account.paid)
    total = 0.0
    for metric in NEWEST.values():
        reserved, part, used = map(number, found[metric.name])
        share = metric.share(metric.starts) / 1e6
        total += share
        assert reserved == pytest.approx(share, rel=1e-3)
        assert part == pytest.approx(100 * share / CAP, abs=0.006)
        times = (
            reports[metric.name, metric.fingerprint] // 100 * 100
            if metric.memoize is None
            else payers[metric.channel_hash]
        )
        assert used == pytest.approx(times * metric.charge / 1e6 / 240, rel=1e-3)
    assert number(found["Free,"][0]) == pytest.approx(CAP - total, rel=1e-3)
    assert number(found["theme"][2]) > 10 and number(found["home_page"][2]) > 2


def test_what_questions_have_cost_is_what_reports_and_payers_cost(aged: Desk) -> None:
    found = rows(aged.page("/privacy"), "spends")
    assert list(found) == [*NEWEST, "old_flag"]
    reports = aged.world.store.figures.folded()
    crashes = reports["crashed", NEWEST["crashed"].fingerprint] // 100 * 100
    assert crashes > 10_000
    cost = f"{crashes * 0.5:,.0f}"
    assert found["crashed"] == [f"{crashes:,}", "each report", cost, cost]
    home = NEWEST["home_page"]
    payers = sum(home.channel_hash in account.paid for account in accounts(aged))
    changes = payers * float(home.mechanism.epsilon_instantaneous)
    assert found["home_page"] == ["80", f"{payers}", f"{8 * payers}", f"{changes:,.4g}"]
    assert payers == 80


@pytest.mark.parametrize("further", [1, 42, 99])
def test_what_a_withheld_release_hides_cannot_be_had_by_subtraction(
    shop: Desk, further: int
) -> None:
    """Of 100 and of some reports more: as many as of 100, wherever the page tells of it."""
    crashes = f"crashed:{NEWEST['crashed'].fingerprint}"
    home = NEWEST["home_page"].channel_hash
    known = shop.world.store.figures.ledger_sample()
    assert known is not None
    shards = shop.world.store._layout.all_shards
    call = shop.world.store._connection.call
    for shard in shards:
        call("HDEL", shard.key("reports"), crashes)
    pages = []
    for number in (0, further):
        call("HSET", shards[0].key("reports"), crashes, 100 + number)
        sample = replace(known, payers={home: 40 + number // 6})
        call("SET", LEDGER_SAMPLE, sample.text())
        page = shop.page("/privacy")
        pages.append([page.one("table", id=name).rows for name in ("spends", "parts")])
        picture = shop.plain_app().test_client().get("/privacy/shares.svg").data
        pages[-1].append(picture)
    assert pages[0] == pages[1] and rows(page, "spends")["crashed"][0] == "100"
    assert rows(page, "spends")["home_page"][1] == "40"


def test_both_devices_are_added_and_composed(aged: Desk) -> None:
    found = aged.page("/privacy").one("table", id="composed").rows
    assert found[0][3] == "Composed: for comparison, never enforced"
    everything = accounts(aged)
    charges = {m.charge / 1e6 for text in REGISTRIES for m in fresh(text)}
    spent = sorted(account.spent for account in everything)
    for row, figure in ((found[1], spent[119]), (found[2], spent[-1])):
        remembered = max(8e6 * len(a.paid) for a in everything if a.spent == figure) / 1e6
        tight = remembered + of_unknown_reports(figure / 1e6 - remembered, charges, DELTA)
        assert number(row[1]) == pytest.approx(figure / 1e6, rel=1e-3)
        assert number(row[2]) == remembered
        epsilon, _, delta = row[3].partition(" at delta ")
        assert number(epsilon) == pytest.approx(tight, rel=1e-3) and delta == "1 in 1,000,000"


def fresh(text: str) -> list[Metric]:
    return [metric for metric in loads(text).metrics.values() if metric.memoize is None]


def test_devices_without_the_price_of_a_report_are_counted(aged: Desk) -> None:
    spent = [account.spent for account in accounts(aged)]
    found = rows(aged.page("/privacy"), "room")
    for metric in NEWEST.values():
        least, _, most = found[metric.name][-1].partition(" to ")
        short = sum(each + metric.charge > 400_000_000 for each in spent)
        assert int(least) <= short <= int(most or least)
    assert found["crashed"][-1] == "4"  # the cheapest question is counted, not estimated


def test_a_question_that_is_off_after_a_full_life_is_named(desk_of: "DeskOf") -> None:
    days = {"starts": Date("2026-01-05"), "expires": Date("2027-01-04")}
    later = {"epoch": "day", "starts": Date("2026-03-02"), "expires": Date("2026-09-18")}
    desk = desk_of(registry(theme(**days), lifetime=204), registry(crashed(**later), lifetime=204))
    page = desk.page("/privacy")
    part = page.part("Does every question fit?").text
    assert "1 of 1 questions would be off" in part and "It would not answer crashed" in part
    assert "since 2026-01-05" in part and "has spent epsilon 8 by then" in part
    assert rows(page, "room")["crashed"][:3] == ["off", "200", "196"]


def test_a_promise_about_short_times_is_told(desk_of: "DeskOf") -> None:
    head = "window = { days = 30, epsilon = 6.0 }"
    text = desk_of(registry(theme(), head=head)).page("/privacy").text
    assert "in any 30 days in a row a device spends at most epsilon 6 on answers" in text


def test_what_no_file_has_is_not_explained(desk_of: "DeskOf") -> None:
    desk = desk_of(registry(theme()))
    look(desk.world)
    page = desk.page("/privacy")
    assert "Why two figures" not in page.headings() and "in a row" not in page.text


def test_both_bounds_are_explained_where_they_differ(shop: Desk) -> None:
    assert "Why two figures" in shop.page("/privacy").headings()


def test_before_the_first_look_nothing_is_a_zero(desk_of: "DeskOf") -> None:
    page = desk_of(registry(theme())).page("/privacy")
    assert "Nobody has looked at the ledger yet. sottovoce schedule looks" in page.text
    assert not page.all("p", class_="tile") and "composition" not in page.text
    assert rows(page, "parts")["theme"][2] == NOTHING and rows(page, "room")["theme"][-1] == NOTHING
    assert not page.all("table", id="spends") and not page.all("table", id="classes")


def test_without_devices_nothing_is_a_zero_either(desk_of: "DeskOf") -> None:
    desk = desk_of(registry(theme()))
    look(desk.world)
    page = desk.page("/privacy")
    assert "No device has reported yet." in page.text and not page.all("p", class_="tile")
    assert rows(page, "parts")["theme"][2] == NOTHING and not page.all("table", id="composed")
    answer = desk.plain_app().test_client().get("/privacy/lifetime.svg")
    assert answer.status_code == 404 and "nothing to draw" in answer.text


def test_while_the_store_is_away_the_page_says_so_and_what_to_do(shop: Desk) -> None:
    page = shop.page("/privacy", source=shop.away())
    assert "The store cannot be reached" in page.text and "Look at the store's process" in page.text
    assert not page.all("table") and not page.all("form", action="/privacy/device")
    answer = shop.plain_app(source=shop.away()).test_client().get("/privacy/shares.svg")
    assert answer.status_code == 503


def test_an_old_look_is_called_old(shop: Desk) -> None:
    assert "These figures are old" not in shop.page("/privacy").text
    page = shop.page("/privacy", clock=lambda: NOW + 7200)
    assert "These figures are old. The ledger was last looked at 2 hours ago" in page.text


@pytest.mark.parametrize("chart", ["lifetime", "shares"])
def test_charts_stand_beside_tables_and_are_drawn_light_and_dark(aged: Desk, chart: str) -> None:
    page = aged.page("/privacy")
    (image,) = page.all("img", src=f"/privacy/{chart}.svg")
    assert "table below" in image.given["alt"]
    client = aged.plain_app().test_client()
    drawn = [client.get(f"/privacy/{chart}.svg?theme={theme}").text for theme in ("light", "dark")]
    assert all(each.startswith("<svg") for each in drawn) and drawn[0] != drawn[1]
    size = re.search(r'width="([\d.]+)" height="([\d.]+)"', drawn[0])
    assert size is not None and float(size[1]) == int(image.given["width"])
    assert float(size[2]) == pytest.approx(int(image.given["height"]), abs=12)
    assert "free" in drawn[0] if chart == "shares" else ">4<" in drawn[0]


# One device


def ask(client: Any, device: str, **headers: str) -> Any:
    given = {"Accept": "text/html"} | {name.replace("_", "-"): v for name, v in headers.items()}
    return client.post("/privacy/device", data={"device": device}, headers=given)


def reported(world: World) -> str:
    device = world.device()
    assert world.charged(device, world.report("theme"), world.report("home_page")) == [
        "accepted",
        "accepted",
    ]
    return str(device.id)


def test_a_device_page_says_what_the_read_api_says(shop: Desk) -> None:
    device = reported(shop.world)
    client: Any = shop.plain_app().test_client()
    told = client.get(f"/v1/devices/{device}/ledger").json
    answer = ask(client, f" {device.upper()} ")
    assert answer.status_code == 200
    assert Element.read(answer.text).figures == {
        "Spent": "epsilon 9 of 400",
        "Left": "epsilon 391",
        "Batches sent": "1",
        "Paid once, for remembered answers": "home_page",
        "By composition": f"epsilon {told['composition']['epsilon']:.4g} at delta 1 in 1,000,000: "
        "for comparison, never enforced",
    }
    assert (told["spent_epsilon"], told["left_epsilon"], told["batches"]) == (9.0, 391.0, 1)


def test_an_unknown_device_is_said_to_be_unknown_whether_enrolled_or_not(shop: Desk) -> None:
    client = shop.plain_app().test_client()
    enrolled, stranger = str(shop.world.device().id), "ab" * 16
    pages = []
    for device in (enrolled, stranger):
        answer = ask(client, device)
        assert answer.status_code == 404 and not Element.read(answer.text).figures
        pages.append(answer.text.replace(device, "ID"))
    assert pages[0] == pages[1]
    assert "The ledger has no record of this device" in pages[0]


def test_an_id_stays_out_of_addresses_logs_and_what_browsers_keep(
    shop: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    device = reported(shop.world)
    answer = ask(shop.plain_app().test_client(), device)
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert "Location" not in answer.headers and device not in caplog.text
    page = Element.read(answer.text)
    form = page.one("form", action="/privacy/device")
    assert form.given["method"] == "post" and form.given["autocomplete"] == "off"
    assert form.one("input").given["autocomplete"] == "off"
    assert all(device not in link.given["href"] for link in page.all("a"))
    client = shop.plain_app().test_client()
    assert client.get("/privacy/device", query_string={"device": device}).status_code == 400


@pytest.mark.parametrize(
    "wrong", ["", "zz", "ab" * 15, "ab" * 17, "<script>", "é" * 32, "0" * 5000], ids=range(7)
)
def test_what_is_no_id_is_told_so_beside_the_form(shop: Desk, wrong: str) -> None:
    answer = ask(shop.plain_app().test_client(), wrong)
    page = Element.read(answer.text)
    assert answer.status_code == 400 and answer.headers["Cache-Control"] == "no-store"
    typed = page.one("input", id="device").given
    assert typed["aria-invalid"] == "true" and typed["value"] == wrong[:64]
    assert "That is no device id" in page.one("p", role="alert").text


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_another_site_cannot_send_the_form(shop: Desk, site: str) -> None:
    device = reported(shop.world)
    client = shop.plain_app().test_client()
    answer = ask(client, device, Sec_Fetch_Site=site)
    assert answer.status_code == 400 and "epsilon 9" not in answer.text
    assert ask(client, device, Sec_Fetch_Site="same-origin").status_code == 200


@pytest.mark.parametrize(
    "body", ["", "device=a&device=b", "device=a&more=b", "id=" + "ab" * 16], ids=repr
)
def test_the_form_is_read_strictly(shop: Desk, body: str) -> None:
    answer = (
        shop.plain_app()
        .test_client()
        .post("/privacy/device", data=body, content_type="application/x-www-form-urlencoded")
    )
    assert answer.status_code == 400 and answer.json["type"].endswith("malformed")


def test_a_stranger_learns_nothing_of_a_device(shop: Desk) -> None:
    device = reported(shop.world)
    client = shop.plain_app(open_here=False).test_client()
    answer = ask(client, device)
    assert answer.status_code == 302 and answer.headers["Location"] == "/login?next=/privacy/device"
    assert "epsilon" not in answer.text
    for chart in ("lifetime", "shares"):
        assert client.get(f"/privacy/{chart}.svg").status_code == 302


DeskOf = Callable[..., Desk]


@pytest.fixture
def desk_of(redis_url: str, tmp_path: Any) -> Any:
    """Make a system of some files, oldest first, of which no device has heard."""
    made: list[World] = []

    def make(*texts: str) -> Desk:
        directory = tmp_path / str(len(made))
        (directory / "releases").mkdir(parents=True)
        world = make_world(redis_url, directory, texts[0])
        made.append(world)
        for text in texts[1:]:
            world.registry = world.catalogue.register(text)
        return Desk(world, directory / "releases")

    yield make
    for world in made:
        world.store.close()
