"""Logging in: a read key opens a session, and nothing else does."""

import re
from datetime import date
from io import BytesIO
from typing import Any
from urllib.parse import quote

import pytest

from aggregator.keyring.kinds import KINDS
from aggregator.keyring.rotation import retire
from estimator.dashboard.access import SESSION_HOURS
from estimator.dashboard.pages.forms import MOST_BYTES
from tests.estimator.dashboard.conftest import Desk

PAGES = ("/", "/privacy", "/privacy/device", "/operations", "/registry")


def visitor(desk: Desk) -> Any:
    """Somebody elsewhere, with a browser."""
    return desk.plain_app(open_here=False).test_client()


def shows(client: Any, key: str, **more: str) -> Any:
    return client.post("/login", data={"key": key, **more})


def test_whoever_is_elsewhere_is_sent_to_log_in_and_back(shop: Desk) -> None:
    _, key = shop.read_key()
    for path in PAGES:
        client = visitor(shop)
        sent = client.get(path)
        assert sent.status_code == 302
        target = sent.headers["Location"]
        assert target == ("/login" if path == "/" else f"/login?next={quote(path)}")
        assert f'name="next" value="{path}"' in client.get(target).text
        back = shows(client, key, next=path)
        assert (back.status_code, back.headers["Location"]) == (303, path)
        assert client.get(path).status_code == 200


def test_a_wrong_key_opens_nothing_and_the_form_says_so(shop: Desk) -> None:
    _, key = shop.read_key()
    client = visitor(shop)
    for wrong in ("", key + "x", key[:-1], shop.world.keys.write_key, "\0", "é" * 5000):
        answer = shows(client, wrong)
        assert answer.status_code == 401 and 'role="alert"' in answer.text
        assert wrong == "" or wrong not in answer.text
        assert client.get("/").status_code == 302
    assert client.post("/login").status_code == 401


def test_a_session_is_of_its_key_and_ends_with_it(shop: Desk) -> None:
    number, key = shop.read_key("ann@example.org")
    client = visitor(shop)
    shows(client, f"  {key}\n")
    assert "ann@example.org" in client.get("/").text
    retire(shop.world.settings.keys_file, KINDS["read"], number, date(2026, 11, 30))
    assert client.get("/").status_code == 302
    assert client.get("/v1/metrics").status_code == 401


def test_a_session_reads_the_api_too_for_downloads(shop: Desk) -> None:
    _, key = shop.read_key()
    client = visitor(shop)
    assert client.get("/v1/releases").status_code == 401
    shows(client, key)
    assert client.get("/v1/releases").status_code == 200


def test_logging_out_ends_it(shop: Desk) -> None:
    _, key = shop.read_key()
    client = visitor(shop)
    shows(client, key)
    assert client.post("/logout").headers["Location"] == "/login"
    assert client.get("/").status_code == 302
    assert client.get("/logout").status_code == 405


def test_the_cookie_is_the_browsers_alone_and_ends_by_itself(shop: Desk) -> None:
    _, key = shop.read_key()
    client = visitor(shop)
    cookie = shows(client, key).headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Path=/" in cookie
    assert key not in cookie and "Secure" not in cookie
    assert SESSION_HOURS == 12
    behind_tls = client.post("/login", data={"key": key}, headers={"X-Forwarded-Proto": "https"})
    assert "Secure" in behind_tls.headers["Set-Cookie"]


@pytest.mark.parametrize("change", ["flip", "cut", "foreign"])
def test_a_cookie_that_was_not_given_here_opens_nothing(shop: Desk, change: str) -> None:
    _, key = shop.read_key()
    client = visitor(shop)
    shows(client, key)
    cookie = client.get_cookie("sottovoce_session")
    value = {
        "flip": cookie.value[:5] + ("A" if cookie.value[5] != "A" else "B") + cookie.value[6:],
        "cut": cookie.value.rpartition(".")[0],
        "foreign": "eyJyZWFkZXIiOjF9.aSwAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAA",
    }[change]
    client.set_cookie("sottovoce_session", value)
    assert client.get("/").status_code == 302


