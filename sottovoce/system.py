"""The whole server side on one machine: store, HTTP server, fold worker, scheduler, dashboard.

`sottovoce up` keeps it running for real use; `sottovoce demo` runs it once.
"""

import logging
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from aggregator.catalogue import Catalogue
from aggregator.keyring.first_keys import load_or_make
from aggregator.machine.embedded import EmbeddedServer
from aggregator.machine.processes import Command, Supervisor
from aggregator.purposes import require_no_survey
from aggregator.settings import ServerSettings
from aggregator.store import Store
from aggregator.survey_files import register_surveys, surveys_in
from aggregator.unsealing import require_uploads
from client_sdk.registry import loads
from client_sdk.survey import Survey

_log = logging.getLogger(__name__)

Fsync = Literal["always", "everysec"]
READY_TRIES = 12
PORT_TRIES = 60
"""At a port, four in a second."""
RELEASES_VARIABLE = "SOTTOVOCE_RELEASES"


@dataclass(frozen=True)
class System:
    """A running system.

    Attributes:
        endpoint: Base URL of the aggregation server.
        write_key: What apps show to enrol devices.
        releases: Directory of release files.
        store: A connection to its store.
        catalogue: Its registry versions.
        supervisor: Its processes.
        server: Its store's process.
        environment: What its processes are told.
        log_directory: Where each process writes its log; None: to this process's output.
    """

    endpoint: str
    write_key: str
    releases: Path
    store: Store
    catalogue: Catalogue
    supervisor: Supervisor
    server: EmbeddedServer
    environment: Mapping[str, str]
    log_directory: Path | None

    def further(self, *names: str, **environment: str) -> Supervisor:
        """Return a supervisor of further services, for what begins later than the rest.

        Args:
            names: Of commands.
            environment: What they alone are told.
        """
        told = {**self.environment, **environment}
        return Supervisor(_command(name, told, self.log_directory) for name in names)


@contextmanager
def running(
    registry_text: str | None,
    data: Path,
    *,
    settings: ServerSettings,
    with_schedule: bool,
    log_directory: Path | None = None,
    appendfsync: Fsync = "always",
) -> Iterator[System]:
    """Start everything, wait until it takes reports, and end it all on the way out.

    Args:
        registry_text: Text of metrics.toml; becomes one more version in the store. None: there are
            no apps, only the surveys of the settings.
        data: Directory of everything that must survive a restart; created with mode 0700.
        settings: Host, port, workers and sizes; the store's URL is filled in here.
        with_schedule: Whether releases are published as they fall due, and shown.
        log_directory: Where each process writes its log; None: to this process's output.
        appendfsync: "always": no acknowledged report is lost in a power cut; "everysec": faster,
            up to about a second of them may be.
    """
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    releases = data / "releases"
    releases.mkdir(exist_ok=True)
    keys_file = data / "keys.json"
    keys, log, _ = load_or_make(keys_file, datetime.now(UTC).date())
    surveys = surveys_in(settings)
    if registry_text is not None:
        registry = loads(registry_text)
        require_no_survey(registry)
        require_uploads(keys, registry, plain=settings.plain_uploads)
    with EmbeddedServer.start(data / "store", appendfsync=appendfsync) as server:
        settings = replace(settings, redis_url=server.url, keys_file=keys_file)
        store = Store.connect(settings, keys.pseudonym_key)
        store.migrate()
        store.check()
        catalogue = Catalogue(store, record=log.record)
        if registry_text is not None:
            catalogue.register(registry_text)
        register_surveys(catalogue, store.invitations, surveys)
        environment = {
            "REDIS_URL": server.url,
            "SOTTOVOCE_KEYS_FILE": str(keys_file.resolve()),
            "SOTTOVOCE_SURVEYS": os.pathsep.join(map(str, _kept(surveys, data / "surveys"))),
            "SOTTOVOCE_PLAIN_UPLOADS": "accept" if settings.plain_uploads else "refuse",
            "SOTTOVOCE_ENROL_LIMIT": str(settings.enrol_limit),
            "SOTTOVOCE_ENROL_LIMIT_PER_NETWORK": str(settings.enrol_limit_per_network),
            "SOTTOVOCE_TRUSTED_PROXIES": str(settings.trusted_proxies),
            "SOTTOVOCE_WEB_ORIGINS": ",".join(settings.web_origins),
            "SOTTOVOCE_HOST": settings.host,
            "SOTTOVOCE_PORT": str(settings.port),
            "SOTTOVOCE_WORKERS": str(settings.workers),
            "SOTTOVOCE_THREADS": str(settings.threads),
            "SOTTOVOCE_SHARDS": str(settings.shards),
            "SOTTOVOCE_PLANNED_DEVICES": str(settings.planned_devices),
            "SOTTOVOCE_FOLD_INTERVAL": str(settings.fold_interval_seconds),
            "SOTTOVOCE_STORE_DIRECTORY": str((data / "store").resolve()),
            "SOTTOVOCE_METRICS_HOST": settings.metrics_host,
            "SOTTOVOCE_METRICS_PORT": str(settings.metrics_port),
            "SOTTOVOCE_METRICS_URLS": ",".join(settings.metrics_urls),
            "SOTTOVOCE_AOF_REWRITE_INTERVAL": str(settings.aof_rewrite_interval_seconds),
            "SOTTOVOCE_CANARY_DEVICES": str(settings.canary_devices),
            "SOTTOVOCE_DASHBOARD_HOST": settings.dashboard_host,
            "SOTTOVOCE_DASHBOARD_PORT": str(settings.dashboard_port),
            RELEASES_VARIABLE: str(releases.resolve()),
        }
        names = ["serve", "fold", *(["schedule", "dashboard"] if with_schedule else [])]
        if with_schedule and settings.canary_devices:
            names.append("canary")
        commands = [_command(name, environment, log_directory) for name in names]
        with Supervisor(commands) as supervisor:
            endpoint = f"http://{settings.host}:{settings.port}"
            wait_until_ready(endpoint)
            yield System(
                endpoint,
                keys.write_key,
                releases,
                store,
                catalogue,
                supervisor,
                server,
                environment,
                log_directory,
            )
        store.close()


