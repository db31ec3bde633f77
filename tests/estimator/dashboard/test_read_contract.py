"""estimator/dashboard/openapi.yaml is valid, complete, and kept by every answer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator

from client_sdk.registry import _NAME
from client_sdk.report import PROBLEM_TYPE
from estimator.dashboard.api.addresses import FORMATS
from estimator.dashboard.api.queries import _CURSOR, _PER_PAGE, _STATUSES, MOST_PER_PAGE, Selection
from estimator.dashboard.one_device import DEVICE
from estimator.dashboard.problems import KINDS
from estimator.dashboard.shelf import EPOCH, FINGERPRINT, METRIC
from tests.estimator.dashboard.conftest import CONTRACT, Desk

DOCUMENT = CONTRACT.document
SCHEMAS = DOCUMENT["components"]["schemas"]


def test_the_contract_is_valid_openapi_3_1() -> None:
    assert list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors()) == []
    assert DOCUMENT["openapi"].startswith("3.1.")


@pytest.mark.parametrize(
    ("schema", "value"), [pytest.param(*shown, id=where) for *shown, where in CONTRACT.examples()]
)
def test_every_example_is_valid(schema: dict[str, Any], value: object) -> None:
    CONTRACT.validate(schema, value)


def test_every_answer_in_json_has_an_example() -> None:
    for where, status, response in CONTRACT.responses():
        for name, media in response.get("content", {}).items():
            assert "json" not in name or media["examples"], (where, status)


def test_every_problem_kind_is_in_the_contract_with_its_title_and_no_other() -> None:
    promised = {(kind, status) for _, status, kind in CONTRACT.promised() if kind}
    assert promised == {(kind, int(status)) for kind, (status, _) in KINDS.items()}
    for _, value, _ in CONTRACT.examples():
        assert isinstance(value, dict)
        kind = str(value.get("type", ""))
        if kind.startswith(PROBLEM_TYPE):
            assert value["title"] == KINDS[kind.removeprefix(PROBLEM_TYPE)][1]


def test_every_route_for_programs_is_in_the_contract_and_no_other(desk: Desk) -> None:
    routes = {
        (method, rule.rule.replace("<", "{").replace(">", "}"))
        for rule in desk.app().url_map.iter_rules()
        if not rule.endpoint.startswith("pages.")
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert routes == {(method, path) for method, path, _ in CONTRACT.operations()}


def test_figures_in_the_contract_are_those_of_the_code() -> None:
    assert METRIC == _NAME.pattern
    assert SCHEMAS["MetricName"]["pattern"] == f"^{METRIC}$"
    assert SCHEMAS["Epoch"]["pattern"] == f"^{EPOCH}$"
    assert SCHEMAS["Fingerprint"]["pattern"] == f"^{FINGERPRINT}$"
    assert tuple(SCHEMAS["Status"]["enum"]) == _STATUSES
    listing = {each["name"]: each["schema"] for each in _parameters("/v1/releases")}
    assert tuple(listing) == Selection.NAMES
    assert (listing["limit"]["maximum"], listing["limit"]["default"]) == (MOST_PER_PAGE, _PER_PAGE)
    assert listing["cursor"]["pattern"] == f"^{_CURSOR.pattern}$"
    release = {
        each["name"]: each["schema"] for each in _parameters("/v1/releases/{metric}/{epoch}")
    }
    assert release["format"]["enum"] == list(FORMATS)
    (device,) = _parameters("/v1/devices/{device}/ledger")
    assert device["schema"]["pattern"] == f"^{DEVICE}$"


def _parameters(path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DOCUMENT["paths"][path]["get"]["parameters"]
    return found


def test_the_server_shows_the_contract(desk: Desk) -> None:
    answer = desk.get("/openapi.yaml")
    assert answer.content_type == "application/yaml"
    assert yaml.safe_load(answer.data) == DOCUMENT


NOBODY = f"/v1/devices/{'0' * 32}/ledger"
LIST, RELEASE = "GET /v1/releases", "GET /v1/releases/{metric}/{epoch}"
METRICS, LEDGER = "GET /v1/metrics", "GET /v1/devices/{device}/ledger"


def got(path: str) -> Callable[[Desk], Any]:
    return lambda desk: desk.get(path)


def again(path: str) -> Callable[[Desk], Any]:
    return lambda desk: desk.get(path, If_None_Match=desk.get(path).headers["ETag"])


def stranger(path: str) -> Callable[[Desk], Any]:
    return lambda desk: desk.app(open_here=False).test_client().get(path)


def of_a_device(desk: Desk) -> Any:
    device = desk.world.device()
    desk.world.charged(device, desk.world.report("theme"))
    return desk.get(f"/v1/devices/{device.id}/ledger")


def without_the_store(path: str) -> Callable[[Desk], Any]:
    return lambda desk: desk.app(source=desk.away()).test_client().get(path)


PROVOKED: dict[tuple[str, int, str | None], Callable[[Desk], Any]] = {
    (LIST, 200, None): got("/v1/releases"),
    (LIST, 304, None): again("/v1/releases"),
    (LIST, 400, "malformed"): got("/v1/releases?limit=0"),
    (LIST, 401, "bad_read_key"): stranger("/v1/releases"),
    (RELEASE, 200, None): got("/v1/releases/theme/2026-W49"),
    (RELEASE, 304, None): again("/v1/releases/theme/2026-W49"),
    (RELEASE, 400, "malformed"): got("/v1/releases/theme/2026-W49?format=xml"),
    (RELEASE, 401, "bad_read_key"): stranger("/v1/releases/theme/2026-W49"),
    (RELEASE, 404, "not_found"): got("/v1/releases/theme/2026-W01"),
    (RELEASE, 409, "several_versions"): got("/v1/releases/theme/2026-W51"),
    (METRICS, 200, None): got("/v1/metrics"),
    (METRICS, 304, None): again("/v1/metrics"),
    (METRICS, 400, "malformed"): got("/v1/metrics?limit=1"),
    (METRICS, 401, "bad_read_key"): stranger("/v1/metrics"),
    (METRICS, 503, "unavailable"): without_the_store("/v1/metrics"),
    (LEDGER, 200, None): of_a_device,
    (LEDGER, 400, "malformed"): got(f"{NOBODY}?format=csv"),
    (LEDGER, 401, "bad_read_key"): stranger(NOBODY),
    (LEDGER, 404, "not_found"): got(NOBODY),
    (LEDGER, 503, "unavailable"): without_the_store(NOBODY),
    ("GET /livez", 200, None): got("/livez"),
    ("GET /readyz", 200, None): got("/readyz"),
    ("GET /readyz", 503, "unavailable"): without_the_store("/readyz"),
    ("GET /openapi.yaml", 200, None): got("/openapi.yaml"),
    ("GET /openapi.yaml", 304, None): again("/openapi.yaml"),
    ("any", 404, "not_found"): got("/nowhere"),
    ("any", 405, "method_not_allowed"): lambda desk: desk.app().test_client().post("/v1/releases"),
}


def test_every_answer_of_the_contract_but_a_bug_is_provoked_here() -> None:
    promised = {answer for answer in CONTRACT.promised() if answer[2] != "internal"}
    assert promised == set(PROVOKED)


@pytest.mark.parametrize("answer", list(PROVOKED), ids=str)
def test_every_answer_of_the_contract_can_be_had(
    full: Desk, answer: tuple[str, int, str | None]
) -> None:
    _, status, kind = answer
    given = PROVOKED[answer](full)  # the client checks it against the contract
    assert given.status_code == status
    assert kind is None or given.json["type"] == PROBLEM_TYPE + kind


def test_a_bug_is_a_problem_document_too(desk: Desk) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    app = desk.app()
    app.view_functions["live"] = fail
    answer = app.test_client().get("/livez")
    assert answer.status_code == 500 and answer.json["type"] == PROBLEM_TYPE + "internal"


@pytest.mark.parametrize(
    "path", ["/v1/releases", "/v1/releases/theme/2026-W49", "/v1/metrics", NOBODY, "/livez"]
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "TRACE"])
def test_every_method_is_answered_as_the_contract_says(full: Desk, path: str, method: str) -> None:
    client = full.app().test_client()
    answer = client.open(path, method=method)
    if method == "OPTIONS" or answer.status_code == 405:
        assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS"}
    if method == "HEAD":
        whole = client.get(path)
        assert answer.data == b"" and answer.headers == whole.headers
        assert answer.status_code == whole.status_code
    elif method not in ("GET", "OPTIONS"):
        assert answer.status_code == 405


def test_the_contract_travels_with_the_package() -> None:
    import estimator.dashboard

    (folder,) = estimator.dashboard.__path__
    assert Path(folder, "openapi.yaml").exists()