def test_a_session_does_not_outlive_its_hours(shop: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from itsdangerous import TimestampSigner

    _, key = shop.read_key()
    client = visitor(shop)
    shows(client, key)
    now = TimestampSigner("").get_timestamp()
    for hours, status in ((SESSION_HOURS - 0.1, 200), (SESSION_HOURS + 0.1, 302)):
        later = now + round(hours * 3600)
        monkeypatch.setattr(TimestampSigner, "get_timestamp", lambda self, at=later: at)
        # The cookie's own age: the test client would drop it by Max-Age.
        assert client.get("/").status_code == status


@pytest.mark.parametrize(
    "target",
    [
        "//evil.example",
        "/\\evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "\n/",
        "x",
    ],
)
def test_nobody_is_sent_elsewhere_after_logging_in(shop: Desk, target: str) -> None:
    _, key = shop.read_key()
    assert shows(visitor(shop), key, next=target).headers["Location"] == "/"


def test_forms_of_other_sites_are_refused(shop: Desk) -> None:
    _, key = shop.read_key()
    for path in ("/login", "/logout"):
        for site in ("cross-site", "same-site"):
            client = visitor(shop)
            shows(client, key)
            answer = client.post(path, data={"key": key}, headers={"Sec-Fetch-Site": site})
            assert answer.status_code == 400 and client.get("/").status_code == 200


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({"Origin": "http://evil.example"}, False),
        ({"Origin": "http://dash.example:81"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://[/"}, False),
        ({"Origin": "https://DASH.example"}, True),
        ({"Origin": "https://shown.example", "X-Forwarded-Host": "shown.example"}, True),
        ({"Origin": "https://shown.example", "Sec-Fetch-Site": "same-origin"}, True),
        ({"Origin": "https://dash.example", "Sec-Fetch-Site": "cross-site"}, False),
        ({}, True),
    ],
)
def test_over_plain_http_the_origin_says_whose_form_it_is(
    shop: Desk, headers: dict[str, str], own: bool
) -> None:
    _, key = shop.read_key()
    host = "http://dash.example"
    client = visitor(shop)
    answer = client.post("/login", data={"key": key}, headers=headers, base_url=host)
    assert answer.status_code == (303 if own else 400)
    client.post("/login", data={"key": key}, base_url=host)
    client.post("/logout", headers=headers, base_url=host)
    assert client.get("/", base_url=host).status_code == (302 if own else 200)


@pytest.mark.parametrize("path", ["/login", "/privacy/device"])
def test_what_no_form_has_is_refused_before_it_is_read(shop: Desk, path: str) -> None:
    client = shop.plain_app().test_client()
    for sent in (
        {"data": {"key": "x" * MOST_BYTES}},
        {"data": {"key": (BytesIO(b"x" * MOST_BYTES), "key")}},
        {
            "input_stream": BytesIO(b"key=x"),
            "headers": {"Transfer-Encoding": "chunked"},
            "content_type": "application/x-www-form-urlencoded",
        },
    ):
        answer = client.post(path, **sent, environ_overrides={"wsgi.input_terminated": True})
        assert answer.status_code == 400 and "must be" in answer.get_json()["detail"]
        assert answer.request.input_stream.tell() == 0


def test_nothing_but_what_is_listed_here_is_shown_to_strangers(shop: Desk) -> None:
    """Whatever is added asks for a key, unless somebody adds it here."""
    app = shop.plain_app(open_here=False)
    free = {"pages.static", "live", "ready", "show_contract"} | {
        f"pages.sessions.{name}" for name in ("log_in", "take_key", "log_out")
    }
    asking = {rule.endpoint for rule in app.url_map.iter_rules()} - free
    assert len(asking) >= 10
    for rule in app.url_map.iter_rules():
        if rule.endpoint not in asking:
            continue
        path = rule.rule
        for name in rule.arguments:
            path = re.sub(rf"<[^>]*\b{name}>", "shares", path)
        for method in rule.methods or ():
            answer = app.test_client().open(path, method=method)
            assert answer.status_code == (401 if rule.endpoint.startswith("v1.") else 302), path


def test_on_this_machine_nobody_is_asked_and_a_proxy_is_somebody_else(shop: Desk) -> None:
    client = shop.plain_app().test_client()
    assert client.get("/").status_code == 200
    assert client.get("/login").headers["Location"] == "/"
    for headers in (
        {"X-Forwarded-For": "203.0.113.9"},
        {"X-Forwarded-Proto": "https"},
        {"X-Forwarded-Host": "localhost"},
        {"Host": "evil.example"},
    ):
        assert client.get("/", headers=headers).status_code == 302
    with client.get("/static/dashboard.css", headers={"Host": "evil.example"}) as look:
        assert look.status_code == 200  # the login page wears it


def test_the_login_page_shows_nothing_of_the_project(shop: Desk) -> None:
    text = visitor(shop).get("/login").text
    assert "shop-app" not in text and "theme" not in text and "<nav" not in text
