"""The read API: /v1/releases, /v1/metrics and /v1/devices, as openapi.yaml promises them."""

from typing import Any
from urllib.parse import quote, urlencode

from flask import Blueprint, Response, request

from client_sdk.metric import Metric
from client_sdk.registry import Registry
from estimator.dashboard.answers import ASK_AGAIN, FOR_GOOD, NEVER, as_json, kept
from estimator.dashboard.api.listing import page, summary
from estimator.dashboard.api.queries import Selection, cursor_of, matching, one_of, single
from estimator.dashboard.one_device import account_of
from estimator.dashboard.problems import ReadProblem
from estimator.dashboard.shelf import FINGERPRINT, Entry, Shelf
from estimator.ledger.lifetime import MICRO
from estimator.releases.release import POOLED, Privacy
from estimator.source import StoreSource

FORMATS = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "sig": "application/json",
}


def api(source: StoreSource, shelf: Shelf) -> Blueprint:
    """Return the addresses under /v1; who may ask is not decided here."""
    blueprint = Blueprint("v1", __name__, url_prefix="/v1")

    @blueprint.get("/releases")
    def list_releases() -> Response:
        selection = Selection.of(request.args)
        found = page(shelf, selection)
        following = None
        if found.last is not None:
            query = {name: request.args[name] for name in Selection.NAMES if name in request.args}
            query["cursor"] = cursor_of(found.last)
            following = f"{request.path}?{urlencode(query)}"
        listed = []
        for release in found.releases:
            address = f"{request.path}/{quote(release.metric)}/{release.epoch}"
            href = f"{address}?fingerprint={release.fingerprint}"
            listed.append(summary(release) | {"href": href})
        return kept(as_json({"releases": listed, "next": following}), FORMATS["json"])

    @blueprint.get("/releases/<metric>/<epoch>")
    def show_release(metric: str, epoch: str) -> Response:
        query = single(request.args, ("fingerprint", "format"))
        fingerprint = matching(query, "fingerprint", FINGERPRINT)
        kind = one_of(query, "format", FORMATS) or "json"
        entry = _chosen(shelf, metric, epoch, fingerprint)
        path = shelf.path(entry).with_suffix(f".{kind}")
        try:
            body = path.read_bytes()
        except FileNotFoundError as error:
            detail = f"this release has no {kind} file"
            raise ReadProblem("not_found", detail, "format") from error
        # Without a version it may be another release tomorrow, and pages can be drawn again.
        lasting = fingerprint is not None and kind in ("json", "csv")
        answer = kept(body, FORMATS[kind], FOR_GOOD if lasting else ASK_AGAIN)
        if kind == "csv":
            name = f"{entry.metric}.{path.name}"
            answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        return answer

    @blueprint.get("/metrics")
    def list_metrics() -> Response:
        single(request.args, ())
        registry = source.newest()
        versions = _versions(source, registry)
        document = {
            "project": registry.project,
            "contact": registry.contact,
            "lifetime_epsilon": registry.lifetime_micro / MICRO,
            "metrics": [
                _described(metric, registry, versions[name])
                for name, metric in registry.metrics.items()
            ],
        }
        return kept(as_json(document), FORMATS["json"])

    @blueprint.get("/devices/<device>/ledger")
    def show_ledger(device: str) -> Response:
        single(request.args, ())
        found = account_of(source, device)
        if found is None:
            raise ReadProblem("not_found", "the ledger has no record of this device", "device")
        answer = Response(as_json(found), content_type=FORMATS["json"])
        answer.headers["Cache-Control"] = NEVER
        return answer

    return blueprint


def _chosen(shelf: Shelf, metric: str, epoch: str, fingerprint: str | None) -> Entry:
    """Return the one release that is meant: the pooled one or the only one, if no version is named.

    Raises:
        ReadProblem: There is none, or it is not clear which.
    """
    if not shelf.entries(metric):
        raise ReadProblem("not_found", "there is no release of this metric", "metric")
    versions = {entry.fingerprint: entry for entry in shelf.of(metric, epoch)}
    if not versions:
        raise ReadProblem("not_found", "this epoch was not released", "epoch")
    if fingerprint is None:
        fingerprint = POOLED if POOLED in versions or len(versions) > 1 else next(iter(versions))
        if fingerprint not in versions:
            detail = "say which one; there is no release over all of them"
            more = {"fingerprints": sorted(versions)}
            raise ReadProblem("several_versions", detail, "fingerprint", more)
    if fingerprint not in versions:
        raise ReadProblem("not_found", "this version was not released", "fingerprint")
    return versions[fingerprint]


def _versions(source: StoreSource, registry: Registry) -> dict[str, list[str]]:
    """Return the fingerprints of each metric of a registry, oldest first."""
    found: dict[str, list[str]] = {name: [] for name in registry.metrics}
    for metric in source.metrics():
        if metric.name in found:
            found[metric.name].append(metric.fingerprint)
    return found


def _described(metric: Metric, registry: Registry, versions: list[str]) -> dict[str, Any]:
    share = metric.share(metric.starts)
    return {
        "metric": metric.name,
        "question": metric.question,
        "type": metric.type,
        "sensitivity": metric.sensitivity,
        "owners": list(metric.owners),
        "epoch": metric.epoch,
        "every": metric.every,
        "inclusion": float(metric.inclusion),
        "starts": metric.starts.isoformat(),
        "expires": None if metric.endless else metric.expires.isoformat(),
        "min_reports": metric.min_reports,
        "mechanism": metric.mechanism.name,
        "privacy": Privacy.of(metric).to_dict(),
        "share_epsilon": share / MICRO,
        "share_of_lifetime": share / registry.lifetime_micro,
        "fingerprint": metric.fingerprint,
        "fingerprints": versions,
    }
