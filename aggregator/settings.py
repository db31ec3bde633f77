"""Settings of the server's processes: one list, read from the environment.

REDIS_URL                  the store: redis://, rediss:// or unix://; of a cluster
                           redis+cluster://host:port,host2:port2 or rediss+cluster://; without
                           one `sottovoce up` starts its own
SOTTOVOCE_KEYS_FILE        all secrets, mode 0600; aggregator.keyring.keys shows it (keys.json)
SOTTOVOCE_METRICS          metrics.toml to register at start, beside all versions in the store
SOTTOVOCE_SURVEYS          files of surveys to ask in browsers, separated by colons (Windows:
                           semicolons); the dashboard shows what comes of them (none)
SOTTOVOCE_PLAIN_UPLOADS    accept, or refuse: then only sealed uploads are taken (accept)
SOTTOVOCE_ENROL_LIMIT      devices that may enrol in an hour, in all (100000)
SOTTOVOCE_ENROL_LIMIT_PER_NETWORK
                           devices that may enrol in an hour from one /24, or IPv6 /64; ten times
                           as many from one IPv6 /48 (300)
SOTTOVOCE_TRUSTED_PROXIES  proxies in front of the server that each add the address they saw to
                           X-Forwarded-For; all before is anybody's word (0: the header is ignored)
SOTTOVOCE_WEB_ORIGINS      other origins whose pages may send, comma-separated and exact, like
                           https://app.example.org (none)
SOTTOVOCE_HOST             address to listen on (127.0.0.1)
SOTTOVOCE_PORT             TCP port to listen on (8080)
SOTTOVOCE_WORKERS          server processes, about one per core (2)
SOTTOVOCE_THREADS          threads per process; many, so that the store can sync the uploads of
                           many at once (16)
SOTTOVOCE_SHARDS           parts that devices are spread over; fixed for the store's life (64)
SOTTOVOCE_PLANNED_DEVICES  sizes the ledger's buckets, which stay compact for three times as
                           many; fixed for the store's life (1000000)
SOTTOVOCE_FOLD_INTERVAL    seconds between two passes of the fold worker (1.0)
SOTTOVOCE_STORE_TIMEOUT    seconds to wait for an answer of the store (5.0)
SOTTOVOCE_STORE_DIRECTORY  the store's data directory, if it is on this machine: without a tenth of
                           its disk free the server is not ready
SOTTOVOCE_READY_FOLD_LAG   seconds that a report may wait for the fold before the server is not
                           ready (600)
SOTTOVOCE_METRICS_PORT     TCP port of /metrics, 0: none (0; for `sottovoce up` 9464, or any that
                           is free)
SOTTOVOCE_METRICS_HOST     address of that port (127.0.0.1)
SOTTOVOCE_METRICS_URLS     /metrics of all servers, comma-separated http(s) URLs, for the
                           dashboard's operations page (none; `sottovoce up` fills in its own)
SOTTOVOCE_CANARY_DEVICES   devices of the canary per metric and day, at least 100; 0: no canary (0)
SOTTOVOCE_DASHBOARD_HOST   address that the dashboard and its API listen on; unless only this
                           machine can reach it, a read key is required (127.0.0.1)
SOTTOVOCE_DASHBOARD_PORT   TCP port of that (8090; for `sottovoce up` any, if it is taken)
SOTTOVOCE_LOG_FORMAT       json or text (json; text where standard error is a terminal)
SOTTOVOCE_LOG_LEVEL        debug, info, warning or error (info)
SOTTOVOCE_AOF_REWRITE_INTERVAL  seconds between two rewrites of the store's append-only file, which
                           until then holds what was erased; 0: the operator does it (3600)
SOTTOVOCE_WAIT_REPLICAS    replicas that must have an upload before it is acknowledged (0)
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from client_sdk.epochs import DAY_SECONDS

_LEVELS = ("debug", "info", "warning", "error")
_ORIGIN = re.compile(r"https?://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?")
"""As browsers write it."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_SCHEMES = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster")
LEAST_CANARY_DEVICES = 100
"""Fewer would show faults too late, and their errors are not nearly normal."""
_DEVICES_PER_BUCKET = 128
"""Mean size of a ledger bucket: large enough to share its overhead, small enough that four times as
many still fit the compact encodings (512 entries)."""


class SettingsError(ValueError):
    """A variable breaks its rule; names variable, rule and value."""

    def __init__(self, variable: str, rule: str, value: object) -> None:
        super().__init__(f"{variable} {rule}, got {value!r}")


