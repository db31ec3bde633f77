"""Pages of other origins: those that are named may send, and nobody else learns anything new."""

import logging
from typing import Any

import pytest
import requests
from flask import Flask
from flask.testing import FlaskClient

from client_sdk.authentication import MAC_HEADER
from client_sdk.report import DEVICES_PATH, ERASE_PATH, REPORTS_PATH
from tests.aggregator.contract import conforming

APP = "https://app.example.org"
LOCAL = "http://[::1]:8080"
PATHS = (DEVICES_PATH, REPORTS_PATH, ERASE_PATH)
STRANGERS = (
    "https://evil.example",
    "https://app.example.org.evil.example",
    "https://app.example.org:8443",
    "http://app.example.org",
    "https://APP.example.org",
    "https://appXexample.org",
    "null",
    "*",
    "",
)
HEADERS = f"authorization, content-type, {MAC_HEADER.lower()}"
ALLOW = "Access-Control-Allow-"


def app_of(world: Any, *origins: str) -> Flask:
    app = world.app_with(
        allowed_origins=origins,
    )
    return conforming(app)


@pytest.fixture
def client(world: Any) -> FlaskClient:
    return app_of(world, APP, LOCAL).test_client()


def preflight(client: FlaskClient, path: str, origin: str | None, **more: str) -> dict[str, str]:
    """Ask as a browser does; return all headers that are about origins."""
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": HEADERS,
        **({} if origin is None else {"Origin": origin}),
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    answer = client.options(path, headers=asked)
    assert answer.data == b""
    assert answer.headers["Cache-Control"] == "no-store"
    return about_origins(answer)


def about_origins(answer: Any) -> dict[str, str]:
    return {
        name: value
        for name, value in answer.headers.items()
        if name.startswith("Access-Control-") or name == "Vary"
    }


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("origin", [APP, LOCAL])
def test_a_preflight_of_a_named_origin_is_told_what_it_needs_and_no_more(
    client: FlaskClient, path: str, origin: str
) -> None:
    assert preflight(client, path, origin) == {
        ALLOW + "Origin": origin,
        ALLOW + "Methods": "POST",
        ALLOW + "Headers": HEADERS,
        "Access-Control-Expose-Headers": "Retry-After",
        "Vary": "Origin",
    }


def test_a_preflight_is_told_no_method_and_no_header_of_other_kinds(client: FlaskClient) -> None:
    asked = {"Access_Control_Request_Headers": "x-secret, content-type, cookie"}
    assert preflight(client, REPORTS_PATH, APP, **asked)[ALLOW + "Headers"] == "content-type"
    for method in ("DELETE", "GET", "PUT"):
        told = preflight(client, REPORTS_PATH, APP, Access_Control_Request_Method=method)
        assert ALLOW + "Methods" not in told and ALLOW + "Headers" not in told


@pytest.mark.parametrize("origin", STRANGERS)
@pytest.mark.parametrize("path", PATHS)
def test_strangers_are_told_nothing(client: FlaskClient, path: str, origin: str) -> None:
    assert preflight(client, path, origin) == {}
    assert about_origins(client.post(path, headers={"Origin": origin})) == {}


def test_requests_of_no_page_are_told_nothing_about_pages(client: FlaskClient) -> None:
    assert preflight(client, REPORTS_PATH, None) == {}
    assert about_origins(client.post(REPORTS_PATH)) == {}


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/version", "/openapi.yaml", "/nowhere"])
def test_other_addresses_stay_closed_to_pages(client: FlaskClient, path: str) -> None:
    assert about_origins(client.get(path, headers={"Origin": APP})) == {}
    assert about_origins(client.options(path, headers={"Origin": APP})) == {}


@pytest.mark.parametrize("path", [*PATHS, "/v1/reports/", "/v1/reports/more", "/x/v1/reports"])
def test_without_named_origins_no_page_is_told_anything(world: Any, path: str) -> None:
    plain = app_of(world).test_client()
    assert about_origins(plain.options(path, headers={"Origin": APP})) == {}


def test_a_named_page_reads_every_answer_and_its_pause(world: Any, client: FlaskClient) -> None:
    readable = {
        ALLOW + "Origin": APP,
        "Access-Control-Expose-Headers": "Retry-After",
        "Vary": "Origin",
    }
    page = {"Origin": APP, "Content-Type": "application/json"}
    shown = page | {"Authorization": f"Bearer {world.keys.write_key}"}
    enrolled = client.post(DEVICES_PATH, data=b"{}", headers=shown)
    assert (enrolled.status_code, about_origins(enrolled)) == (201, readable)
    assert enrolled.headers["Cache-Control"] == "no-store"
    for answer in (
        client.post(DEVICES_PATH, data=b"{}", headers=page),
        client.post(REPORTS_PATH, data=b"{", headers=page),
        client.post(REPORTS_PATH, data=b"x" * 70_000, headers=page),
        client.post(REPORTS_PATH, data=b"{}", headers={"Origin": APP}),
        client.get(REPORTS_PATH, headers=page),
    ):
        assert 400 <= answer.status_code < 500
        assert about_origins(answer) == readable


def test_a_named_page_reads_that_the_server_failed(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(world.store.figures, "note_enrolment", broken)
    shown = {"Origin": APP, "Authorization": f"Bearer {world.keys.write_key}"}
    answer = app_of(world, APP).test_client().post(DEVICES_PATH, headers=shown)
    assert answer.status_code == 500 and about_origins(answer)[ALLOW + "Origin"] == APP


def test_origins_are_named_by_the_environment(world: Any, serve: Any) -> None:
    server = serve(world, SOTTOVOCE_WEB_ORIGINS=f"{LOCAL}, {APP}", SOTTOVOCE_WORKERS="1")
    for origin in (LOCAL, APP, "https://evil.example"):
        asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
        answer = requests.options(server.url + REPORTS_PATH, headers=asked, timeout=30)
        told = answer.headers.get(ALLOW + "Origin")
        assert told == (origin if origin in (LOCAL, APP) else None)


def test_no_log_says_who_asked(client: FlaskClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        preflight(client, REPORTS_PATH, APP)
        preflight(client, REPORTS_PATH, APP, Access_Control_Request_Method="DELETE")
        preflight(client, REPORTS_PATH, "https://evil.example")
        client.post(REPORTS_PATH, headers={"Origin": APP})
    assert not [record for record in caplog.records if record.name.startswith("flask_cors")]
