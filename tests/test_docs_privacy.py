"""Figures of docs/privacy.md are computed."""

import math
import re
from pathlib import Path

import pytest

from client_sdk.accounting import DELTA, account
from client_sdk.mechanisms import build

PAGE = (Path(__file__).parent.parent / "docs" / "privacy.md").read_text()
ROWS = re.findall(r"^\| (\d+) of `(\w+)`, epsilon (\S+) \| (\S+) \| (\S+) \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:3]))
def test_what_many_reports_reveal_together_is_computed(row: tuple[str, ...]) -> None:
    reports, name, epsilon, enforced, together = row
    domain = 2 if name == "randomized_response" else 10
    found = account([(build(name, domain=domain, epsilon=epsilon), int(reports))])
    assert found.enforced == round(float(enforced) * 1e6)
    assert together == f"{math.ceil(100 * found.epsilon) / 100:.2f}"  # a bound, rounded up
    assert found.delta == DELTA == 1e-6


def test_the_table_shows_small_and_large_epsilons_and_more_than_one_mechanism() -> None:
    assert len(ROWS) >= 5
    assert len({row[1] for row in ROWS}) >= 3
