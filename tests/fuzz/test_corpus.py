"""All that fuzzing has found worth keeping is tried again by every run of the tests."""

from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(path for path in CORPUS.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", list(TARGETS))
def test_the_kept_corpus_breaks_no_promise(name: str) -> None:
    kept = [path for path in FILES if path.parent.name == name]
    assert len(kept) >= 10
    for path in kept:
        TARGETS[name](path.read_bytes())


def test_the_corpus_stays_small() -> None:
    assert len(FILES) < 200
    assert sum(path.stat().st_size for path in FILES) < 200_000
    assert {path.parent.name for path in FILES} == set(TARGETS)
