"""docker/example.env: every setting that there is, with its true default, and no other."""

import re
from pathlib import Path

from aggregator import settings as server
from aggregator.settings import ServerSettings
from estimator import settings as notifications
from estimator.settings import NotifySettings
from sottovoce.system import RELEASES_VARIABLE
from tests.docker.conftest import DOCKER, PASSWORD, composed, variables

EXAMPLE = DOCKER / "example.env"


def documented() -> set[str]:
    """Return the variables that the settings' modules name."""
    texts = (server.__doc__ or "", notifications.__doc__ or "")
    return {name for text in texts for name in re.findall(r"^([A-Z_]{6,})\b", text, re.MULTILINE)}


def of_compose() -> dict[str, str]:
    """Return what compose.yaml asks for, with its defaults."""
    text = (DOCKER / "compose.yaml").read_text()
    found = set(re.findall(r"\$\{(\w+):[-?]([^}]*)\}", text))
    assert len({name for name, _ in found}) == len(found)
    return dict(found)


def test_it_lists_every_setting_and_no_other() -> None:
    assert variables(EXAMPLE).keys() == documented() | {RELEASES_VARIABLE} | of_compose().keys()


def test_each_has_one_line_that_explains_it() -> None:
    lines = EXAMPLE.read_text().splitlines()
    for before, told, line in zip(lines, lines[1:], lines[2:], strict=False):
        if re.match(r"#?[A-Z_]+=", line):
            assert told.startswith("# ") and told.endswith("."), line
            assert not before.startswith("# "), line


def test_only_the_password_is_to_be_set() -> None:
    assert variables(EXAMPLE, pattern="") == {"STORE_PASSWORD": ""}


def test_the_defaults_are_the_real_ones() -> None:
    shown = variables(EXAMPLE)
    given = {name: shown[name] for name in shown.keys() & documented()}
    assert given.pop("SOTTOVOCE_LOG_FORMAT") == "json"  # where no terminal is
    assert ServerSettings.from_env(given) == ServerSettings()
    assert NotifySettings.from_env(given) == NotifySettings()
    for name, default in of_compose().items():
        if name != "STORE_PASSWORD":
            assert shown[name] == default


def test_what_compose_sets_itself_is_said_to_be_so() -> None:
    whole = EXAMPLE.read_text()
    fixed = variables_in(whole[whole.index("# Set by compose.yaml") :])
    services = composed(STORE_PASSWORD=PASSWORD)["services"]
    assert fixed == {
        name
        for key, service in services.items()
        if key != "store"
        for name in service.get("environment", {})
    }


def variables_in(text: str) -> set[str]:
    return set(re.findall(r"^#?([A-Z_]+)=", text, re.MULTILINE))


def test_the_file_with_the_password_is_not_committed() -> None:
    ignored = (Path(DOCKER).parent / ".gitignore").read_text().split()
    assert {"docker/.env", "docker/tls/", "docker/metrics.toml"} <= set(ignored)
