"""Pages and pictures of releases on disk, beside the documents they are drawn from.

    DIRECTORY/index.html                     all metrics, made anew with every release
    DIRECTORY/METRIC/EPOCH.FINGERPRINT.html  one release, self-contained
    DIRECTORY/METRIC/EPOCH.FINGERPRINT.shares.svg and .png, .trend.svg and .png

They can be made again from the documents; what decides is the JSON file.
"""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from estimator.releases.charts import draw, png_of
from estimator.releases.files import path_of, read
from estimator.releases.page import page, render
from estimator.releases.release import POOLED, Release
from estimator.releases.whole_files import replace

_MOST_EPOCHS = 60
"""So many epochs back a page looks, and so many the index links to for each metric."""


@dataclass(frozen=True)
class _Metric:
    """One metric's part of the index."""

    latest: Release
    link: str
    others: list[tuple[str, str]]


def page_of(directory: Path, metric: str, epoch_label: str, fingerprint: str) -> Path:
    """Return where a release's page lies."""
    return path_of(directory, metric, epoch_label, fingerprint).with_suffix(".html")


def write_pages(release: Release, directory: Path) -> None:
    """Draw a release's page and pictures; those that are there are replaced.

    The page comes last: where it is, everything is.
    """
    history = _comparable(release, directory)
    path = page_of(directory, release.metric, release.epoch, release.fingerprint)
    drawn = draw(release, history)
    for name, svg in (("shares", drawn.shares), ("trend", drawn.trend)):
        if svg is not None:
            replace(path.with_suffix(f".{name}.svg"), svg.encode())
            replace(path.with_suffix(f".{name}.png"), png_of(svg))
    replace(path, page(release, history, drawn).encode())


def write_index(directory: Path, project: str) -> None:
    """Make the list of all releases anew."""
    metrics = [
        found
        for folder in sorted(directory.iterdir())
        if folder.is_dir() and (found := _metric(folder)) is not None
    ]
    text = render("index.html", project=project, metrics=metrics)
    replace(directory / "index.html", text.encode())


def _comparable(release: Release, directory: Path) -> list[Release]:
    """Return releases of the same version up to this one, oldest first."""
    folder = directory / release.metric
    found = [read(path) for path in folder.glob(f"*.{release.fingerprint}.json")]
    before = [other for other in found if other.first_day < release.first_day]
    return [*sorted(before, key=lambda other: other.first_day)[1 - _MOST_EPOCHS :], release]


def _metric(folder: Path) -> _Metric | None:
    # A pooled release stands for its epoch; ISO names sort by time.
    names: dict[str, str] = {}
    for path in sorted(folder.glob("*.html")):
        epoch, fingerprint = path.stem.split(".")
        if fingerprint == POOLED or epoch not in names:
            names[epoch] = path.name
    if not names:
        return None
    newest, *older = sorted(names, reverse=True)[:_MOST_EPOCHS]
    links = {epoch: quote(f"{folder.name}/{name}") for epoch, name in names.items()}
    latest = read((folder / names[newest]).with_suffix(".json"))
    return _Metric(latest, links[newest], [(epoch, links[epoch]) for epoch in older])