def _kept(surveys: Sequence[Survey], folder: Path) -> list[Path]:
    """Keep the files as they are now: a process that begins again reads what the others have."""
    folder.mkdir(exist_ok=True)
    paths = []
    for survey in surveys:
        path = folder.resolve() / f"{survey.name}.toml"
        path.write_text(survey.text, encoding="utf-8")
        paths.append(path)
    return paths


def free_port(host: str = "127.0.0.1", wanted: int = 0) -> int:
    """Return a TCP port that is free now: `wanted` if that is, any if it is 0 or taken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        # As the server does: a port of which only closed connections are left is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, wanted))
        except OSError:
            if not wanted:
                raise
            return free_port(host)
        return int(probe.getsockname()[1])


def require_port(host: str, port: int) -> None:
    """Wait up to 15 s until a TCP port can be listened on.

    An earlier run that was killed gives its port back within seconds. If somebody else kept it, all
    would seem well: the server there is asked whether it is ready, and people are sent to it.

    Raises:
        OSError: It is still taken; says what to do.
    """
    for number in range(PORT_TRIES):
        if free_port(host, port) == port:
            return
        if number == 0:
            _log.warning("port %d is taken; waiting up to %g s for it", port, 0.25 * PORT_TRIES)
        time.sleep(0.25)
    raise OSError(
        f"port {port} of {host} is taken: end what listens there, or name another with --port"
    )


def releases_directory(data: Path | None = None) -> Path:
    """Return where this process finds and puts releases.

    Args:
        data: Directory of `sottovoce up`; None: the environment names the place.
    """
    if data is not None:
        return data / "releases"
    return Path(os.environ.get(RELEASES_VARIABLE, "releases"))


def wait_until_ready(endpoint: str) -> None:
    """Raise OSError unless the server becomes ready within about half a minute."""
    policy = Retry(
        total=READY_TRIES,
        backoff_factor=0.05,
        backoff_max=5,
        status_forcelist=(503,),
        respect_retry_after_header=False,
    )
    with requests.Session() as session:
        session.mount("http://", HTTPAdapter(max_retries=policy))
        try:
            session.get(f"{endpoint}/readyz", timeout=10).raise_for_status()
        except requests.RequestException as error:
            raise OSError(f"the server at {endpoint} did not become ready: {error}") from error


def _command(name: str, environment: Mapping[str, str], log_directory: Path | None) -> Command:
    argv = (sys.executable, "-m", "sottovoce", name)
    log = None if log_directory is None else log_directory / f"{name}.log"
    return Command(name, argv, log, environment)
