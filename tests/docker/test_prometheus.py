"""docker/prometheus and docker/grafana: only series that exist, and a runbook for every alert."""

import json
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml
from prometheus_client import CollectorRegistry

from aggregator.machine.embedded import EmbeddedServer
from aggregator.problems import REFUSALS
from aggregator.store.newest_releases import NewestRelease
from aggregator.watching.exposition import Figures
from aggregator.watching.metering import Meter
from client_sdk.report import REFUSAL_REASONS
from estimator.dashboard.pages import standing
from sottovoce.commands.up import METRICS_PORT
from tests.aggregator.conftest import NOW, make_world
from tests.aggregator.test_metrics import with_sealing_key
from tests.docker.conftest import DOCKER, ROOT
from tests.docker.promql import aggregated, asked

PROMETHEUS = DOCKER / "prometheus"
RULES = PROMETHEUS / "sottovoce.rules.yml"
UNIT_TESTS = sorted(PROMETHEUS.glob("*.test.yml"))
GRAFANA = json.loads((DOCKER / "grafana" / "sottovoce.json").read_text())
OPERATIONS = (ROOT / "docs" / "operations.md").read_text()
OF_PROMETHEUS = {"up": set[str](), "ALERTS": {"alertname", "alertstate", "severity"}}
OF_EVERY_SCRAPE = {"job", "instance"}

Exposed = dict[str, dict[str, set[str]]]
"""By family and by series of it: the names of its labels."""


@pytest.fixture(scope="module")
def exposed(valkey: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Exposed]:
    """What a server with everything tells."""
    with redis.Redis.from_url(valkey.url) as client:
        client.flushall()
    world = with_sealing_key(make_world(valkey.url, tmp_path_factory.mktemp("world")))
    world.charged(world.device(), world.report("theme"))
    world.folder.fold_once()
    world.store.figures.note_published({"ok": 1}, NOW)
    world.store.figures.sample_ledger(cap=10**9, cheapest=1, now=NOW, sample=random.sample)
    newest = NewestRelease("theme", "2026-W48", "2026-11-29", 500, 0.02, 0.5, alarmed=False)
    world.store.figures.newest_releases.note([newest])
    meter = Meter(CollectorRegistry())
    told = Figures(world.store, world.catalogue, world.keys, meter.collect, lambda: 0.5)
    found: Exposed = {}
    for family in told.collect():
        series = found.setdefault(family.name, {})
        for sample in family.samples:
            if not sample.name.endswith("_created"):  # not told by several processes
                series[sample.name] = series.get(sample.name, set()) | set(sample.labels)
    yield found
    world.store.close()


@cache
def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> dict[str, dict[str, Any]]:
    listed = [rule for rule in rules() if "alert" in rule]
    found = {rule["alert"]: rule for rule in listed}
    assert len(found) == len(listed), "an alert is there twice"
    return found


def panels() -> list[dict[str, Any]]:
    """Return all panels, those of collapsed rows too, and the rows."""
    top = GRAFANA["panels"]
    return [each for panel in top for each in (panel, *panel.get("panels", []))]


def graphs() -> list[dict[str, Any]]:
    return [panel for panel in panels() if panel["type"] != "row"]


def of_panels() -> list[str]:
    return [target["expr"] for panel in graphs() for target in panel["targets"]]


def of_variables() -> list[str]:
    """Return the selectors that variables take their values from, `by` the label they show."""
    queries = [v["query"]["query"] for v in GRAFANA["templating"]["list"] if v["type"] == "query"]
    found = [re.fullmatch(r"label_values\((.*), (\w+)\)", query) for query in queries]
    return [f"group by ({match[2]}) ({match[1]})" for match in found if match]


def known(exposed: Exposed) -> dict[str, set[str]]:
    """Return the labels of every series that there is, recorded ones too."""
    found = {name: labels for family in exposed.values() for name, labels in family.items()}
    found |= OF_PROMETHEUS
    for rule in rules():
        if "record" in rule:
            level, _, _ = rule["record"].partition(":")  # by Prometheus' convention its labels
            found[rule["record"]] = set(level.split("_"))
    return {name: labels | OF_EVERY_SCRAPE for name, labels in found.items()}


def expressions() -> list[str]:
    return [*(rule["expr"] for rule in rules()), *of_panels(), *of_variables()]


def test_rules_and_panels_ask_only_for_what_exists(exposed: Exposed) -> None:
    there = known(exposed)
    assert len(of_variables()) == 2
    for expression in expressions():
        wanted = asked(expression)
        assert wanted.selected.keys() <= there.keys(), expression
        for name, labels in wanted.selected.items():
            assert labels <= there[name], f"{name} has no {labels - there[name]}: {expression}"
        assert wanted.grouped <= wanted.labels(there), expression


