"""Signed releases: what we published is recognised for ever, and nothing else is."""

import json
import os
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from aggregator.keyring.keys import Keys
from aggregator.keyring.kinds import SigningKey
from aggregator.keyring.ring import activated, retired
from client_sdk.epochs import parse
from estimator.errors import DocumentError
from estimator.estimate import estimate
from estimator.publish import publish_due
from estimator.releases import files as release_files
from estimator.releases.files import check_tables, path_of, write
from estimator.releases.release import compose
from estimator.releases.signatures import (
    KEYS_FILE,
    faults,
    read_public_keys,
    signature_of,
    write_public_keys,
)
from sottovoce.__main__ import main

WEEK = parse("week", "2026-W49")
SHARES = [0.5, 0.3, 0.2, 0]
DAY = date(2026, 12, 1)


@pytest.fixture
def keys() -> Keys:
    return Keys.fresh(DAY)


@pytest.fixture
def release(metrics, tally_of):
    theme = metrics["theme"]
    return compose(
        theme, "shop-app", WEEK, estimate(theme, tally_of(theme, 1000, SHARES)), now=1_796_600_000.0
    )


def place(release, directory: Path) -> Path:
    return path_of(directory, release.metric, release.epoch, release.fingerprint)


def problems(directory: Path, keys: Keys) -> list[str]:
    return [found.problem for found in faults(directory, keys.signing.public)]


def test_a_signed_release_verifies_and_every_change_shows(keys, release, tmp_path) -> None:
    write(release, tmp_path, keys.signing)
    assert problems(tmp_path, keys) == []
    document = place(release, tmp_path)
    content = document.read_bytes()
    for changed in (content[:-1], content.replace(b"0.95", b"0.96"), content + b" ", b""):
        document.write_bytes(changed)
        assert problems(tmp_path, keys) == ["is not what key 1 has signed"]
    document.write_bytes(content)
    other = Keys.fresh(DAY)
    assert problems(tmp_path, other) == ["is not what key 1 has signed"]
    signature_of(document).write_text("{}")
    assert problems(tmp_path, keys) == ["has a signature that cannot be read"]
    signature_of(document).unlink()
    assert problems(tmp_path, keys) == ["has no signature"]


def test_a_document_that_is_gone_is_missed(keys, release, tmp_path) -> None:
    write(release, tmp_path, keys.signing)
    place(release, tmp_path).unlink()
    assert problems(tmp_path, keys) == [
        f"is the {what} of a document that is not there" for what in ("signature", "table")
    ]


def test_a_planted_document_is_never_signed(keys, release, metrics, tally_of, tmp_path) -> None:
    """Whoever may write there puts a release in place before its epoch is due."""
    theme = metrics["theme"]
    forged = compose(
        theme, "shop-app", WEEK, estimate(theme, tally_of(theme, 900, SHARES)), now=1_796_600_000.0
    )
    write(forged, tmp_path)
    with pytest.raises(DocumentError, match="has no signature; move it away"):
        write(release, tmp_path, keys.signing)
    assert problems(tmp_path, keys) == ["has no signature"]


def test_a_signature_does_not_fit_another_release(keys, release, metrics, tally_of, tmp_path):
    theme = metrics["theme"]
    later = compose(
        theme,
        "shop-app",
        WEEK + 1,
        estimate(theme, tally_of(theme, 900, SHARES)),
        now=1_796_600_000.0,
    )
    for each in (release, later):
        write(each, tmp_path, keys.signing)
    first, second = (signature_of(place(each, tmp_path)) for each in (release, later))
    first.write_bytes(second.read_bytes())
    assert problems(tmp_path, keys) == ["is not what key 1 has signed"]


def test_a_publisher_that_died_after_signing_signs_anew(
    keys, release, metrics, tally_of, tmp_path, monkeypatch
) -> None:
    def dies(*_: object) -> bool:
        raise KeyboardInterrupt

    theme = metrics["theme"]
    other = compose(
        theme, "shop-app", WEEK, estimate(theme, tally_of(theme, 900, SHARES)), now=1_796_600_000.0
    )
    with monkeypatch.context() as patch:
        patch.setattr(release_files, "write_once", dies)
        with pytest.raises(KeyboardInterrupt):
            write(other, tmp_path, keys.signing)
    write(release, tmp_path, keys.signing)
    assert problems(tmp_path, keys) == []


def test_old_releases_verify_after_keys_were_rotated(keys, release, tmp_path) -> None:
    write(release, tmp_path, keys.signing)
    second = SigningKey.made(2, b"2" * 32, DAY)
    ring = activated(SigningKey, (*keys.signing_keys, second), 2, DAY)
    rotated = replace(keys, signing_keys=retired(SigningKey, ring, 1, DAY))
    assert problems(tmp_path, rotated) == []
    stranger = replace(rotated, signing_keys=rotated.signing_keys[1:])
    assert problems(tmp_path, stranger) == [
        "is signed by key 1, which is not among the public keys"
    ]


def test_published_releases_are_signed_and_the_public_keys_lie_beside_them(
    keys, metrics, tally_of, make_source, tmp_path
) -> None:
    source = make_source(metrics["theme"])
    source.add(metrics["theme"], WEEK, tally_of(metrics["theme"], 1000, SHARES))
    (outcome,) = publish_due(source, tmp_path, 1_800_000_000.0, signing=keys.signing)
    assert outcome.status == "OK" and problems(tmp_path, keys) == []
    assert read_public_keys(tmp_path / KEYS_FILE) == keys.signing.public


