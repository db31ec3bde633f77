"""What the server hands out to respondents: one page and its files, known by their hashes."""

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from flask.testing import FlaskClient

from aggregator.closing import close_epoch
from aggregator.connection import Connection
from aggregator.group import series_of
from aggregator.recovery.witness import Witness
from aggregator.store import Store
from aggregator.survey.endings import Endings
from aggregator.survey.modules import File, loaded_by, served_files
from client_sdk.survey import Survey, interface_of, loads_survey, page_document
from tests.aggregator.conftest import NOW, World
from tests.javascript import TSC, code_of, run
from tests.registries import Date
from tests.surveys import question, survey, toml

POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    "img-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
}
HOSTILE = """</script><script>alert("1")</script><img src=x> & 'quoted' {{ 7*7 }}"""
STATIC = Path(str(files("aggregator"))) / "survey" / "static"
WEB = Path(str(files("client_sdk"))) / "web"
DANGEROUS = r"eval|Function|innerHTML|outerHTML|insertAdjacentHTML|document\.write|Math\.random"
DANGEROUS += r"|cookie|localStorage|sessionStorage|sendBeacon|XMLHttpRequest|WebSocket|EventSource"
DAY = 86_400

Client = Callable[..., FlaskClient]


@pytest.fixture
def client(world: World) -> Client:
    """Make a client of a server with surveys."""

    def made(*surveys: Survey) -> FlaskClient:
        return world.app_with(surveys=surveys).test_client()

    return made


def asked(*questions: dict[str, Any], **keys: Any) -> Survey:
    """A survey that is open at the time of the world."""
    return loads_survey(toml(survey(*questions, **{"starts": Date("2026-11-01"), **keys})))


