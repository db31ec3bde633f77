"""What is known of releases from their file names alone."""

import os
from pathlib import Path

import pytest

from estimator.dashboard.looking_ahead import look
from estimator.dashboard.published import Published
from estimator.dashboard.shelf import Shelf
from tests.estimator.dashboard.conftest import Desk

PRINT = "0123456789abcdef"


def put(directory: Path, *names: str) -> None:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def age(folder: Path, seconds: float) -> None:
    then = folder.stat().st_mtime - seconds
    os.utime(folder, (then, then))


def test_only_releases_are_seen(tmp_path: Path) -> None:
    put(
        tmp_path,
        "index.html",
        ".publishing.lock",
        f"theme/2026-W49.{PRINT}.json",
        f"theme/2026-W49.{PRINT}.csv",
        f"theme/2026-W49.{PRINT}.shares.svg",
        "theme/2026-W49.pooled.json",
        f"theme/2026-W54.{PRINT}.json",
        f"theme/2026-02-30.{PRINT}.json",
        f"theme/2026-13.{PRINT}.json",
        "theme/.unfinished-3x.json",
        "theme/2026-W49.other.json",
        f"Theme/2026-W49.{PRINT}.json",
    )
    shelf = Shelf(tmp_path)
    assert shelf.metrics() == ["theme"]
    assert [(e.epoch, e.fingerprint, e.first_day) for e in shelf.entries("theme")] == [
        ("2026-W49", PRINT, "2026-11-30"),
        ("2026-W49", "pooled", "2026-11-30"),
    ]


def test_releases_are_in_order_of_time_whatever_their_epochs_are_called(tmp_path: Path) -> None:
    names = ("2026-12", "2026-12-02", "2026-W49", "2026-W50", "2025-W01")
    put(tmp_path, *(f"theme/{name}.{PRINT}.json" for name in names))
    epochs = [entry.epoch for entry in Shelf(tmp_path).entries("theme")]
    assert epochs == ["2025-W01", "2026-W49", "2026-12", "2026-12-02", "2026-W50"]


def test_what_is_published_is_seen_at_once_and_a_folder_is_not_looked_through_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    scandir = os.scandir

    def counted(path: Path) -> object:
        looks.append(Path(path).name)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", counted)
    put(tmp_path, f"theme/2026-W49.{PRINT}.json")
    shelf = Shelf(tmp_path)
    age(tmp_path / "theme", 60)
    assert [len(shelf.entries("theme")) for _ in range(5)] == [1] * 5
    assert looks == ["theme"]
    put(tmp_path, f"theme/2026-W50.{PRINT}.json")
    assert len(shelf.entries("theme")) == 2


def test_a_folder_that_has_just_changed_is_not_taken_for_settled(tmp_path: Path) -> None:
    """A second file in the same tick of the file system's clock leaves no trace in it."""
    put(tmp_path, f"theme/2026-W49.{PRINT}.json")
    shelf = Shelf(tmp_path)
    folder = tmp_path / "theme"
    changed = folder.stat().st_mtime_ns
    assert len(shelf.entries("theme")) == 1
    put(tmp_path, f"theme/2026-W50.{PRINT}.json")
    os.utime(folder, ns=(changed, changed))
    assert len(shelf.entries("theme")) == 2


def test_a_text_that_names_no_metric_reaches_no_file(tmp_path: Path) -> None:
    put(tmp_path, f"secret/2026-W49.{PRINT}.json", "releases/theme/x")
    shelf = Shelf(tmp_path / "releases")
    for name in (
        "../secret",
        "..",
        "",
        "theme/../../secret",
        "/etc",
        "Theme",
        "theme\0",
        "theme\n",
    ):
        assert shelf.entries(name) == ()
    assert shelf.metrics() == ["theme"]
    assert Shelf(tmp_path / "nowhere").metrics() == []
    assert Shelf(tmp_path / "nowhere").entries("theme") == ()


def test_looking_ahead_reads_what_the_overview_asks_for_and_one_bad_file_hides_no_other(
    full: Desk,
) -> None:
    def kept(after: Published) -> int:
        return after._read.cache_info().currsize

    published = Published(Shelf(full.releases))
    look(published)
    assert kept(published) == 3
    latest = [published.latest(name) for name in published.metrics()]
    assert [(release.metric, release.epoch) for release in latest if release] == [
        ("home_page", "2026-12-02"),
        ("smokes", "once"),
        ("theme", "2026-W51"),
    ]
    assert kept(published) == 3
    for path in full.releases.glob("home_page/2026-12-02.*.json"):
        path.write_text("{}")
    anew = Published(Shelf(full.releases))
    look(anew)
    assert kept(anew) == 2
