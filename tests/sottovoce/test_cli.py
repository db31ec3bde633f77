"""The command line: parsing, wiring and printing."""

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from client_sdk.mechanisms import GeneralizedRandomizedResponse
from sottovoce.__main__ import COMMANDS, main, parser_for

METRICS = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 100
contact = "telemetry@example.org"
[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "other"]
catch_all = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "week"
owners = ["ui-team@example.org"]
starts = 2026-11-02
expires = {expires}
[metrics.tour]
question = "Was the tour finished?"
type = "boolean"
sensitivity = "product"
epsilon = 2
epoch = "once"
owners = ["ui-team@example.org"]
starts = 2026-11-02
expires = {expires}
"""


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    path = tmp_path / "metrics.toml"
    path.write_text(METRICS.format(expires="2028-01-01"))
    return path


def document(tmp_path: Path, **changes: object) -> str:
    path = tmp_path / "tally.json"
    metric = {
        "type": "category",
        "values": ["a", "b", "c", "d", "e"],
        "mechanism": {"name": "generalized_randomized_response", "epsilon": 1.0},
    }
    counts = [[400, 165, 150, 145, 140]]
    path.write_text(json.dumps({"metric": metric, "reports": [1000], "counts": counts} | changes))
    return str(path)


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_has_help_that_says_more_than_its_line(name, capsys):
    assert len(parser_for(name).format_help()) > len(COMMANDS[name]) + 100
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"sottovoce {name}" in capsys.readouterr().out


def test_every_command_module_is_listed():
    folder = Path(import_module("sottovoce.commands").__path__[0])
    assert {path.stem for path in folder.glob("[a-z]*.py")} == set(COMMANDS)


def test_an_unknown_command_is_refused():
    with pytest.raises(SystemExit) as ended:
        main(["tell-me"])
    assert ended.value.code == 2


def test_help_lists_every_command_once_by_who_uses_it(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0 and "see below" not in shown
    listed = [line.split()[0] for line in shown.splitlines() if line.startswith("  ")]
    assert sorted(name for name in listed if name in COMMANDS) == sorted(COMMANDS)
    for title in ("app developers", "operators", "analysts"):
        assert f"for {title}:" in shown


def test_without_a_command_help_is_printed_and_the_status_says_that_nothing_ran(capsys):
    assert main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith("usage: sottovoce COMMAND")
    assert all(name in printed.err for name in COMMANDS)


def test_check_explains_what_a_file_costs(metrics, capsys):
    assert main(["check", str(metrics), "--explain", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    theme, tour = found["metrics"]
    assert theme["mechanism"] == "generalized_randomized_response"
    assert (tour["mechanism"], tour["share"], tour["epsilon"]) == ("randomized_response", 2, 2)
    # q(1-q)/n/(p-q)^2 with p, q of k-RR at epsilon 1 and d 3 (reference 0.2), n = 10,000.
    law = GeneralizedRandomizedResponse.from_epsilon(3, 1)
    p, q = float(law.p_true), float(law.p_false)
    expected = (q * (1 - q) / 10_000) ** 0.5 / (p - q)
    assert theme["standard_error_of_a_rare_value"] == pytest.approx(expected)


def test_check_prints_a_table_for_people(metrics, capsys):
    assert main(["check", str(metrics), "--explain"]) == 0
    shown = capsys.readouterr().out
    assert "theme" in shown and "generalized_randomized_response" in shown


def test_check_fails_for_a_metric_that_has_expired(metrics, capsys):
    metrics.write_text(METRICS.format(expires="2026-11-09"))
    assert main(["check", str(metrics)]) == 1
    assert "metrics.theme.expires" in capsys.readouterr().err


def test_a_broken_rule_is_named_with_key_and_value(metrics, capsys):
    metrics.write_text(metrics.read_text().replace("epsilon = 1.0", "epsilon = -1.0"))
    assert main(["check", str(metrics)]) == 2
    shown = capsys.readouterr().err
    assert "metrics.theme.epsilon" in shown and "positive" in shown and "-1.0" in shown


def test_a_missing_file_is_an_error_not_a_traceback(tmp_path, capsys):
    assert main(["check", str(tmp_path / "none.toml")]) == 2
    assert f"{tmp_path / 'none.toml'} cannot be read: no such file\n" in capsys.readouterr().err


def test_audit_finds_the_shipped_code_sound(metrics, capsys):
    assert main(["audit", str(metrics), "--json"]) == 0
    for entry in json.loads(capsys.readouterr().out):
        assert entry["sound"] and entry["found"] <= entry["configured"]


def test_audit_prints_a_table_for_people(metrics, capsys):
    assert main(["audit", str(metrics)]) == 0
    assert "sound" in capsys.readouterr().out


def test_estimate_gives_the_raw_shares_of_a_published_case(tmp_path, capsys):
    # Case C07: clipping libraries publish .9355 and 0 here; the unbiased values are these.
    assert main(["estimate", document(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    shares = [entry["share"] for entry in found["estimates"]]
    assert shares == pytest.approx([0.98198, 0.06315, 0.00451, -0.01504, -0.03459], abs=5e-6)
    consistent = [entry["consistent"] for entry in found["estimates"]]
    assert consistent == pytest.approx([0.95941, 0.04059, 0, 0, 0], abs=5e-6)


def test_estimate_prints_a_table_for_people(tmp_path, capsys):
    assert main(["estimate", document(tmp_path), "--level", "0.9"]) == 0
    shown = capsys.readouterr().out
    assert "90 % interval" in shown and "-3.46 %" in shown


def test_estimate_prints_quantiles_of_a_number(tmp_path, capsys):
    metric = {
        "type": "number",
        "values": ["short", "middling", "long"],
        "edges": [0, 10, 20, 60],
        "mechanism": {"name": "optimized_unary", "epsilon": 3.0},
    }
    path = document(tmp_path, metric=metric, counts=[[275, 275, 60]])
    assert main(["estimate", path]) == 0
    *_, header, _, first, second, median, third, last, _ = capsys.readouterr().out.splitlines()
    assert header.startswith("figure") and header.endswith("95 % interval")
    lines = (first, second, median, third, last)
    assert [line.split()[1] for line in lines] == ["0.05", "0.25", "0.5", "0.75", "0.95"]
    assert "[0, 10]" in second and "[0, 20]" in median


def test_estimate_says_what_an_interval_does_not_cover(tmp_path, capsys):
    metric = {
        "type": "ordinal",
        "values": [1, 2, 3],
        "mechanism": {"name": "square_wave", "epsilon": 3.0, "half_width": 1},
    }
    path = document(tmp_path, metric=metric, counts=[[275, 275, 200, 150, 100]])
    assert main(["estimate", path]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("method: biased") and "what smoothing levels out" in last


def test_tables_use_the_words_of_release_files(tmp_path, capsys):
    metric = {
        "type": "string",
        "candidates": ["a", "b"],
        "mechanism": {
            "name": "rappor",
            "bits": 8,
            "hashes": 2,
            "cohorts": 1,
            "epsilon": 1.0,
            "epsilon_permanent": 2.0,
        },
    }
    path = document(tmp_path, metric=metric, counts=[[400, 300, 350, 360, 350, 340, 350, 370]])
    assert main(["estimate", path]) == 0
    header, *rows, _ = capsys.readouterr().out.splitlines()[1:]
    assert header.split()[:2] == ["value", "estimate"] and header.split()[-1] == "significant"
    assert rows[-1].startswith("(not listed)")


def test_a_gap_is_not_a_zero(tmp_path, capsys):
    path = document(tmp_path, reports=[0], counts=[[0] * 5])
    assert main(["estimate", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["estimates"][0]["share"] is None
    assert main(["estimate", path]) == 0
    assert "0.00 %" not in capsys.readouterr().out


def test_a_bad_tally_document_is_refused_by_field(tmp_path, capsys):
    assert main(["estimate", document(tmp_path, counts=[[400, 165, 150, 145, 141]])]) == 2
    assert "counts[0]" in capsys.readouterr().err


def test_releases_needs_a_directory(tmp_path, capsys):
    assert main(["releases", "--releases", str(tmp_path / "none")]) == 2
    assert "SOTTOVOCE_RELEASES" in capsys.readouterr().err


def test_server_commands_say_which_setting_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("REDIS_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(["publish"]) == 2
    assert "key" in capsys.readouterr().err


def test_device_commands_work_without_the_server_parts(metrics):
    blocked = "import sys\nfor name in ('numpy', 'scipy', 'flask', 'redis', 'gunicorn'):\n"
    blocked += "    sys.modules[name] = None\n"
    blocked += "from sottovoce.__main__ import main\nsys.exit(main(sys.argv[1:]))\n"
    for command, status in (("check", 0), ("audit", 0), ("estimate", 2)):
        done = subprocess.run(
            [sys.executable, "-c", blocked, command, str(metrics)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
    assert "sottovoce[server]" in done.stderr


def test_audit_writes_several_answers_as_populations_do(tmp_path, capsys):
    path = tmp_path / "metrics.toml"
    path.write_text(
        METRICS.partition("[metrics.")[0]
        + """
[metrics.rights]
question = "Which rights are granted?"
type = "multi_select"
values = ["camera", "gps", "mail"]
most = 2
sensitivity = "product"
epsilon = 2.0
epoch = "once"
starts = 2026-11-02
expires = 2027-11-02
"""
    )
    assert main(["audit", str(path), "--empirical", "--reports", "40"]) == 0
    assert " camera|gps / gps|mail " in capsys.readouterr().out
