"""`sottovoce monitor`: what an operator, or cron, is told about releases on disk."""

import json
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from aggregator.tally import Tally
from client_sdk import loads
from client_sdk.epochs import parse
from estimator.canary import monitor, truth
from estimator.estimate import estimate
from estimator.plausibility import Plausibility
from estimator.releases.files import write
from estimator.releases.release import compose
from sottovoce.__main__ import main
from tests.sottovoce.canaries import APPS, NAMES, pairs, registry

TODAY = date(2026, 12, 1)


def released(folder: Path, name: str, n: int = 200, epochs: int = 3) -> None:
    """Releases of a canary metric on disk, with the truth beside them."""
    for release, known in pairs(registry().metrics[name], n, epochs, seed=11):
        write(release, folder)
        truth.write(replace(known, begun=n, delivered=n), folder)


def theme(folder: Path, counts: list[int], plausibility: Plausibility | None = None) -> None:
    metric = loads(APPS).metrics["theme"]
    tally = Tally(np.array([sum(counts)]), np.array([counts]))
    epoch = parse("week", "2026-W48")
    write(
        compose(
            metric, "shop-app", epoch, estimate(metric, tally), plausibility, now=1_796_600_000.0
        ),
        folder,
    )


def row(folder: Path, target: float = 0.01) -> monitor.Row:
    (found,) = monitor.survey(folder, TODAY, target)
    return found


def test_without_alarms_the_status_is_zero_and_every_metric_is_told(tmp_path, capsys):
    theme(tmp_path, [5000, 4000, 3000])
    for name in NAMES:
        released(tmp_path, name)
    assert main(["monitor", "--releases", str(tmp_path)]) in (0, 1)  # the clock is a later day's
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("theme", *NAMES)) and "as stated" in shown
    rows = monitor.survey(tmp_path, TODAY, 0.01)
    assert [each.alarms for each in rows] == [()] * 5  # fixed seeds
    assert [each.score is not None for each in rows] == [True] * 4 + [False]


def test_the_reports_needed_for_a_target_follow_from_the_widest_interval(tmp_path):
    theme(tmp_path, [5000, 4000, 3000])
    found = row(tmp_path)
    metric = loads(APPS).metrics["theme"]
    more = round(found.n_needed / 12_000 * 1000)
    bigger = estimate(metric, Tally(np.array([12 * more]), more * np.array([[5, 4, 3]])))
    widest = max((e.interval[1] - e.interval[0]) / 2 for e in bigger.entries)
    assert widest == pytest.approx(0.01, rel=0.001)
    assert row(tmp_path, 0.02).n_needed == pytest.approx(found.n_needed / 4, rel=0.001)
    assert found.negative_mass == 0 and found.negative_mass_p == 1 and found.design_effect > 1


def test_reports_that_no_honest_devices_send_are_alarming(tmp_path, capsys):
    # Only "light" is ever reported, though p_false of the rest would pass.
    theme(tmp_path, [4000, 0, 0])
    assert main(["monitor", "--releases", str(tmp_path), "--json"]) == 1
    (found,) = json.loads(capsys.readouterr().out)
    assert found["negative_mass"] > 10 * found["negative_mass_expected"]
    assert found["negative_mass_p"] < 1e-9
    assert "reports do not follow the mechanism" in found["alarms"][0]
    assert main(["monitor", "--releases", str(tmp_path)]) == 1
    assert "ALARM theme: estimates are" in capsys.readouterr().out


def test_alarms_of_the_release_itself_are_told(tmp_path):
    theme(tmp_path, [5000, 4000, 3000], Plausibility(9.0, 1e-18, None))
    (alarm,) = row(tmp_path).alarms
    assert "do not look like those of honest devices (p = 1e-18)" in alarm


@pytest.mark.parametrize(
    ("begun", "delivered", "alarm"),
    [
        (200, 200, None),
        (300, 150, None),  # some were under way when the canary died
        (250, 203, "3 of 203 acknowledged reports are missing"),
        (190, 190, "200 reports of 190 devices"),
    ],
)
def test_reports_that_are_missing_or_too_many_are_alarming(tmp_path, begun, delivered, alarm):
    ((release, known),) = pairs(registry().metrics["canary.yes_no"], 200, 1, seed=12)
    write(release, tmp_path)
    truth.write(replace(known, begun=begun, delivered=delivered), tmp_path)
    found = row(tmp_path).alarms
    assert found == () if alarm is None else alarm in found[0]


def test_a_day_that_is_never_released_is_alarming(tmp_path):
    ((_, known),) = pairs(registry().metrics["canary.yes_no"], 200, 1, seed=13)
    truth.write(replace(known, begun=200, delivered=200), tmp_path)
    (found,) = monitor.survey(tmp_path, date(2026, 11, 3), 0.01)
    assert "2026-11-01 is not released" in found.alarms[0]
    assert monitor.survey(tmp_path, date(2026, 11, 2), 0.01) == []


def test_a_withheld_release_shows_no_figure(tmp_path, capsys):
    theme(tmp_path, [10, 10, 10])
    assert main(["monitor", "--releases", str(tmp_path)]) == 0
    assert "n < min" in capsys.readouterr().out
    found = row(tmp_path)
    assert (found.n, found.half_width, found.negative_mass) == (None, None, None)


def test_what_is_not_there_or_no_truth_is_named(tmp_path, capsys):
    assert main(["monitor", "--releases", str(tmp_path / "none")]) == 2
    assert main(["monitor", "--releases", str(tmp_path), "--target", "0"]) == 2
    assert main(["monitor", "--releases", str(tmp_path)]) == 0
    assert "Nothing is released yet." in capsys.readouterr().out
    (tmp_path / "canary.yes_no").mkdir()
    (tmp_path / "canary.yes_no" / "2026-11-01.0123456789abcdef.truth").write_text('{"schema": 2}')
    assert main(["monitor", "--releases", str(tmp_path)]) == 2
    assert "must be a truth" in capsys.readouterr().err
