"""docker/compose.yaml: valid, closed to the outside but for nginx, and consistent with the rest."""

import copy
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from compose_spec import PyCompose

from aggregator.machine import embedded
from aggregator.settings import ServerSettings
from sottovoce.__main__ import parser_for
from tests.docker.conftest import DOCKER, PASSWORD, ROOT, composed

NAMES = sorted(composed(STORE_PASSWORD=PASSWORD)["services"])
UNCHECKED = ("keys", "canary")
"""The first ends, and the second leaves nothing by which it could be told."""
OURS = [name for name in NAMES if name not in ("store", "nginx")]


def internal(compose: dict[str, Any], service: str) -> bool:
    """Whether a service's networks lead nowhere."""
    mode = compose["services"][service].get("network_mode", "")
    if mode == "none":
        return True
    if mode:
        return internal(compose, mode.removeprefix("service:"))
    networks = compose["services"][service]["networks"]
    return all((compose["networks"][name] or {}).get("internal") for name in networks)


def test_the_file_is_what_compose_takes(compose: dict[str, Any]) -> None:
    assert PyCompose.from_json(json.dumps(compose)).service_names() == list(compose["services"])
    for wrong in ({"restart": "sometimes"}, {"unknown": 1}, {"cap_drop": "ALL"}):
        changed = copy.deepcopy(compose)
        changed["services"]["fold"] |= wrong
        with pytest.raises(ValueError, match=r"expected|unknown"):
            PyCompose.from_json(json.dumps(changed))


def test_without_a_password_nothing_starts() -> None:
    with pytest.raises(AssertionError, match=r"STORE_PASSWORD: set it in docker/\.env"):
        composed()


def test_only_nginx_is_reachable_from_outside(compose: dict[str, Any]) -> None:
    published = [name for name, service in compose["services"].items() if "ports" in service]
    assert published == ["nginx"]
    assert compose["services"]["nginx"]["ports"] == ["443:443"]
    # The estimator sends mail. Nothing is published there, so nobody comes in by it.
    assert [name for name in NAMES if not internal(compose, name)] == ["estimator", "nginx"]
    assert compose["services"]["estimator"]["networks"] == ["inside", "outgoing"]
    # The proxy has no way to the store.
    store, nginx = (set(compose["services"][name]["networks"]) for name in ("store", "nginx"))
    assert not store & nginx