def test_every_value_that_is_asked_for_exists() -> None:
    there = {
        "reason": {*REFUSALS, *REFUSAL_REASONS, "clone_suspected"},
        "outcome": {"accepted", "duplicate"},
        "result": {"ok", "withheld", "failed"},
    }
    seen = set()
    for expression in expressions():
        for label, text in re.findall(r'(reason|outcome|result)\s*[=!]~?\s*"(.*?)"', expression):
            assert set(text.split("|")) <= there[label], expression
            seen.add(label)
            if "unknown_metric" in text:  # all that the store counts by reason
                kept = set(text.split("|")) - {"clone_suspected"}
                assert kept == set(REFUSAL_REASONS), expression
    assert {"reason", "outcome", "result"} == seen


def test_dashboards_do_without_recorded_series_and_show_every_other(exposed: Exposed) -> None:
    shown = {name for expression in of_panels() for name in asked(expression).selected}
    assert not {rule["record"] for rule in rules() if "record" in rule} & shown
    for family, series in exposed.items():
        assert shown & series.keys(), f"{family} is on no panel"


def test_what_the_store_tells_is_never_summed_over_servers(exposed: Exposed) -> None:
    row = r"^\| `((?:ldp|dp)_\w+)(?:\{\w+(?:,\w+)*\})?` \| (\w+) \|"
    where = dict(re.findall(row, OPERATIONS, re.MULTILINE))
    family = {name: known for known, series in exposed.items() for name in series}
    seen = set()
    for expression in expressions():
        for name, how in aggregated(expression):
            place = where.get(name) or where.get(family.get(name, ""))
            if place == "store":
                assert how in ("max", "min", "group", None), f"{how} of {name}: {expression}"
            seen.add(place)
    assert {"store", "server", "both"} <= seen