@dataclass(frozen=True)
class ServerSettings:
    """What the server's processes are told; the table above says what each means."""

    redis_url: str | None = None
    keys_file: Path = Path("keys.json")
    metrics_file: Path | None = None
    survey_files: tuple[Path, ...] = ()
    plain_uploads: bool = True
    enrol_limit: int = 100_000
    enrol_limit_per_network: int = 300
    trusted_proxies: int = 0
    web_origins: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 2
    threads: int = 16
    shards: int = 64
    planned_devices: int = 1_000_000
    fold_interval_seconds: float = 1.0
    store_timeout_seconds: float = 5.0
    store_directory: Path | None = None
    ready_fold_lag_seconds: float = 600.0
    metrics_port: int = 0
    metrics_host: str = "127.0.0.1"
    metrics_urls: tuple[str, ...] = ()
    dashboard_host: str = "127.0.0.1"
    dashboard_port: int = 8090
    log_format: str | None = None
    log_level: str = "info"
    aof_rewrite_interval_seconds: int = 3600
    wait_replicas: int = 0
    canary_devices: int = 0

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """Read the settings.

        Raises:
            SettingsError: A variable breaks its rule.
        """
        metrics = environ.get("SOTTOVOCE_METRICS")
        store_directory = environ.get("SOTTOVOCE_STORE_DIRECTORY")
        return cls(
            redis_url=_url(environ, "REDIS_URL"),
            keys_file=Path(environ.get("SOTTOVOCE_KEYS_FILE") or cls.keys_file),
            metrics_file=Path(metrics) if metrics else None,
            survey_files=_paths(environ, "SOTTOVOCE_SURVEYS"),
            plain_uploads=_accepted(environ, "SOTTOVOCE_PLAIN_UPLOADS"),
            enrol_limit=_integer(environ, "SOTTOVOCE_ENROL_LIMIT", 1, 10**9, cls.enrol_limit),
            enrol_limit_per_network=_integer(
                environ,
                "SOTTOVOCE_ENROL_LIMIT_PER_NETWORK",
                1,
                10**9,
                cls.enrol_limit_per_network,
            ),
            trusted_proxies=_integer(
                environ, "SOTTOVOCE_TRUSTED_PROXIES", 0, 16, cls.trusted_proxies
            ),
            web_origins=_origins(environ, "SOTTOVOCE_WEB_ORIGINS"),
            host=environ.get("SOTTOVOCE_HOST") or cls.host,
            port=_integer(environ, "SOTTOVOCE_PORT", 0, 65535, cls.port),
            workers=_integer(environ, "SOTTOVOCE_WORKERS", 1, 256, cls.workers),
            threads=_integer(environ, "SOTTOVOCE_THREADS", 1, 1024, cls.threads),
            shards=_integer(environ, "SOTTOVOCE_SHARDS", 1, 1024, cls.shards),
            planned_devices=_integer(
                environ, "SOTTOVOCE_PLANNED_DEVICES", 1, 10**10, cls.planned_devices
            ),
            fold_interval_seconds=_seconds(
                environ, "SOTTOVOCE_FOLD_INTERVAL", cls.fold_interval_seconds
            ),
            store_timeout_seconds=_seconds(
                environ, "SOTTOVOCE_STORE_TIMEOUT", cls.store_timeout_seconds
            ),
            store_directory=Path(store_directory) if store_directory else None,
            ready_fold_lag_seconds=_seconds(
                environ, "SOTTOVOCE_READY_FOLD_LAG", cls.ready_fold_lag_seconds
            ),
            metrics_port=_integer(environ, "SOTTOVOCE_METRICS_PORT", 0, 65535, cls.metrics_port),
            metrics_host=environ.get("SOTTOVOCE_METRICS_HOST") or cls.metrics_host,
            metrics_urls=_web_addresses(environ, "SOTTOVOCE_METRICS_URLS"),
            dashboard_host=environ.get("SOTTOVOCE_DASHBOARD_HOST") or cls.dashboard_host,
            dashboard_port=_integer(
                environ, "SOTTOVOCE_DASHBOARD_PORT", 1, 65535, cls.dashboard_port
            ),
            log_format=_one_of(environ, "SOTTOVOCE_LOG_FORMAT", ("json", "text")),
            log_level=_one_of(environ, "SOTTOVOCE_LOG_LEVEL", _LEVELS) or cls.log_level,
            aof_rewrite_interval_seconds=_integer(
                environ,
                "SOTTOVOCE_AOF_REWRITE_INTERVAL",
                0,
                DAY_SECONDS,
                cls.aof_rewrite_interval_seconds,
            ),
            wait_replicas=_integer(environ, "SOTTOVOCE_WAIT_REPLICAS", 0, 10, cls.wait_replicas),
            canary_devices=_integer(
                environ, "SOTTOVOCE_CANARY_DEVICES", 0, 10_000, cls.canary_devices
            ),
        )

    @property
    def buckets(self) -> int:
        """Ledger buckets per shard."""
        return -(-self.planned_devices // (self.shards * _DEVICES_PER_BUCKET))

    def __post_init__(self) -> None:
        if self.metrics_port and self.metrics_port == self.port:
            rule = "must not be the port of the server (SOTTOVOCE_PORT)"
            raise SettingsError("SOTTOVOCE_METRICS_PORT", rule, self.metrics_port)
        if 0 < self.canary_devices < LEAST_CANARY_DEVICES:
            rule = f"must be 0 or at least {LEAST_CANARY_DEVICES}"
            raise SettingsError("SOTTOVOCE_CANARY_DEVICES", rule, self.canary_devices)

    def required_redis_url(self) -> str:
        """Return the store's URL.

        Raises:
            SettingsError: None is set.
        """
        if self.redis_url is None:
            raise SettingsError("REDIS_URL", "must name the store, like redis://host:6379/0", None)
        return self.redis_url


def _url(environ: Mapping[str, str], variable: str) -> str | None:
    text = environ.get(variable)
    if text and urlsplit(text).scheme not in _SCHEMES:
        # The value may hold a password: only its scheme is shown.
        rule = f"must begin with {', '.join(f'{scheme}://' for scheme in _SCHEMES)}"
        raise SettingsError(variable, rule, urlsplit(text).scheme)
    return text or None


def _paths(environ: Mapping[str, str], variable: str) -> tuple[Path, ...]:
    return tuple(map(Path, filter(None, (environ.get(variable) or "").split(os.pathsep))))


def _web_addresses(environ: Mapping[str, str], variable: str) -> tuple[str, ...]:
    found = _listed(environ, variable)
    for text in found:
        try:
            parts = urlsplit(text)
            sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            sound = False
        if not sound or "@" in text:
            # The value may hold a password: what stands before an @ is not shown.
            rule = "must be http:// or https:// URLs without a user, separated by commas"
            raise SettingsError(variable, rule, text.rpartition("@")[2])
    return found


def _origins(environ: Mapping[str, str], variable: str) -> tuple[str, ...]:
    found = _listed(environ, variable)
    for text in found:
        if text == "*":
            rule = (
                "must name each origin: with * any page whatsoever may send as if it were your app"
            )
            raise SettingsError(variable, rule, text)
        if not _is_origin(text):
            rule = "must be origins as browsers send them, like https://app.example.org:8443"
            raise SettingsError(variable, f"{rule}, separated by commas", text.rpartition("@")[2])
    return found


def _is_origin(text: str) -> bool:
    if not _ORIGIN.fullmatch(text):
        return False
    try:
        parts = urlsplit(text)
        return parts.port != _DEFAULT_PORTS[parts.scheme]  # browsers leave it out
    except ValueError:
        return False


def _listed(environ: Mapping[str, str], variable: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, (environ.get(variable) or "").split(","))))


def _accepted(environ: Mapping[str, str], variable: str) -> bool:
    text = environ.get(variable) or "accept"
    if text not in ("accept", "refuse"):
        raise SettingsError(variable, "must be accept or refuse", text)
    return text == "accept"


def _one_of(environ: Mapping[str, str], variable: str, known: tuple[str, ...]) -> str | None:
    text = environ.get(variable)
    if text and text not in known:
        raise SettingsError(variable, f"must be one of {', '.join(known)}", text)
    return text or None


def _integer(environ: Mapping[str, str], variable: str, least: int, most: int, default: int) -> int:
    text = environ.get(variable)
    if not text:
        return default
    rule = f"must be an integer in {least}..{most}"
    if not (text.isascii() and text.isdigit() and len(text) <= 12):
        raise SettingsError(variable, rule, text)
    if not least <= int(text) <= most:
        raise SettingsError(variable, rule, text)
    return int(text)


def _seconds(environ: Mapping[str, str], variable: str, default: float) -> float:
    text = environ.get(variable)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.01 <= value <= 3600:
        raise SettingsError(variable, "must be seconds in 0.01..3600", text)
    return value
