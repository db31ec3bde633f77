"""The services of compose.yaml are started as it says, without an engine, and do their work."""

import os
import re
import signal
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import redis
import requests
from redis.backoff import NoBackoff
from redis.retry import Retry

from client_sdk.report import DEVICES_PATH, REPORTS_PATH
from tests.aggregator.test_proxy import SHIPPED, certificate, free_port, nginx_program
from tests.docker.conftest import DOCKER, PASSWORD, Containers


def store_client(
    containers: Containers, user: str | None = None, password: str | None = None
) -> redis.Redis:
    once = Retry(NoBackoff(), 0)
    port = containers.store_port
    return redis.Redis(port=port, username=user, password=password, retry=once)


def store_up(containers: Containers) -> None:
    """Wait until the health check of the store, as its user, is answered with PONG."""
    (_, check) = containers.services["store"]["healthcheck"]["test"]
    user, password = re.search(r"--user (\S+) --pass (\S+) ping", check).groups()
    deadline = time.monotonic() + 60
    while True:
        try:
            with store_client(containers, user, password) as client:
                assert client.ping()
                return
        except redis.ConnectionError:
            assert containers.running["store"].poll() is None, containers.log("store")
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_all_services_become_healthy_do_their_work_and_stop_on_sigterm(
    containers: Containers,
) -> None:
    keys = containers.folder / "data" / "keys"
    containers.start_store()
    store_up(containers)
    made = containers.run("keys")
    assert made.returncode == 0, made.stderr
    assert stat.S_IMODE((keys / "keys.json").stat().st_mode) == 0o600
    (write_key,) = re.findall(r"^(\S{20,})$", made.stdout, re.MULTILINE)
    before = (keys / "keys.json").read_bytes()
    again = containers.run("keys")
    assert again.returncode == 0 and write_key not in again.stdout
    assert (keys / "keys.json").read_bytes() == before

    # An engine starts the fold worker as soon as the store is healthy, before there is a server.
    for name in ("fold", "aggregator"):
        containers.start(name)
    for name in ("aggregator", "fold"):
        containers.healthy(name)
    assert containers.health("estimator").returncode == 1
    for name in ("estimator", "dashboard"):
        containers.start(name)
    for name in ("estimator", "dashboard"):
        containers.healthy(name)

    enrolled = requests.post(
        f"http://127.0.0.1:{containers.port}{DEVICES_PATH}",
        headers={"Authorization": f"Bearer {write_key}"},
        timeout=30,
    )
    assert enrolled.status_code == 201, enrolled.text
    assert {"keys.json", "generation.json", "admin_log.jsonl"} <= {p.name for p in keys.iterdir()}

    statuses = {name: containers.stop(name) for name in list(containers.running)[1:]}
    assert len(statuses) == 4 and set(statuses.values()) == {0}, statuses
    for name in ("aggregator", "dashboard"):
        answer = containers.health(name)
        assert answer.returncode == 1 and "does not answer" in answer.stdout
    assert containers.stop("store") == 0
    for name in ("fold", "estimator"):
        answer = containers.health(name)
        assert answer.returncode == 1 and answer.stdout.count("\n") == 1, answer


@pytest.mark.slow
def test_services_are_unhealthy_while_the_store_is_away_or_they_hang(
    containers: Containers,
) -> None:
    containers.start_store()
    store_up(containers)
    assert containers.run("keys").returncode == 0
    for name in ("aggregator", "fold", "estimator"):
        containers.start(name)
        containers.healthy(name)
    for name in ("fold", "estimator"):
        os.kill(containers.running[name].pid, signal.SIGSTOP)
    try:
        time.sleep(3)  # what they left is noted in whole seconds
        fold = containers.health("fold", "--within", "1.5")
        assert fold.returncode == 1 and "no fold worker has passed" in fold.stdout
        schedule = containers.health("estimator", "--within", "1.5")
        assert schedule.returncode == 1 and "no pass without a failure" in schedule.stdout
        assert containers.health("aggregator").returncode == 0
    finally:
        for name in ("fold", "estimator"):
            os.kill(containers.running[name].pid, signal.SIGCONT)
    assert containers.stop("store") == 0
    answer = containers.health("aggregator")
    assert answer.returncode == 1 and answer.stdout.startswith("store: ")
    assert containers.health("aggregator", "--live").returncode == 0
    containers.start_store()
    store_up(containers)
    for name in ("aggregator", "fold"):
        containers.healthy(name)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_canary_reports_under_the_same_rights_and_no_limit(containers: Containers) -> None:
    containers.start_store()
    store_up(containers)
    assert containers.run("keys").returncode == 0
    for name in ("fold", "aggregator"):
        containers.start(name)
    containers.healthy("aggregator")
    containers.start("canary")
    deadline = time.monotonic() + 200
    while containers.log("canary").count("reports of known truth are delivered") < 4:
        assert containers.running["canary"].poll() is None, containers.log("canary")
        assert time.monotonic() < deadline, containers.log("canary")
        time.sleep(0.2)
    assert "rate_limited" not in containers.log("canary")
    assert containers.stop("canary") == 0


