"""The aggregation server's HTTP face: routes, in the order of their checks, and nothing else.

Cheap checks of size and form come first, then the MAC, then what the reports say. Nothing is
logged about a request that could name a device or an address.
"""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files

from flask import Flask, Response, g, request
from werkzeug.middleware.proxy_fix import ProxyFix

from aggregator import intake, web_origins
from aggregator.batch import Answer
from aggregator.body import read_json_body, read_upload
from aggregator.catalogue import Catalogue
from aggregator.enrolment.limits import DEFAULT_LIMITS, EnrolmentLimits, limited
from aggregator.enrolment.networks import Networks, fresh_secret
from aggregator.intake import Malformed, Upload
from aggregator.keyring.keys import Keys, KeySource
from aggregator.problems import Problem, answer_errors_as_problems
from aggregator.recovery.erasure import erase
from aggregator.store import Store
from aggregator.store.migrations import newest_schema
from aggregator.survey import admission, pages
from aggregator.survey.admitted import is_admitted
from aggregator.survey.endings import Endings
from aggregator.unsealing import unsealed
from aggregator.watching.about import version
from aggregator.watching.readiness import Readiness
from client_sdk.authentication import MAC_HEADER, answer_mac, erase_mac, erased_mac
from client_sdk.report import DEVICES_PATH, ERASE_PATH, ERASED, REPORTS_PATH
from client_sdk.survey import Survey


def create_app(
    *,
    store: Store,
    keys: KeySource,
    catalogue: Catalogue,
    clock: Callable[[], float] = time.time,
    plain_uploads: bool = True,
    readiness: Readiness | None = None,
    limits: EnrolmentLimits = DEFAULT_LIMITS,
    network_secret: bytes | None = None,
    trusted_proxies: int = 0,
    allowed_origins: Sequence[str] = (),
    surveys: Sequence[Survey] = (),
) -> Flask:
    """Wire the parts together.

    Args:
        store: Where batches go.
        keys: The project's secrets, asked for at each request.
        catalogue: The registry versions that reports are judged by.
        clock: Unix time in seconds.
        plain_uploads: Whether uploads that are not sealed are taken.
        readiness: What /readyz asks; None: store and catalogue, with the default limits.
        limits: How many devices may enrol.
        network_secret: Names their networks; the processes that share one count together.
        trusted_proxies: How many of the last addresses in X-Forwarded-For come from proxies.
        allowed_origins: Other origins whose pages may send.
        surveys: Whose pages are served.
    """
    readiness = readiness or Readiness(store, catalogue)
    app = Flask(__name__, static_folder=None)
    app.url_map.merge_slashes = False  # by a redirect to wherever the Host header says
    if trusted_proxies:
        app.wsgi_app = ProxyFix(  # type: ignore[method-assign]  # the way that Flask documents
            app.wsgi_app, x_for=trusted_proxies, x_proto=0, x_host=0
        )
    networks = Networks(network_secret or fresh_secret(), clock)
    within_limits = limited(app, store.windows, networks, limits, clock)
    admissions = admission.Admissions(store.invitations, keys, clock)
    app.register_blueprint(admission.blueprint(admissions, within_limits))
    answer_errors_as_problems(app)
    app.after_request(_guarded)
    if allowed_origins:
        web_origins.allow(app, allowed_origins)
    if surveys:
        write_key, closed = lambda: keys.current().write_key, Endings(store).closed
        app.register_blueprint(pages.blueprint(surveys, write_key, clock, closed))

    @app.errorhandler(Malformed)
    def malformed(error: Malformed) -> Response:
        return Problem("malformed", error.detail, error.field).response()

    @app.post(DEVICES_PATH)
    def enrol_device() -> Response:
        body = read_json_body(request)
        ring = keys.current()
        scheme, _, shown = request.headers.get("Authorization", "").partition(" ")
        enrol: Callable[[], tuple[str, bytes]] = ring.enrol
        if scheme.lower() == "admission":
            enrol = admissions.enrolment(ring, shown.strip())
        elif scheme.lower() != "bearer" or not ring.may_enrol(shown.strip()):
            raise Problem("bad_write_key", "send it as a bearer token", "Authorization")
        if body:
            intake.parse_enrolment(body)
        device, device_key = within_limits(enrol)
        store.figures.note_enrolment()
        return _json({"device": device, "key": device_key.hex()}, 201)

    @app.post(REPORTS_PATH)
    def take_reports() -> Response:
        ring = keys.current()
        body, mac = _body_and_mac(ring, plain_uploads)
        upload = intake.parse(body)
        device_key = ring.verified(upload.device, body, mac)
        if device_key is None:
            raise _stranger(store, ring, upload, body, mac)
        g.verified_reports = len(upload.reports)
        versions, now = catalogue.current(), clock()
        admitted = partial(is_admitted, ring.pseudonym_key, upload.device)
        batch = intake.judge(upload, versions, now, admitted)
        if intake.refuses_some(batch):
            versions = catalogue.refreshed()
            batch = intake.judge(upload, versions, now, admitted)
        cap = versions.cap_for(report.metric for report in upload.reports)
        return _answered(store.apply(batch, cap), upload, device_key)

    @app.post(ERASE_PATH)
    def erase_device() -> Response:
        ring = keys.current()
        body, mac = _body_and_mac(ring, plain_uploads)
        asked = intake.parse_erasure(body)
        # Also under a master key that was retired: that a key was stolen takes away no right.
        proof = (asked.device, body, mac, erase_mac)
        device_key = ring.verified(*proof) or ring.revoked(*proof)
        if device_key is None:
            raise Problem("bad_mac", "must be this device's MAC over the exact body", MAC_HEADER)
        erase(store, catalogue.load(), asked.device, clock())
        return _json({"verdict": ERASED, "mac": erased_mac(device_key, asked.nonce)})

    @app.get("/livez")
    def live() -> Response:
        return _json({"status": "alive"})

    @app.get("/readyz")
    def ready() -> Response:
        readiness.check()
        return _json({"status": "ready"})

    @app.get("/version")
    def tell_version() -> Response:
        return _json({"name": "sottovoce", "version": version(), "schema": newest_schema()})

    contract = files("aggregator").joinpath("openapi.yaml").read_bytes()

    @app.get("/openapi.yaml")
    def show_contract() -> Response:
        return Response(contract, content_type="application/yaml")

    return app


