"""Signed releases: what we published is recognised for ever, and nothing else is."""

import json
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
    return compose(theme, "shop-app", WEEK, estimate(theme, tally_of(theme, 1000, SHARES)))


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
    assert problems(tmp_path, keys) == ["is the signature of a document that is gone"]


def test_a_planted_document_is_never_signed(keys, release, metrics, tally_of, tmp_path) -> None:
    """Whoever may write there puts a release in place before its epoch is due."""
    theme = metrics["theme"]
    forged = compose(theme, "shop-app", WEEK, estimate(theme, tally_of(theme, 900, SHARES)))
    write(forged, tmp_path)
    with pytest.raises(DocumentError, match="has no signature; move it away"):
        write(release, tmp_path, keys.signing)
    assert problems(tmp_path, keys) == ["has no signature"]


def test_a_signature_does_not_fit_another_release(keys, release, metrics, tally_of, tmp_path):
    theme = metrics["theme"]
    later = compose(theme, "shop-app", WEEK + 1, estimate(theme, tally_of(theme, 900, SHARES)))
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
    other = compose(theme, "shop-app", WEEK, estimate(theme, tally_of(theme, 900, SHARES)))
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
