"""The contract: aggregator/openapi.yaml is valid, complete, and kept by every answer."""

import json
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from openapi_spec_validator import OpenAPIV31SpecValidator

from aggregator import intake
from aggregator.batch import Verdict
from aggregator.connection import Connection
from aggregator.enrolment.limits import EnrolmentLimits
from aggregator.keyring.kinds import MasterKey, OpeningKey
from aggregator.keyring.rotation import retire, rotate
from aggregator.problems import _KINDS
from aggregator.recovery.witness import Witness
from aggregator.store import Store
from client_sdk.authentication import MAC_HEADER, erase_mac
from client_sdk.mechanisms.base import MOST_CELLS, MOST_COHORTS
from client_sdk.report import (
    ACCEPTED,
    DEVICES_PATH,
    ERASE_PATH,
    FORMAT_VERSION,
    MAX_BATCH_BYTES,
    MAX_BATCH_REPORTS,
    PROBLEM_TYPE,
    REFUSAL_REASONS,
    REPORTS_PATH,
    SEALED_TYPE,
    encode_erasure,
)
from tests.aggregator import contract
from tests.aggregator.contract import CONTRACT, DOCUMENT
from tests.aggregator.respondents import Hall

COMPONENTS = DOCUMENT["components"]
SCHEMAS = COMPONENTS["schemas"]
operations, responses, kinds_of = CONTRACT.operations, CONTRACT.responses, CONTRACT.kinds_of


def test_the_contract_is_valid_openapi_3_1() -> None:
    errors = list(OpenAPIV31SpecValidator(DOCUMENT).iter_errors())
    assert errors == []
    assert DOCUMENT["openapi"].startswith("3.1.")


@pytest.mark.parametrize(
    ("schema", "value"), [pytest.param(*shown, id=where) for *shown, where in CONTRACT.examples()]
)
def test_every_example_is_valid(schema: dict[str, Any], value: object) -> None:
    CONTRACT.validate(schema, value)


def test_every_answer_in_json_has_an_example() -> None:
    for where, status, response in responses():
        for name, media in response["content"].items():
            assert "json" not in name or media["examples"], (where, status)


def test_every_problem_kind_is_in_the_contract_and_no_other() -> None:
    promised = {(kind, status) for _, status, found in responses() for kind in kinds_of(found)}
    assert promised == {(kind, int(status)) for kind, (status, _) in _KINDS.items()}


def test_titles_in_examples_are_the_servers() -> None:
    for _, _, response in responses():
        for media in response["content"].values():
            for shown in media.get("examples", {}).values():
                kind = str(shown["value"].get("type", "")).removeprefix(PROBLEM_TYPE)
                assert not kind or shown["value"]["title"] == _KINDS[kind][1]


