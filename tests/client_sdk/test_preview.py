"""The user sees the exact bytes, what they mean, and what they cost."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Client, loads
from client_sdk.preview import Preview, in_words, read

MakeClient = Callable[..., Client]
BOOLEAN = """
[metrics.crashed]
question = "Has it crashed?"
type = "boolean"
sensitivity = "product"
epsilon = 1.0
epoch = "week"
owners = ["ui-team@example.org"]
starts = 2026-12-01
expires = 2027-12-01
"""
MANY = BOOLEAN.replace("crashed", "city").replace('"boolean"', '"category"') + (
    'values = ["Ulm", "Bonn", "Kiel", "other"]\ncatch_all = "other"\n'
    'mechanism = "optimized_unary"\n'
)


def test_the_bytes_shown_are_the_bytes_that_are_sent(client_of: MakeClient, server: Any) -> None:
    server.answer = server.dead
    client = client_of()
    client.record("theme", "dark")
    before = client.preview()
    (waiting,) = before.waiting
    assert before.upload is None
    client.flush()
    (body,) = server.bodies
    assert waiting.text.encode() in body
    under_way = client.preview()
    assert under_way.upload == body
    assert [each.text for each in under_way.uploaded] == [waiting.text]
    assert under_way.waiting == ()
    server.answer = server.accepted
    assert client.flush()
    assert client.preview().upload is None
    assert server.bodies[-1] == body


def test_what_leaves_with_a_devices_first_id_is_shown(client_of: MakeClient, server: Any) -> None:
    server.enrolment = server.dead
    client = client_of()
    client.record("theme", "dark")
    (waiting,) = client.preview().waiting
    client.flush()
    preview = client.preview()
    assert (preview.upload, preview.waiting) == (None, ())
    said = preview.in_words()
    assert waiting.text in said and waiting.words in said
    assert "given the device no id yet" in said and "Nothing waits" not in said


def test_a_preview_shows_what_was_recorded_a_moment_ago(client_of: MakeClient) -> None:
    client = client_of()
    client.record("theme", "dark")
    assert len(client.preview().waiting) == 1


def test_budgets_are_shown_per_metric(
    client_of: MakeClient, registry_of: Any, tables: dict[str, str]
) -> None:
    client = client_of(registry_of(*tables.values()))
    client.record("theme", "dark")
    preview = client.preview()
    shown = {each.metric: (each.spent, each.reserved, each.left) for each in preview.budgets}
    assert shown == {"home_page": (0.0, 8.0, 8.0), "theme": (1.0, 7.0, 6.0)}
    assert (preview.spent_epsilon, preview.lifetime_epsilon) == (1.0, 100.0)
    assert "theme: epsilon 1 spent, 7 reserved, 6 left" in preview.in_words()
    assert "spent 1 of 100 lifetime epsilon" in preview.in_words()


def test_a_memoized_metric_shows_the_bound_that_covers_changes_too(
    client_of: MakeClient, registry_of: Any, tables: dict[str, str]
) -> None:
    registry = registry_of(tables["home_page"])
    client = client_of(registry)
    client.record("home_page", "example.org")
    preview = client.preview()
    (budget,) = preview.budgets
    fresh = float(registry.metrics["home_page"].mechanism.epsilon_instantaneous)
    assert budget.spent == 8.0
    assert budget.covering_changes == pytest.approx(fresh, abs=1e-5)
    assert f"{fresh:.6g} spent if when an answer changed counts too" in preview.in_words()


def words(registry: Any, name: str, response: object, **changes: Any) -> str:
    metric = registry.metrics[name]
    report = {
        "metric": name,
        "fingerprint": metric.fingerprint,
        "epoch": 2970,
        "cohort": 0,
        "response": response,
    }
    return in_words({**report, **changes}, metric)


def test_a_report_of_hashed_answers_names_all_that_share_its_cell(registry_of: Any) -> None:
    hashed = MANY.replace('"optimized_unary"', '"binary_local_hashing"')
    # Seed 2 is the number 3 and tells the parity of an index in binary, 0 to 3, from 0.
    assert words(registry_of(hashed), "city", 2 * 2 + 0).endswith("answered 'Ulm' or 'other'")
    assert words(registry_of(hashed), "city", 2 * 2 + 1).endswith("answered 'Bonn' or 'Kiel'")
    cities = "".join(f'"city {number}", ' for number in range(39))
    long = hashed.replace('"Ulm", "Bonn", "Kiel", ', cities)
    told = words(registry_of(long), "city", 0)
    assert told.endswith("'city 12' or 'city 14' or one of 12 others")


def test_reports_are_explained_with_their_deniability(
    registry_of: Any, tables: dict[str, str]
) -> None:
    registry = registry_of(BOOLEAN, MANY, tables["home_page"], tables["theme"], lifetime=200)
    may = "you may or may not have answered"
    assert words(registry, "crashed", "1") == f"crashed, week 2026-W49: {may} yes"
    assert words(registry, "crashed", "0") == f"crashed, week 2026-W49: {may} no"
    assert words(registry, "city", "3") == f"city, week 2026-W49: {may} 'Ulm' or 'Bonn'"
    assert "it names no answer" in words(registry, "city", "0")
    assert words(registry, "theme", 1, epoch=20_788) == f"theme, day 2026-12-01: {may} 'dark'"
    assert "3 of 128 bits are set" in words(registry, "home_page", f"{7:032x}", epoch=20_788)
    assert "another version" in words(registry, "theme", 1, fingerprint="0" * 16)
    once = loads(registry_of(tables["theme"], epoch='"once"').text)
    assert words(once, "theme", 1, epoch=0) == f"theme, asked once: {may} 'dark'"


def test_a_report_that_must_stay_says_until_when(
    client_of: MakeClient, registry_of: Any, tables: dict[str, str]
) -> None:
    absent = tables["theme"] + 'when_absent = "other"\n'
    client = client_of(registry_of(absent))
    client.record("theme", "dark")
    (waiting,) = client.preview().waiting
    assert waiting.words.endswith("; it stays until day 2026-12-01 is over")
    assert waiting.not_before == 1_796_083_200.0 + 86_400


def test_a_preview_never_raises_and_makes_no_state(client_of: MakeClient, tmp_path: Path) -> None:
    assert client_of().preview() == Preview(lifetime_epsilon=100.0)
    assert client_of(enabled=False).preview() == Preview(lifetime_epsilon=100.0)
    assert not (tmp_path / "state").exists()
    (tmp_path / "state").write_text("")
    broken = client_of()
    broken.record("theme", "dark")
    assert broken.preview() == Preview(lifetime_epsilon=100.0)
    assert "no state" in broken.status().summary


def test_a_preview_changes_nothing(client_of: MakeClient, tmp_path: Path) -> None:
    client = client_of()
    client.record("theme", "dark")
    first = client.preview()
    client.close(5)
    assert read(tmp_path / "state", client.registry) == first
    assert read(tmp_path / "state", client.registry) == first


def test_without_the_file_reports_are_shown_as_they_are(
    client_of: MakeClient, tmp_path: Path
) -> None:
    client = client_of()
    client.record("theme", "dark")
    client.close(5)
    preview = read(tmp_path / "state", None)
    (waiting,) = preview.waiting
    report = json.loads(waiting.text)
    assert waiting.words == f"theme, epoch number {report['epoch']}: {report['response']}"
    assert preview.lifetime_epsilon is None
    assert "This device has spent 1 lifetime epsilon." in preview.in_words()


def test_a_suspended_device_says_why(client_of: MakeClient, server: Any) -> None:
    server.answer = lambda body: server.signed(
        body, status=409, verdict="clone_suspected", reports=[]
    )
    client = client_of()
    client.record("theme", "dark")
    client.flush()
    assert "used by another copy" in client.preview().in_words()


@pytest.mark.parametrize("canary", ["CANARY-7f3a"])
def test_a_preview_does_not_know_the_value(
    canary: str, client_of: MakeClient, registry_of: Any, tables: dict[str, str]
) -> None:
    client = client_of(registry_of(*tables.values()))
    client.record("home_page", canary)
    client.record("theme", canary)
    preview = client.preview()
    assert canary not in repr(preview) + preview.in_words() + json.dumps(preview.as_json())