def anchor(heading: str) -> str:
    """Name a heading as GitHub does."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def runbooks() -> dict[str, str]:
    """Return the sections of runbooks by their anchors."""
    parts = OPERATIONS.split("\n## Alerts\n")[1].split("\n## ")[0].split("\n### ")[1:]
    return {anchor(part.split("\n")[0]): part for part in parts}


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    named = {name: rule["annotations"]["runbook"] for name, rule in alerts().items()}
    assert named == {name: f"docs/operations.md#{anchor('Alert: ' + name)}" for name in named}
    assert {runbook.split("#")[1] for runbook in named.values()} == set(runbooks())
    headings = re.findall(r"^#+ (.*)$", OPERATIONS, re.MULTILINE)
    assert len({anchor(heading) for heading in headings}) == len(headings), (
        "an anchor is there twice"
    )


def test_alerts_and_runbooks_say_how_bad_it_is_and_what_to_do_first() -> None:
    sections = runbooks()
    for name, rule in alerts().items():
        severity, told = rule["labels"]["severity"], rule["annotations"]
        assert severity in ("page", "ticket")
        assert set(told) == {"summary", "description", "runbook"}
        assert told["description"][-1] in ".?" and told["summary"][-1] not in ".?"
        text = sections[told["runbook"].split("#")[1]]
        assert f"\n\n{severity.capitalize()}. " in text, name
        assert re.search(r"\n- \*\*First\*\*: .*\n- \*\*Then\*\*", text, re.DOTALL), name


def test_runbooks_refer_to_alerts_and_sections_that_exist() -> None:
    headings = set(re.findall(r"^#+ (.*)$", OPERATIONS, re.MULTILINE))
    for text in runbooks().values():
        assert set(re.findall(r"Sottovoce\w+", text)) <= set(alerts()), text
        for section in re.findall(r'"([A-Z][^"]+)"', text):
            assert " ".join(section.split()) in headings, section


def test_the_runbook_of_refusals_knows_every_reason() -> None:
    text = runbooks()["alert-sottovocerefusals"]
    rows = re.findall(r"^\| (`.*?) \|", text, re.MULTILINE)
    listed = [reason for row in rows for reason in re.findall(r"`(\w+)`", row)]
    ours = {"unavailable", "internal"}  # these have an alert of their own
    assert sorted(listed) == sorted({*REFUSALS, *REFUSAL_REASONS, "clone_suspected"} - ours)


def test_every_alert_is_made_to_fire_by_a_unit_test() -> None:
    fired = set()
    for path in UNIT_TESTS:
        document = yaml.safe_load(path.read_text())
        assert document["rule_files"] == [RULES.name]
        for test in document["tests"]:
            for case in test["promql_expr_test"]:
                for sample in case["exp_samples"]:
                    fired |= set(re.findall(r'alertname="(\w+)"', sample["labels"]))
    assert fired == set(alerts())


def test_the_example_of_a_scrape_fits_the_containers(compose: dict[str, Any]) -> None:
    document = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    assert document["rule_files"] == [RULES.name]
    (job,) = document["scrape_configs"]
    ((target,),) = (each["targets"] for each in job["static_configs"])
    host, port = target.split(":")
    service = compose["services"][host]
    assert int(port) == METRICS_PORT
    assert service["environment"]["SOTTOVOCE_METRICS_HOST"] == "0.0.0.0"
    assert f"SOTTOVOCE_METRICS_PORT={port}" in OPERATIONS
    # The network that the documentation names: the aggregator is on it, and the store is not.
    (network,) = re.findall(rf"docker network connect {compose['name']}_(\w+) ", OPERATIONS)
    assert network in service["networks"]
    assert network not in compose["services"]["store"]["networks"]


def everything_in(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
    for each in part.values() if isinstance(part, dict) else part:
        if isinstance(each, dict | list):
            yield from everything_in(each)


def test_the_dashboard_can_be_imported_anywhere() -> None:
    assert GRAFANA["id"] is None and GRAFANA["uid"] == "sottovoce" and GRAFANA["version"] == 1
    assert GRAFANA["timezone"] == "utc" and "sottovoce" in GRAFANA["tags"]
    assert GRAFANA["schemaVersion"] == 38
    (given,) = GRAFANA["__inputs"]
    assert (given["name"], given["pluginId"]) == ("DS_PROMETHEUS", "prometheus")
    sources = [part["datasource"] for part in everything_in(GRAFANA) if "datasource" in part]
    assert len(sources) > len(graphs())
    assert all(one == {"type": "prometheus", "uid": "${DS_PROMETHEUS}"} for one in sources)
    needed = {one["id"] for one in GRAFANA["__requires"] if one["type"] == "panel"}
    assert needed == {panel["type"] for panel in graphs()}
    variables = {one["name"]: one for one in GRAFANA["templating"]["list"]}
    assert list(variables) == ["DS_PROMETHEUS", "job", "metric"]
    assert variables["metric"]["multi"] and variables["metric"]["includeAll"]


def test_panels_are_told_apart_explained_and_in_their_place() -> None:
    numbers = [panel["id"] for panel in panels()]
    assert len(set(numbers)) == len(numbers)
    for panel in graphs():
        assert len(panel["description"]) > 20, panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["value"] is None
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs) and all(t["datasource"] for t in panel["targets"])
    assert GRAFANA["panels"][0]["type"] == "row"
    for row in (panel for panel in GRAFANA["panels"] if panel["type"] == "row"):
        assert bool(row["panels"]) == row["collapsed"], row["title"]
    taken = set()
    for panel in panels():
        if panel in GRAFANA["panels"]:  # those of collapsed rows are moved when one opens
            at = panel["gridPos"]
            cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
            assert max(x for x, _ in cells) < 24 and not cells & taken, panel["title"]
            taken |= cells


def test_rates_of_panels_fit_the_scrape_and_the_zoom() -> None:
    ranges = [one for each in of_panels() for one in re.findall(r"\brate\([^\[]*\[(.*?)\]", each)]
    assert set(ranges) == {"$__rate_interval"}
    for expression in of_panels():
        assert not re.search(r"\birate\(", expression)
        assert 'job="$job"' in expression or "ALERTS" in expression, expression


def promtool(*arguments: str | Path) -> str:
    """Run promtool; return what it says."""
    program = shutil.which("promtool")
    if program is None:
        pytest.fail(
            "promtool is not here: install Debian's package prometheus "
            "(apt-get install --no-install-recommends prometheus)"
        )
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_prometheus_takes_the_rules_and_the_example() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", RULES)
    assert "SUCCESS" in promtool("check", "config", PROMETHEUS / "prometheus.yml")


@pytest.mark.slow
@pytest.mark.parametrize("path", UNIT_TESTS, ids=lambda path: path.name)
def test_alerts_fire_on_what_is_bad_and_on_nothing_else(path: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", path)


@pytest.mark.slow
def test_panels_are_valid_expressions(tmp_path: Path) -> None:
    filled = [
        expression.replace("$__rate_interval", "5m").replace("$__range", "1d")
        for expression in of_panels()
    ]
    recorded = [{"record": f"panel:{n}", "expr": text} for n, text in enumerate(filled)]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))
    assert f"{len(filled)} rules found" in promtool("check", "rules", path)


def test_the_dashboard_and_the_alerts_go_by_the_same_limits() -> None:
    limits = {
        "SottovoceFoldLag": f"> {standing.MOST_LAG_SECONDS:g}",
        "SottovocePublishingLate": f"> {standing.MOST_LATE_SECONDS:g}",
        "SottovoceStoreMemory": f"> {standing.MOST_MEMORY:g}",
        "SottovoceBudgetExhausted": f"> {standing.MOST_EXHAUSTED:g}",
        "SottovoceLedgerScanOld": f"> {standing.MOST_SAMPLE_SECONDS:g}",
        "SottovoceKeyOld": f"> {standing.MOST_KEY_SECONDS / 86_400:g} * 86400",
        "SottovoceDiskLow": f"< {standing.LEAST_FREE_SHARE * 2:g}",
    }
    written = {rule["alert"]: rule["expr"] for rule in rules() if "alert" in rule}
    for alert, limit in limits.items():
        assert written[alert].strip().endswith(limit), alert