def test_only_the_two_users_of_the_file_can_log_in(containers: Containers) -> None:
    containers.start_store()
    store_up(containers)
    with store_client(containers) as client:
        with pytest.raises(redis.AuthenticationError):
            client.ping()
    for wrong in ("", "any"):
        with store_client(containers, "sottovoce", wrong) as client:
            with pytest.raises(redis.AuthenticationError):
                client.ping()
    with store_client(containers, "health", "any") as client:
        for forbidden in (lambda: client.get("{meta}:shape"), client.info, client.acl_list):
            with pytest.raises(redis.exceptions.NoPermissionError):
                forbidden()
    with store_client(containers, "sottovoce", PASSWORD) as client:
        info = client.info()
        assert info["aof_enabled"] == 1 and info["maxmemory_policy"] == "noeviction"
        assert info["maxmemory"] == 1 << 30
    written = containers.folder / "run" / "users.acl"
    assert PASSWORD not in written.read_text()
    assert stat.S_IMODE(written.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "password", ["", "short-password", "with a space in it", "with/slash@and:"]
)
def test_a_password_that_a_url_would_garble_is_refused(
    containers: Containers, password: str
) -> None:
    containers.start_store(STORE_PASSWORD=password)
    assert containers.running["store"].wait(20) == 1
    assert "STORE_PASSWORD must be" in containers.log("store")


def test_a_store_with_another_key_file_is_refused(containers: Containers) -> None:
    containers.start_store()
    store_up(containers)
    assert containers.run("keys").returncode == 0
    containers.start("aggregator")
    containers.healthy("aggregator")
    assert containers.stop("aggregator") == 0
    for path in (containers.folder / "data" / "keys").iterdir():
        path.unlink()
    assert containers.run("keys").returncode == 0
    containers.start("aggregator")
    assert containers.running["aggregator"].wait(60) == 2
    assert "pseudonym key" in containers.log("aggregator")


@contextmanager
def name_server(addresses: dict[bytes, str]) -> Iterator[int]:
    """Answer DNS questions for addresses as an engine's does; return its port."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def answer() -> None:
            while True:
                question, peer = sock.recvfrom(512)
                if not question:
                    return
                found = addresses.get(question[13 : 13 + question[12]])
                flags, count = (b"\x81\x80", b"\0\1") if found else (b"\x81\x83", b"\0\0")
                record = b"\xc0\x0c\0\1\0\1" + (1).to_bytes(4, "big") + b"\0\4"
                record += socket.inet_aton(found) if found else b""
                head = question[:2] + flags + b"\0\1" + count + b"\0\0\0\0"
                sock.sendto(head + question[12:] + (record if found else b""), peer)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        port = sock.getsockname()[1]
        yield port
        sock.sendto(b"", ("127.0.0.1", port))
        thread.join(10)


def test_nginx_finds_the_aggregator_by_its_name_also_when_that_comes_later(
    tmp_path: Path, compose: dict[str, Any]
) -> None:
    class Aggregator(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    chain, private = certificate(tmp_path)
    tmp_path.chmod(0o755)
    port = free_port()
    addresses: dict[bytes, str] = {}
    text = SHIPPED.read_text()
    with (
        name_server(addresses) as names,
        ThreadingHTTPServer(("127.0.0.1", 0), Aggregator) as behind,
    ):
        threading.Thread(target=behind.serve_forever, daemon=True).start()
        for shipped, ours in {
            "pid /run/nginx.pid;": f"pid {tmp_path}/nginx.pid;",
            "resolver 127.0.0.11 ": f"resolver 127.0.0.1:{names} ",
            "aggregator:8080": f"aggregator:{behind.server_address[1]}",
            "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
            "listen [::]:443 ssl;": "",
            "/etc/nginx/tls/fullchain.pem": str(chain),
            "/etc/nginx/tls/privkey.pem": str(private),
        }.items():
            assert text.count(shipped) == 1, shipped
            text = text.replace(shipped, ours)
        (tmp_path / "nginx.conf").write_text(text)
        program, *words = compose["services"]["nginx"]["command"]
        assert program == "nginx"
        command = [nginx_program(), *words, "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")]
        with (tmp_path / "output").open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            assert answered(process, port, chain) == 503
            addresses[b"aggregator"] = "127.0.0.1"
            deadline = time.monotonic() + 60
            while answered(process, port, chain) != 200:
                assert time.monotonic() < deadline, (tmp_path / "output").read_text()
                time.sleep(0.2)
        finally:
            process.terminate()
            assert process.wait(20) == 0
            behind.shutdown()


def answered(process: subprocess.Popen[bytes], port: int, chain: Path) -> int:
    """Return the status of nginx's answer, waiting for it to listen."""
    deadline = time.monotonic() + 20
    while True:
        try:
            url = f"https://localhost:{port}{REPORTS_PATH}"
            return requests.post(url, data=b"{}", verify=str(chain), timeout=30).status_code
        except requests.ConnectionError:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)


def test_the_shipped_script_is_executable() -> None:
    assert os.access(DOCKER / "redis" / "start.sh", os.X_OK)