def test_every_route_is_in_the_contract_and_no_other(world: Any) -> None:
    routes = {
        (method, rule.rule.replace("<", "{").replace(">", "}"))
        for rule in world.app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert routes == {(method, path) for method, path, _ in operations()}


def test_figures_in_the_contract_are_those_of_the_code() -> None:
    batch, report = SCHEMAS["Batch"]["properties"], SCHEMAS["Report"]["properties"]
    assert batch["version"] == {"const": FORMAT_VERSION}
    assert batch["reports"]["maxItems"] == MAX_BATCH_REPORTS
    assert batch["sequence"]["maximum"] == intake.MOST_SEQUENCE
    assert report["epoch"]["maximum"] == intake.MOST_EPOCH
    assert report["metric"]["pattern"] == f"^{intake._NAME.pattern}$"
    assert report["cohort"]["maximum"] == MOST_COHORTS - 1
    number, text = report["response"]["oneOf"]
    assert number["maximum"] == MOST_CELLS - 1
    assert text["pattern"] == f"^{intake._HEX_RESPONSE.pattern}$"
    answer = SCHEMAS["Answer"]["properties"]
    assert answer["reports"]["items"]["enum"] == [ACCEPTED, *REFUSAL_REASONS]
    names = ("CloneSuspected", "IdentityRevoked", "Erased")
    refused = (SCHEMAS[name]["properties"]["verdict"] for name in names)
    told = {*answer["verdict"]["enum"], *(verdict["const"] for verdict in refused)}
    assert told == set(get_args(Verdict))
    uploads = DOCUMENT["paths"][REPORTS_PATH]["post"]["requestBody"]
    assert set(uploads["content"]) == {"application/json", SEALED_TYPE}
    assert str(MAX_BATCH_BYTES) in uploads["description"]
    assert COMPONENTS["securitySchemes"]["deviceMac"]["name"] == MAC_HEADER


def test_the_server_shows_the_contract(world: Any) -> None:
    answer = world.app.test_client().get("/openapi.yaml")
    assert answer.content_type == "application/yaml"
    assert yaml.safe_load(answer.data) == DOCUMENT


def post(world: Any, path: str, body: bytes = b"", **headers: str) -> Any:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return world.app.test_client().post(path, data=body, headers=given)


def away(world: Any) -> Any:
    """The client of an app whose store cannot be reached."""
    witness = Witness.beside(world.settings.keys_file)
    world.store.close()
    world.store = Store(Connection("redis://127.0.0.1:1", 1.0), world.store._layout, witness)
    world.__post_init__()
    return world.app.test_client()


def cloned(world: Any) -> Any:
    device = world.device()
    world.send(device, device.batch(world.report("theme"), sequence=1))
    return world.send(device, device.batch(world.report("crashed"), sequence=1))


def erasing(world: Any, device: Any = None, **headers: str) -> Any:
    device = device or world.device()
    body = encode_erasure(device.id, "0" * 32)
    given = {"Sottovoce_MAC": erase_mac(device.key, body), "Content_Type": JSON} | headers
    return post(world, ERASE_PATH, body, **given)


def erased(world: Any) -> Any:
    device = world.device()
    erasing(world, device)
    return world.send(device, device.batch(world.report("theme")))


def sealed_to_a_stranger(world: Any, path: str) -> Any:
    return post(world, path, b"\1\0\7" + bytes(100), Content_Type=SEALED_TYPE)


def plain_where_sealing_is_required(world: Any, path: str) -> Any:
    rotate(world.settings.keys_file, OpeningKey, date(2026, 11, 30))
    world.app = contract.conforming(world.app_with(plain_uploads=False))
    return post(world, path, b"{}", Content_Type="application/json")


def revoked(world: Any) -> Any:
    device, path = world.device(), world.settings.keys_file
    rotate(path, MasterKey, date(2026, 11, 30))
    world.keys = retire(path, MasterKey, 1, date(2026, 11, 30)).keys
    world.__post_init__()
    return world.send(device, device.batch(world.report("theme")))


def too_many(world: Any) -> Any:
    world.app = contract.conforming(
        world.app_with(
            limits=EnrolmentLimits(project=1),
        )
    )
    world.enrol()
    return world.enrol()


def while_away(world: Any, path: str) -> Any:
    device = world.device()
    client = away(world)
    if path == "/readyz":
        return client.get(path)
    if path == DEVICES_PATH:
        return world.enrol()
    if path == ERASE_PATH:
        return erasing(world, device)
    return world.send(device, device.batch(world.report("theme")))


def posted(path: str, body: bytes = b"", **headers: str) -> Callable[[Any], Any]:
    return lambda world: post(world, path, body, **headers)


def got(path: str) -> Callable[[Any], Any]:
    return lambda world: world.app.test_client().get(path)


def enrolling(body: bytes) -> Callable[[Any], Any]:
    return lambda world: world.enrol(body)


def uploading(spoil: Callable[[bytes], bytes] = bytes, **headers: str) -> Callable[[Any], Any]:
    def send(world: Any) -> Any:
        device = world.device()
        return world.send(device, spoil(device.batch(world.report("theme"))), **headers)

    return send


def not_invited(path: str, **headers: str) -> Callable[[Any], Any]:
    return lambda world: (Hall(world), post(world, path, **headers))[1]


def asking(token: str | None = None, times: int = 1) -> Callable[[Any], Any]:
    def ask(world: Any) -> Any:
        hall = Hall(world)
        return [hall.ask(token or hall.tokens[0], hall.drawn().blinded) for _ in range(times)][-1]

    return ask


def asking_too_often(world: Any) -> Any:
    hall = Hall(world)
    world.app = contract.conforming(
        world.app_with(
            limits=EnrolmentLimits(project=1),
        )
    )
    return [hall.ask(token, hall.drawn().blinded) for token in hall.tokens][-1]


def asking_while_away(world: Any) -> Any:
    hall = Hall(world)
    away(world)
    return hall.ask(hall.tokens[0], hall.drawn().blinded)


def key_of_survey(world: Any) -> Any:
    Hall(world)
    return world.app.test_client().get("/v1/surveys/habits/key")


JSON = "application/json"
LONG = b" " * (MAX_BATCH_BYTES + 1)
HABITS = "/v1/surveys/habits/admissions"
ADMISSIONS = "POST /v1/surveys/{survey}/admissions"
KEY = "GET /v1/surveys/{survey}/key"
DEVICES, REPORTS, ERASE = (f"POST {path}" for path in (DEVICES_PATH, REPORTS_PATH, ERASE_PATH))
PROVOKED: dict[tuple[str, int, str | None], Callable[[Any], Any]] = {
    (DEVICES, 201, None): enrolling(b"{}"),
    (DEVICES, 400, "malformed"): enrolling(b"[]"),
    (DEVICES, 401, "bad_write_key"): posted(DEVICES_PATH),
    (DEVICES, 403, "bad_admission"): posted(DEVICES_PATH, Authorization="Admission x"),
    (DEVICES, 411, "length_required"): posted(DEVICES_PATH, Transfer_Encoding="chunked"),
    (DEVICES, 413, "too_large"): enrolling(LONG),
    (DEVICES, 415, "unsupported_media"): posted(DEVICES_PATH, b"{}", Content_Type="text/plain"),
    (DEVICES, 429, "rate_limited"): too_many,
    (DEVICES, 503, "unavailable"): lambda world: while_away(world, DEVICES_PATH),
    (REPORTS, 200, None): uploading(),
    (REPORTS, 400, "malformed"): uploading(lambda body: body[:-1]),
    (REPORTS, 400, "unknown_sealing_key"): lambda w: sealed_to_a_stranger(w, REPORTS_PATH),
    (REPORTS, 401, "bad_mac"): uploading(Sottovoce_MAC="0" * 64),
    (REPORTS, 401, "identity_revoked"): revoked,
    (REPORTS, 409, "clone_suspected"): cloned,
    (REPORTS, 410, "erased"): erased,
    (REPORTS, 411, "length_required"): posted(REPORTS_PATH, Transfer_Encoding="chunked"),
    (REPORTS, 413, "too_large"): posted(REPORTS_PATH, LONG, Content_Type=JSON),
    (REPORTS, 415, "unsupported_media"): uploading(Content_Encoding="gzip"),
    (REPORTS, 415, "sealing_required"): lambda w: plain_where_sealing_is_required(w, REPORTS_PATH),
    (REPORTS, 503, "unavailable"): lambda world: while_away(world, REPORTS_PATH),
    (ERASE, 200, None): erasing,
    (ERASE, 400, "malformed"): posted(ERASE_PATH, b"{}", Content_Type=JSON),
    (ERASE, 400, "unknown_sealing_key"): lambda w: sealed_to_a_stranger(w, ERASE_PATH),
    (ERASE, 401, "bad_mac"): lambda w: erasing(w, Sottovoce_MAC="0" * 64),
    (ERASE, 411, "length_required"): posted(ERASE_PATH, Transfer_Encoding="chunked"),
    (ERASE, 413, "too_large"): posted(ERASE_PATH, LONG, Content_Type=JSON),
    (ERASE, 415, "unsupported_media"): lambda w: erasing(w, Content_Encoding="gzip"),
    (ERASE, 415, "sealing_required"): lambda w: plain_where_sealing_is_required(w, ERASE_PATH),
    (ERASE, 503, "unavailable"): lambda world: while_away(world, ERASE_PATH),
    (ADMISSIONS, 200, None): asking(),
    (ADMISSIONS, 400, "malformed"): not_invited(HABITS),
    (ADMISSIONS, 403, "invitation_unknown"): asking("0" * 32),
    (ADMISSIONS, 404, "unknown_survey"): posted(HABITS, b"{}", Content_Type=JSON),
    (ADMISSIONS, 409, "invitation_used"): asking(times=2),
    (ADMISSIONS, 411, "length_required"): not_invited(HABITS, Transfer_Encoding="chunked"),
    (ADMISSIONS, 413, "too_large"): posted(HABITS, LONG, Content_Type=JSON),
    (ADMISSIONS, 415, "unsupported_media"): posted(HABITS, b"{}", Content_Type="text/plain"),
    (ADMISSIONS, 429, "rate_limited"): asking_too_often,
    (ADMISSIONS, 503, "unavailable"): asking_while_away,
    (KEY, 200, None): key_of_survey,
    (KEY, 404, "unknown_survey"): got("/v1/surveys/habits/key"),
    (KEY, 503, "unavailable"): lambda world: away(world).get("/v1/surveys/habits/key"),
    ("GET /livez", 200, None): got("/livez"),
    ("GET /readyz", 200, None): got("/readyz"),
    ("GET /readyz", 503, "unavailable"): lambda world: while_away(world, "/readyz"),
    ("GET /version", 200, None): got("/version"),
    ("GET /openapi.yaml", 200, None): got("/openapi.yaml"),
    ("any", 404, "not_found"): got("/nowhere"),
    ("any", 405, "method_not_allowed"): got(REPORTS_PATH),
}


def test_every_answer_of_the_contract_but_a_bug_is_provoked_here() -> None:
    assert {answer for answer in CONTRACT.promised() if answer[2] != "internal"} == set(PROVOKED)


@pytest.mark.parametrize("answer", list(PROVOKED), ids=str)
def test_every_answer_of_the_contract_can_be_had(
    world: Any, answer: tuple[str, int, str | None]
) -> None:
    _, status, kind = answer
    given = PROVOKED[answer](world)  # the client checks it against the contract
    assert given.status_code == status
    assert kind is None or given.json["type"] == PROBLEM_TYPE + kind


def test_a_bug_is_a_problem_document_too(world: Any) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    world.app.view_functions["live"] = fail
    answer = world.app.test_client().get("/livez")
    assert answer.status_code == 500
    assert answer.json["type"] == PROBLEM_TYPE + "internal"


@pytest.mark.parametrize("path", sorted(DOCUMENT["paths"]))
@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "TRACE"])
def test_every_method_is_answered_as_the_contract_says(world: Any, path: str, method: str) -> None:
    answer = world.app.test_client().open(path, method=method)
    listed = {name.upper() for name in DOCUMENT["paths"][path]}
    if method == "OPTIONS" or answer.status_code == 405:
        assert set(answer.headers["Allow"].split(", ")) >= listed | {"OPTIONS"}
    if method == "HEAD":
        whole = world.app.test_client().get(path)
        assert answer.data == b"" and answer.headers == whole.headers
        assert answer.status_code == whole.status_code
    elif method not in listed | {"OPTIONS"}:
        assert answer.status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//v1/reports",
        "/v1//reports",
        "/v1/reports/",
        "/V1/reports",
        "/v1/reports/%00",
        "/v1/%ff",
        "/../v1/reports",
        "/" + "a" * 4000,
    ],
)
def test_an_address_that_is_not_listed_is_a_404_and_never_a_redirect(world: Any, path: str) -> None:
    for method in ("GET", "POST"):
        assert world.app.test_client().open(path, method=method).status_code == 404


