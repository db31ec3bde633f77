"""Server processes to measure: the real one, and one whose only route reads the body."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import psutil
from flask import Flask, Response, request

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from aggregator.body import read_upload  # noqa: E402
from aggregator.server import prepare, run, serve  # noqa: E402
from aggregator.settings import ServerSettings  # noqa: E402
from client_sdk.report import REPORTS_PATH  # noqa: E402

REAL, READING = "real", "reading"


@contextmanager
def served(kind: str, settings: ServerSettings) -> Iterator[tuple[str, psutil.Process]]:
    """Run a server of one kind in processes of its own; yield its URL and the first of them."""
    environment = os.environ | {
        "REDIS_URL": settings.required_redis_url(),
        "SOTTOVOCE_KEYS_FILE": str(settings.keys_file),
        "SOTTOVOCE_PORT": str(settings.port),
        "SOTTOVOCE_WORKERS": str(settings.workers),
        "SOTTOVOCE_THREADS": str(settings.threads),
    }
    url = f"http://{settings.host}:{settings.port}"
    with subprocess.Popen([sys.executable, __file__, kind], env=environment) as process:
        try:
            _wait_for(f"{url}/livez", process)
            yield url, psutil.Process(process.pid)
        finally:
            process.terminate()


def cpu_seconds(process: psutil.Process) -> float:
    """Return the processor time of a process and its children so far."""
    times = [each.cpu_times() for each in (process, *process.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def _wait_for(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            with urlopen(url, timeout=5):
                return
        except URLError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _reading() -> Flask:
    app = Flask("reading")

    @app.post(REPORTS_PATH)
    def read() -> Response:
        read_upload(request, plain=True)
        return Response("{}", content_type="application/json")

    @app.get("/livez")
    def live() -> Response:
        return Response("{}", content_type="application/json")

    return app


if __name__ == "__main__":
    chosen = ServerSettings.from_env(os.environ)
    if sys.argv[1] == REAL:
        run(chosen)
    else:
        prepare(chosen)
        serve(chosen, _reading)