def _body_and_mac(keys: Keys, plain_uploads: bool) -> tuple[bytes, str]:
    """Return the plain bytes that a MAC is over, and what is shown as that MAC."""
    sent, sealed = read_upload(request, plain=plain_uploads)
    return unsealed(keys, sent) if sealed else (sent, request.headers.get(MAC_HEADER, ""))


def _stranger(store: Store, keys: Keys, upload: Upload, body: bytes, mac: str) -> Problem:
    """Tell somebody whose MAC is of no key in use why, in words that a revoked device believes."""
    device_key = keys.revoked(upload.device, body, mac)
    if device_key is None:
        return Problem("bad_mac", "must be this device's MAC over the exact body", MAC_HEADER)
    if store.erasures.holds(upload.device):
        # Told to enrol anew, a copy of it would go on under another id.
        return _erased(upload, device_key)
    told = _told(Answer("identity_revoked", 0, ()), upload, device_key)
    detail = "the master key of this device was retired: enrol again, nothing was counted"
    return Problem("identity_revoked", detail, MAC_HEADER, told)


def _told(answer: Answer, upload: Upload, device_key: bytes) -> dict[str, object]:
    return {
        "sequence": upload.sequence,
        "verdict": answer.verdict,
        "spent": answer.spent,
        "reports": answer.reports,
        "mac": answer_mac(
            device_key, upload.nonce, upload.sequence, answer.verdict, answer.spent, answer.reports
        ),
    }


def _answered(answer: Answer, upload: Upload, device_key: bytes) -> Response:
    told = _told(answer, upload, device_key)
    if answer.verdict == "clone_suspected":
        detail = "this sequence, or a later one, came with other bytes: two devices share one state"
        raise Problem("clone_suspected", detail, "sequence", told)
    if answer.verdict == ERASED:
        raise _erased(upload, device_key)
    return _json(told)


def _erased(upload: Upload, device_key: bytes) -> Problem:
    told = _told(Answer("erased", 0, ()), upload, device_key)
    return Problem("erased", "its user had it erased; nothing is taken from it", "device", told)


def _json(document: dict[str, object], status: int = 200) -> Response:
    return Response(json.dumps(document), status=status, content_type="application/json")


def _guarded(answer: Response) -> Response:
    """Let nobody keep an answer, which may hold a device's key, or take one for a page."""
    answer.headers.setdefault("Cache-Control", "no-store")
    answer.headers.setdefault("X-Content-Type-Options", "nosniff")
    return answer
