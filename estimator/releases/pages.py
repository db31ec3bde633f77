"""Pages and pictures of releases on disk, beside the documents they are drawn from.

    DIRECTORY/index.html                     all metrics, made anew with every release
    DIRECTORY/METRIC/EPOCH.FINGERPRINT.html  one release, self-contained
    DIRECTORY/METRIC/EPOCH.FINGERPRINT.shares.svg and .png, .trend.svg and .png; of numbers
        .number.svg and .png, .number-trend.svg and .png

They can be made again from the documents; what decides is the JSON file.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from estimator.drawing import png_of
from estimator.releases.drawn import draw
from estimator.releases.files import path_of, read
from estimator.releases.page import page, render
from estimator.releases.release import POOLED, Release
from estimator.releases.signatures import fault_of
from estimator.releases.whole_files import replace

PublicKeys = Mapping[int, bytes] | None
"""Ed25519 public keys by id."""

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


def write_pages(release: Release, directory: Path, public: PublicKeys = None) -> None:
    """Draw a release's page and pictures; those that are there are replaced.

    The page comes last: where it is, everything is.

    Args:
        release: What the page is about.
        directory: Of the releases.
        public: Keys that earlier releases must be signed with to be shown beside it; None: all are.
    """
    history = _comparable(release, directory, public)
    path = page_of(directory, release.metric, release.epoch, release.fingerprint)
    drawn = draw(release, history)
    for name, svg in drawn.by_name():
        replace(path.with_suffix(f".{name}.svg"), svg.encode())
        replace(path.with_suffix(f".{name}.png"), png_of(svg))
    replace(path, page(release, history, drawn).encode())


def write_index(directory: Path, project: str, public: PublicKeys = None) -> None:
    """Make the list of all releases anew, of those that `public` keys have signed."""
    metrics = [
        found
        for folder in sorted(directory.iterdir())
        if folder.is_dir() and (found := _metric(folder, public)) is not None
    ]
    text = render("index.html", project=project, metrics=metrics)
    replace(directory / "index.html", text.encode())


def _comparable(release: Release, directory: Path, public: PublicKeys) -> list[Release]:
    """Return releases of the same version up to this one, oldest first."""
    folder = directory / release.metric
    # ISO names sort by time, as those of one version do.
    paths = sorted(folder.glob(f"*.{release.fingerprint}.json"))[-2 * _MOST_EPOCHS :]
    found = [read(path) for path in paths if _is_ours(path, public)]
    before = [other for other in found if other.first_day < release.first_day]
    return [*before[1 - _MOST_EPOCHS :], release]


def _metric(folder: Path, public: PublicKeys) -> _Metric | None:
    # A pooled release stands for its epoch.
    chosen: dict[str, Path] = {}
    for path in sorted(folder.glob("*.*.json")):
        epoch, _, fingerprint = path.stem.partition(".")
        if path.with_suffix(".html").exists() and (fingerprint == POOLED or epoch not in chosen):
            chosen[epoch] = path
    newest = sorted(chosen, reverse=True)[:_MOST_EPOCHS]
    ours = [epoch for epoch in newest if _is_ours(chosen[epoch], public)]
    if not ours:
        return None
    links = [(epoch, quote(f"{folder.name}/{chosen[epoch].stem}.html")) for epoch in ours]
    return _Metric(read(chosen[ours[0]]), links[0][1], links[1:])


def _is_ours(path: Path, public: PublicKeys) -> bool:
    return public is None or fault_of(path, public) is None