@pytest.mark.parametrize("name", NAMES)
def test_services_are_confined(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"] and "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["restart"] == ("no" if name == "keys" else "unless-stopped")
    assert not {"privileged", "pid", "ipc", "devices", "userns_mode"} & service.keys()
    assert "docker.sock" not in json.dumps(service)
    if name not in OURS:  # the image of ours says it itself
        assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"])


@pytest.mark.parametrize("name", NAMES)
def test_images_are_pinned_to_a_version(compose: dict[str, Any], name: str) -> None:
    image, _, tag = compose["services"][name]["image"].partition(":")
    assert re.match(r"\d+\.\d+", tag), "a tag without a version moves"
    assert "." not in image.split("/")[0], "an image of a named registry"


@pytest.mark.parametrize("name", NAMES)
def test_services_that_are_waited_for_can_say_that_they_are_healthy(
    compose: dict[str, Any], name: str
) -> None:
    services = compose["services"]
    for other, how in services[name].get("depends_on", {}).items():
        if other == "keys":
            assert how == {"condition": "service_completed_successfully"}
        else:
            assert how["condition"] == "service_healthy"
            assert services[other]["healthcheck"]["test"]
    if name not in UNCHECKED:
        assert services[name]["healthcheck"]["test"]


def test_folding_waits_for_no_server(compose: dict[str, Any]) -> None:
    # A server is not ready while reports wait for the fold: each would wait for the other.
    assert set(compose["services"]["fold"]["depends_on"]) == {"store", "keys"}


@pytest.mark.parametrize("name", OURS)
def test_commands_and_health_checks_parse(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    command, *arguments = service["command"]
    parser_for(command).parse_args(arguments)
    shown = subprocess.run(
        [sys.executable, "-m", "sottovoce", command, "--help"], capture_output=True, text=True
    )
    assert shown.returncode == 0 and f"sottovoce {command}" in shown.stdout
    if name not in UNCHECKED:
        how, program, check, *words = service["healthcheck"]["test"]
        assert (how, program, check) == ("CMD", "sottovoce", "health")
        assert parser_for("health").parse_args(words).role == command


@pytest.mark.parametrize("name", OURS)
def test_environments_are_settings(compose: dict[str, Any], name: str) -> None:
    environment = compose["services"][name]["environment"]
    assert all(isinstance(value, str) for value in environment.values())
    settings = ServerSettings.from_env(environment)
    assert settings.redis_url == f"redis://sottovoce:{PASSWORD}@store:6379/0"


def test_what_is_mounted_from_here_exists(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        for volume in service.get("volumes", []):
            if isinstance(volume, dict):  # the operator's own: not made where it is missing
                assert volume["read_only"] and not volume["bind"]["create_host_path"]
                continue
            source, _, *mode = volume.split(":")
            if source.startswith("./"):
                assert (DOCKER / source).exists() and mode == ["ro"]
            else:
                assert source in compose["volumes"]


def test_all_who_must_share_the_key_file_do(compose: dict[str, Any]) -> None:
    folder = "/var/lib/sottovoce/keys"
    for name in OURS:
        service = compose["services"][name]
        assert f"keys:{folder}{':ro' * (name == 'dashboard')}" in service["volumes"]
        assert service["environment"]["SOTTOVOCE_KEYS_FILE"] == f"{folder}/keys.json"
    estimator = compose["services"]["estimator"]
    assert f"releases:{estimator['environment']['SOTTOVOCE_RELEASES']}" in estimator["volumes"]


def test_nginx_knows_the_aggregator_by_its_name_and_port(compose: dict[str, Any]) -> None:
    text = (DOCKER / "nginx" / "nginx.conf").read_text()
    named = re.findall(r"^\s*server ([\w.-]+):(\d+)", text, re.MULTILINE)
    assert named == [
        ("aggregator", compose["services"]["aggregator"]["environment"]["SOTTOVOCE_PORT"])
    ]
    aggregator, nginx = (compose["services"][name] for name in ("aggregator", "nginx"))
    assert set(aggregator["networks"]) & set(nginx["networks"]) == {"proxied"}
    assert aggregator["environment"]["SOTTOVOCE_TRUSTED_PROXIES"] == "1"
    files = re.findall(r"ssl_certificate(?:_key)?\s+(\S+);", text)
    assert {str(Path(file).parent) for file in files} == {nginx["volumes"][1]["target"]}
    pid = re.search(r"^pid (\S+);", text, re.MULTILINE)[1]
    written = [each.split(":")[0] for each in nginx["tmpfs"]]
    assert str(Path(pid).parent) in written


def test_the_store_is_set_as_the_bundled_one_and_as_documented(compose: dict[str, Any]) -> None:
    lines = (DOCKER / "redis" / "store.conf").read_text().splitlines()
    shipped = dict(line.split(" ", 1) for line in lines if line and line[0] != "#")
    shipped["save"] = shipped["save"].strip('"')
    words = embedded._settings(Path("d"), Path("s"))
    bundled = {name[2:]: value for name, value in zip(words[::2], words[1::2], strict=True)}
    for name in bundled.keys() - {"port", "unixsocket", "unixsocketperm", "dir"}:
        assert shipped[name] == bundled[name], name
    assert shipped["appendfsync"] == "always"
    assert "--maxmemory" in compose["services"]["store"]["command"]
    documented = (ROOT / "docs" / "operations.md").read_text()
    (told,) = re.findall(r"^Set on a store of your own: (.*?)\n\n", documented, re.M | re.S)
    for name, value in re.findall(r"`([a-z-]+) ([\w\"-]+)`", told):
        if name != "maxmemory-policy":
            assert shipped[name] == value.strip('"'), name
    folder = str(Path(shipped["aclfile"]).parent)
    assert compose["services"]["store"]["tmpfs"][0].startswith(f"{folder}:")