@pytest.mark.parametrize("text", ["[]", "{}", '{"version": 1, "keys": {"1": "00"}}', "x"])
def test_a_file_that_holds_no_public_keys_is_named(tmp_path, text) -> None:
    (tmp_path / KEYS_FILE).write_text(text)
    with pytest.raises(DocumentError, match="must hold public signing keys"):
        read_public_keys(tmp_path / KEYS_FILE)


def test_tables_are_held_against_their_documents(release, tmp_path) -> None:
    write(release, tmp_path)
    assert list(check_tables(tmp_path)) == []
    table = place(release, tmp_path).with_suffix(".csv")
    table.write_bytes(table.read_bytes().replace(b"theme", b"thema"))
    (found,) = check_tables(tmp_path)
    assert found.path == table and found.problem == "does not say what the document says"
    table.unlink()
    assert [found.problem for found in check_tables(tmp_path)] == ["is missing"]


def test_verify_tells_whom_it_trusts(keys, release, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOTTOVOCE_KEYS_FILE", raising=False)
    folder = tmp_path / "releases"
    write(release, folder, keys.signing)
    write_public_keys(folder, keys.signing.public)
    verify = ["releases", "verify", "--releases", str(folder)]
    assert main(verify) == 0
    told = capsys.readouterr()
    assert "1 releases, all good" in told.out and "Name another copy with --keys" in told.err
    trusted = tmp_path / "trusted.json"
    trusted.write_bytes((folder / KEYS_FILE).read_bytes())
    (folder / KEYS_FILE).unlink()
    assert main([*verify, "--keys", str(trusted), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []
    place(release, folder).write_text("{}")
    assert main([*verify, "--keys", str(trusted)]) == 1
    assert "is not what key 1 has signed" in capsys.readouterr().out
    (tmp_path / "keys.json").write_text(Keys.fresh(DAY).text())
    (tmp_path / "keys.json").chmod(0o600)
    assert main(verify) == 1  # other keys
    assert main(["releases", "theme", "--releases", str(folder), "--keys", str(trusted)]) == 2


@pytest.fixture
def source(metrics, tally_of, make_source):
    found = make_source(metrics["theme"])
    found.add(metrics["theme"], WEEK, tally_of(metrics["theme"], 1000, SHARES))
    return found


NOW = 1_800_000_000.0


def test_a_signed_release_cannot_stand_for_another_epoch(
    keys, source, metrics, tally_of, tmp_path
) -> None:
    theme = metrics["theme"]
    publish_due(source, tmp_path, NOW, signing=keys.signing)
    first, second = (
        path_of(tmp_path, "theme", f"2026-W{week}", theme.fingerprint) for week in (49, 50)
    )
    for suffix in (".json", ".sig", ".csv"):
        shutil.copy(first.with_suffix(suffix), second.with_suffix(suffix))
    (found,) = check_tables(tmp_path)
    assert found.path == second and "must be that of its name" in found.problem
    source.add(theme, WEEK + 1, tally_of(theme, 5000, [0.1, 0.1, 0.7, 0.1]))
    (outcome,) = publish_due(source, tmp_path, NOW, signing=keys.signing)
    assert outcome.status == "FAILED" and "must be that of its name" in outcome.reason


def test_a_planted_page_keeps_no_release_back(keys, source, release, tmp_path) -> None:
    page = place(release, tmp_path).with_suffix(".html")
    page.parent.mkdir()
    page.write_text("<h1>dark: 99 %</h1>")
    assert problems(tmp_path, keys) == ["is the page of a document that is not there"]
    (outcome,) = publish_due(source, tmp_path, NOW, signing=keys.signing)
    assert outcome.status == "OK" and "dark: 99 %" not in page.read_text()


def test_a_planted_table_does_not_outlive_publication(keys, source, release, tmp_path) -> None:
    table = place(release, tmp_path).with_suffix(".csv")
    table.parent.mkdir()
    table.write_text("forged")
    publish_due(source, tmp_path, NOW, signing=keys.signing)
    assert list(check_tables(tmp_path)) == [] and "forged" not in table.read_text()


def test_what_is_not_signed_is_in_no_page_and_no_index(
    keys, source, release, metrics, tally_of, tmp_path
) -> None:
    theme = metrics["theme"]
    forged = estimate(theme, tally_of(theme, 100_000, [0, 0, 0, 1.0]))
    for week in (WEEK - 1, WEEK + 1):
        planted, _ = write(compose(theme, "shop-app", week, forged, now=NOW), tmp_path)
        place(planted, tmp_path).with_suffix(".html").write_text("planted")
    (tmp_path / "theme" / "index.html").write_text("a stray page")
    (outcome,) = publish_due(source, tmp_path, NOW, signing=keys.signing)
    assert outcome.status == "OK"
    page = place(release, tmp_path).with_suffix(".html").read_text()
    index = (tmp_path / "index.html").read_text()
    assert "2026-W48" not in page
    assert "2026-W49" in index and "2026-W48" not in index and "2026-W50" not in index


def test_a_signature_is_durable_before_its_document_is_there(
    keys, source, release, tmp_path, monkeypatch
) -> None:
    synced: set[int] = set()
    fsync, link = os.fsync, os.link
    found = []

    def syncing(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def linking(draft: str, target: Path) -> None:
        if target == place(release, tmp_path):
            found.append(os.stat(signature_of(target)).st_ino in synced)
        link(draft, target)

    monkeypatch.setattr(os, "fsync", syncing)
    monkeypatch.setattr(os, "link", linking)
    publish_due(source, tmp_path, NOW, signing=keys.signing)
    assert found == [True]