class Page(HTMLParser):
    """All start tags of a page with their attributes, and the text of its JSON block."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.data = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][1].get("id") == "survey" and not self.data:
            self.data = data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_the_page_has_the_strictest_headers_and_sets_no_cookie(client: Client) -> None:
    for path, status in (
        ("/s/habits", 200),
        ("/s/unknown", 404),
        ("/survey/survey.js", 200),
        ("/survey/survey.css", 200),
        ("/sottovoce/sottovoce.js", 200),
    ):
        answer = client(asked()).get(path)
        assert answer.status_code == status
        assert set(answer.headers["Content-Security-Policy"].split("; ")) == POLICY
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert "camera=()" in answer.headers["Permissions-Policy"]
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Set-Cookie" not in answer.headers


def test_the_docs_quote_the_policy(client: Client) -> None:
    page = Path(__file__).parents[2] / "docs" / "surveys.md"
    policy = client(asked()).get("/s/habits").headers["Content-Security-Policy"]
    assert f"\n{policy}\n" in page.read_text()


@pytest.mark.parametrize(
    ("query", "accepted", "language"),
    [
        ("", "", "en"),
        ("", "ar-EG, en;q=0.5", "ar"),
        ("", "de, fr;q=0.9", "en"),
        ("?language=ar", "en", "ar"),
        ("?language=de", "ar", "ar"),
        ("?language=ar-MA", "en", "ar"),
        ("", "en;q=0.2, ar;q=0.8", "ar"),
        ("", "ar;q=0, *", "en"),
        ("?language=../x", "", "en"),
    ],
)
def test_the_language_is_the_one_asked_for_or_the_browsers_or_the_first(
    client: Client, query: str, accepted: str, language: str
) -> None:
    answer = client(asked()).get(f"/s/habits{query}", headers={"Accept-Language": accepted})
    html = Page(answer.text).named("html")[0]
    assert html == {"lang": language, "dir": "rtl" if language == "ar" else "ltr"}
    assert answer.headers["Content-Language"] == language
    assert answer.headers["Vary"] == "Accept-Language"


def test_any_portuguese_is_better_than_another_language(client: Client) -> None:
    words = interface_of("en")
    brought = {"name": "Português", "direction": "ltr", "texts": dict(words.texts)}
    made = toml(survey(starts=Date("2026-11-01"))).replace('"ar"', '"pt-BR"')
    made = made.replace("ar = ", "pt-BR = ")
    made = loads_survey(made + toml({"interface": {"pt-BR": brought}}))
    for accepted in ("pt", "pt-BR", "pt-PT, en;q=0.1"):
        answer = client(made).get("/s/habits", headers={"Accept-Language": accepted})
        assert answer.headers["Content-Language"] == "pt-BR", accepted


def test_languages_are_linked_in_their_own_words(client: Client) -> None:
    links = Page(client(asked()).get("/s/habits").text).named("a")
    assert [(link["href"], link["lang"], link["dir"]) for link in links] == [
        ("?language=en", "en", "ltr"),
        ("?language=ar", "ar", "rtl"),
    ]


def test_the_json_block_is_the_page_document_and_the_write_key(
    client: Client, world: World
) -> None:
    open_survey = asked(question(), question("ways", "a", "b", "c"))
    page = Page(client(open_survey).get("/s/habits?language=ar").text)
    expected = page_document(open_survey, "ar") | {"write_key": world.keys.write_key}
    assert json.loads(page.data) == json.loads(json.dumps(expected))


def test_a_page_by_invitation_carries_no_write_key(client: Client, world: World) -> None:
    invited = asked(admission="invitation")
    answer = client(invited).get("/s/habits")
    assert world.keys.write_key not in answer.text
    assert json.loads(Page(answer.text).data) == page_document(invited, "en")


def test_texts_of_a_survey_are_texts(client: Client) -> None:
    hostile = {"en": HOSTILE, "ar": HOSTILE}
    made = asked(question(text=hostile), title=hostile, purpose=hostile, contact=HOSTILE)
    answer = client(made).get("/s/habits")
    page = Page(answer.text)
    assert len(page.named("script")) == 2
    assert not page.named("img")
    assert json.loads(page.data)["title"] == HOSTILE
    assert HOSTILE in unescape(answer.text)


@pytest.mark.parametrize("admission", ["open", "invitation"])
def test_the_served_html_has_nothing_to_fill_in_and_no_script_of_its_own(
    client: Client, admission: str
) -> None:
    text = client(asked(admission=admission)).get("/s/habits").text
    page = Page(text)
    for tag in ("form", "input", "button", "select", "textarea", "style", "iframe", "base"):
        assert not page.named(tag), tag
    assert [attributes.get("type") for attributes in page.named("script")] == [
        "module",
        "application/json",
    ]
    for _, attributes in page.tags:
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
    assert "needs JavaScript" in text.partition("<noscript>")[2].partition("</noscript>")[0]


def test_what_the_page_loads_is_known_by_its_hash_and_complete(client: Client) -> None:
    visitor = client(asked())
    page = Page(visitor.get("/s/habits").text)
    links = {
        attributes["href"]: attributes.get("integrity")
        for attributes in page.named("link")
        if attributes["rel"] != "icon"
    }
    links |= {it["src"]: it["integrity"] for it in page.named("script") if "src" in it}
    for address, integrity in links.items():
        answer = visitor.get(address or "")
        digest = base64.b64encode(hashlib.sha384(answer.data).digest()).decode()
        assert integrity == f"sha384-{digest}", address
        kind = (address or "").rpartition(".")[2]
        assert answer.content_type.startswith({"js": "text/javascript", "css": "text/css"}[kind])
    for address in links:
        for found in re.findall(r'from "([^"]+)";', visitor.get(address or "").text):
            assert urljoin(address or "", found) in links, (address, found)


def test_only_files_of_the_page_are_served(client: Client) -> None:
    for path in (
        "/survey/../modules.py",
        "/survey/modules.py",
        "/survey/types.d.ts",
        "/sottovoce/package.json",
        "/sottovoce/..%2f__init__.py",
        "/survey/",
        "/s/",
        "/s/habits/survey.js",
    ):
        assert client(asked()).get(path).status_code == 404, path


def test_a_module_that_is_missing_is_noticed_at_the_start() -> None:
    served = dict(served_files())
    served["survey/survey.js"] = File("survey", "survey.js", b'import { a } from "./none.js";\n')
    with pytest.raises(KeyError, match=r"survey/none\.js"):
        loaded_by(("survey/survey.js",), served)


def test_a_survey_opens_and_closes_with_its_days(client: Client, world: World) -> None:
    made = asked(starts=Date("2026-12-01"), expires=Date("2026-12-02"))
    visitor = client(made)
    words = made.interface["ar"].texts
    expected = [
        (NOW, 200, "not_open_title"),
        (NOW + DAY, 200, None),
        (NOW + 2 * DAY, 200, None),
        (NOW + 3 * DAY, 410, "closed_title"),
    ]
    for now, status, title in expected:
        world.now = now
        answer = visitor.get("/s/habits?language=ar")
        assert answer.status_code == status
        page = Page(answer.text)
        assert bool(page.data) == (title is None)
        if title:
            assert words[title] in answer.text
            assert "2026-12-0" in answer.text
            assert not page.named("script")


def test_a_survey_that_was_ended_early_is_over_within_ten_seconds(world: World) -> None:
    made = asked(question("late"), question("ill"))
    world.catalogue.register(made.registry_text)
    now = 0.0
    endings = Endings(world.store, lambda: now)
    metrics = [each.metric for each in made.questions]
    assert not endings.closed(made)
    close_epoch(world.store, metrics[0], 0)
    now = 10.0
    assert not endings.closed(made)  # the other question still takes answers
    world.store.tallies.close_intake(0, series_of(metrics[1]), 0)
    now = 20.0
    assert len(world.store.shards) > 1 and not endings.closed(made)  # other shards take them
    close_epoch(world.store, metrics[1], 0)
    now = 29.9
    assert not endings.closed(made)
    now = 30.0
    assert endings.closed(made)
    assert not endings.closed(asked(name="other"))


def test_while_the_store_is_away_what_was_last_known_counts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = asked()
    world.catalogue.register(made.registry_text)
    layout, witness = world.store._layout, Witness.beside(world.settings.keys_file)
    away = Store(Connection("redis://127.0.0.1:1", 1.0), layout, witness)
    assert not Endings(away).closed(made)
    close_epoch(world.store, made.questions[0].metric, 0)
    now = 0.0
    endings = Endings(world.store, lambda: now)
    assert endings.closed(made)
    monkeypatch.setattr(endings, "_tallies", away.tallies)
    now = 10.0
    assert endings.closed(made)


def test_the_page_of_a_survey_that_was_ended_early_says_so(client: Client, world: World) -> None:
    made = asked()
    world.catalogue.register(made.registry_text)
    assert client(made).get("/s/habits").status_code == 200
    close_epoch(world.store, made.questions[0].metric, 0)
    answer = client(made).get("/s/habits?language=ar")
    words = made.interface["ar"].texts
    assert answer.status_code == 410
    assert words["closed_title"] in answer.text and words["closed_early"] in answer.text
    assert f"{made.expires}" not in answer.text and not Page(answer.text).named("script")


def test_an_unknown_survey_is_told_in_the_browsers_language(client: Client) -> None:
    answer = client(asked()).get("/s/unknown", headers={"Accept-Language": "de"})
    assert answer.status_code == 404
    assert Page(answer.text).named("html")[0]["lang"] == "de"
    assert "Hier ist keine Umfrage" in answer.text


def test_without_surveys_there_are_no_pages(client: Client) -> None:
    assert client().get("/s/habits").status_code == 404
    assert client().get("/survey/survey.js").status_code == 404


@pytest.mark.parametrize("path", sorted(STATIC.glob("*.js")), ids=lambda path: path.name)
def test_the_pages_modules_neither_evaluate_nor_keep_nor_send_by_other_doors(path: Path) -> None:
    code = code_of(path)
    assert not re.findall(rf"\b(?:{DANGEROUS})", code)
    sends = re.findall(r"\bfetch\b", code)
    assert not sends or path.name == "delivery.js"
    assert len(path.read_text().splitlines()) <= 130


@pytest.mark.slow
def test_the_types_of_the_pages_modules_are_right(tmp_path: Path) -> None:
    if shutil.which("tsc") is None:
        pytest.fail("tsc is not here: install Debian's node-typescript", False)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    shutil.copytree(STATIC, tmp_path / "survey")
    (tmp_path / "sottovoce").mkdir()
    for path in (*WEB.glob("*.js"), WEB / "types.d.ts"):
        shutil.copy(path, tmp_path / "sottovoce")
    run(
        [*TSC.replace("es2022,dom", "es2022,dom,dom.iterable").split(), "survey/survey.js"],
        tmp_path,
    )
