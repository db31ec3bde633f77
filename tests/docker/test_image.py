"""docker/Dockerfile: small, without compiler and root, and with all that the wheel is made of."""

import json
import re
from pathlib import Path

from dockerfile_parse import DockerfileParser

from sottovoce.__main__ import parser_for
from tests.docker.conftest import DOCKER, ROOT


def stages() -> list[list[tuple[str, str]]]:
    """Return instruction and value of each stage's lines, what stands before the first left out."""
    with (DOCKER / "Dockerfile").open("rb") as file:
        parsed = DockerfileParser(fileobj=file).structure
    found: list[list[tuple[str, str]]] = []
    for step in parsed:
        if step["instruction"] == "FROM":
            found.append([])
        if found and step["instruction"] != "COMMENT":
            found[-1].append((step["instruction"], step["value"]))
    return found


def only(stage: list[tuple[str, str]], instruction: str) -> str:
    (value,) = [value for name, value in stage if name == instruction]
    return value


def test_both_stages_begin_from_one_pinned_slim_python() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    assert re.search(r"^ARG PYTHON=3\.\d+-slim-[a-z]+$", text, re.MULTILINE)
    build, final = stages()
    assert only(build, "FROM") == "python:${PYTHON} AS build"
    assert only(final, "FROM") == "python:${PYTHON}"


def test_the_last_stage_gets_the_finished_environment_and_installs_nothing() -> None:
    _, final = stages()
    assert only(final, "COPY") == "--from=build /opt/sottovoce /opt/sottovoce"
    ran = only(final, "RUN")
    assert not re.search(r"\b(apt|apt-get|pip|gcc|make|curl|wget)\b", ran)


def test_nothing_is_cached_in_the_image() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    for command in re.findall(r"\bpip (?:install|wheel)\b[^\\&\n]*", text):
        assert "--no-cache-dir" in command


def test_it_runs_as_a_user_with_a_fixed_id_who_owns_the_volumes() -> None:
    _, final = stages()
    assert only(final, "USER") == "10001:10001"
    ran = only(final, "RUN")
    assert "--uid 10001" in ran and "--gid 10001" in ran
    assert re.search(r"install -d -o 10001 -g 10001 -m 0700", ran)
    for folder in ("keys", "releases"):
        assert f"/var/lib/sottovoce/{folder}" in ran


def test_commands_are_in_exec_form_and_real() -> None:
    _, final = stages()
    assert json.loads(only(final, "ENTRYPOINT")) == ["sottovoce"]
    (command,) = json.loads(only(final, "CMD"))
    parser_for(command).parse_args([])
    check = only(final, "HEALTHCHECK").partition("CMD ")[2]
    program, name, *arguments = json.loads(check)
    assert program == "sottovoce"
    assert parser_for(name).parse_args(arguments).role == command
    assert only(final, "STOPSIGNAL") == "SIGTERM"


def test_it_holds_no_secret() -> None:
    for stage in stages():
        for instruction, value in stage:
            if instruction in ("ENV", "ARG"):
                assert not re.search(r"PASSWORD|SECRET|TOKEN|REDIS_URL", value)


def test_the_build_sees_what_the_wheel_is_made_of_and_nothing_else() -> None:
    build, _ = stages()
    copied = {word for name, value in build if name == "COPY" for word in value.split()[:-1]}
    lines = (ROOT / ".dockerignore").read_text().split("\n")
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)
    project = (ROOT / "pyproject.toml").read_text()
    packages = re.search(r"^include = \[(.*)\]$", project, re.MULTILINE)[1]
    assert {name.rstrip("*") for name in re.findall(r'"([^"]+)"', packages)} == {
        name for name in copied if Path(ROOT / name).is_dir()
    }
    readme, licence = (
        re.search(rf'^{key} = .*"([\w.]+)"', project, re.M)[1]
        for key in ("readme", "license-files")
    )
    assert {readme, licence} <= copied