def test_the_contract_travels_with_the_package() -> None:
    assert Path(str(contract.PATH)).parent.joinpath("app.py").exists()


def test_the_device_in_the_docs_speaks_the_contract(
    world: Any, serve: Callable[[Any], Any]
) -> None:
    text = Path(__file__).parents[2].joinpath("docs", "api.md").read_text(encoding="utf-8")
    snippets = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (snippet,) = [each for each in snippets if DEVICES_PATH in each]
    server = serve(world)
    names: dict[str, Any] = {
        "SERVER": server.url,
        "WRITE_KEY": world.keys.write_key,
        "REPORT": json.loads(world.report("theme", 2)),
    }
    exec(compile(snippet, "api.md", "exec"), names)
    assert names["authentic"] and names["answer"]["reports"] == ["accepted"]


def test_the_report_in_the_docs_is_of_the_contract() -> None:
    text = Path(__file__).parents[2].joinpath("docs", "api.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```json\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    CONTRACT.validate(SCHEMAS["Report"], json.loads(shown))


def test_an_answer_outside_the_contract_is_noticed(world: Any) -> None:
    world.app.view_functions["live"] = lambda: ({"status": "alive", "device": "0"}, 200)
    with pytest.raises(BaseExceptionGroup):
        world.app.test_client().get("/livez")
    world.app.view_functions["live"] = lambda: ({"status": "alive"}, 202)
    with pytest.raises(BaseExceptionGroup):
        world.app.test_client().get("/livez")
