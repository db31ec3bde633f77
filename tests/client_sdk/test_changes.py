"""What an edited metrics.toml does to devices and releases is said in words, and is true."""

from pathlib import Path
from typing import Any

import pytest

from client_sdk import Registry, loads
from client_sdk.changes import changes
from client_sdk.review import Finding
from client_sdk.testing import ClientFactory, FakeClock

OLD = """
schema = 1
[project]
name = "shop-app"
lifetime_epsilon = 40
window = { days = 7, epsilon = 4 }
seal = { key = 1, public = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a" }
contact = "telemetry@example.org"

[metrics.theme]
question = "Which theme is active?"
type = "category"
values = ["light", "dark", "other"]
catch_all = "other"
missing = "other"
sensitivity = "product"
epsilon = 1.0
epoch = "week"
every = 4
sample = 0.5
when_absent = "other"
min_reports = 200
grace = 4
starts = 2026-12-07
expires = 2027-12-06

[metrics.home_page]
question = "Which site is the start page?"
type = "string"
sensitivity = "location"
epsilon = 1.0
memoize = { epsilon_permanent = 4.0, distinct_values = 2 }
rappor = { bits = 128, hashes = 2, cohorts = 64 }
epoch = "week"
starts = 2026-12-07
expires = 2027-12-06

[metrics.load_seconds]
question = "How many seconds does a page take?"
type = "number"
range = [0, 10]
buckets = 5
missing = 0
sensitivity = "product"
epsilon = 1.0
epoch = "once"
starts = 2026-12-07
expires = 2027-12-06
"""
HOME_PAGE = OLD[OLD.index("[metrics.home_page]") : OLD.index("[metrics.load_seconds]")]


def edited(*edits: tuple[str, str]) -> Registry:
    text = OLD
    for before, after in edits:
        assert before in text
        text = text.replace(before, after)
    return loads(text)


def found(*edits: tuple[str, str]) -> list[Finding]:
    return changes(loads(OLD), edited(*edits))


def test_the_same_file_changes_nothing() -> None:
    assert found() == []


@pytest.mark.parametrize(
    "edit",
    [
        ("telemetry@example.org", "privacy@example.org"),
        ("min_reports = 200", "min_reports = 300"),
        ("grace = 4", "grace = 7"),
        ("key = 1", "key = 2"),
        ("lifetime_epsilon = 40", "lifetime_epsilon = 40.0"),
        ("window = { days = 7, epsilon = 4 }", "window = { days = 14, epsilon = 4 }"),
        ('epoch = "week"\nevery', 'owners = ["a@example.org"]\nepoch = "week"\nevery'),
        (
            'epsilon = 1.0\nmemoize',
            'epsilon = 1.0\ncandidates = ["https://example.org"]\nmemoize',
        ),
        (
            "[metrics.home_page]",
            '[metrics.tour]\nquestion = "Was the tour finished?"\ntype = "boolean"\n'
            'sensitivity = "product"\nepsilon = 1\nepoch = "once"\nstarts = 2026-12-07\n'
            "expires = 2027-01-07\n[metrics.home_page]",
        ),
    ],
)  # fmt: skip
def test_what_breaks_nothing_is_not_reported(edit: tuple[str, str]) -> None:
    assert found(edit) == []


SEAL = OLD[OLD.index("seal = ") : OLD.index("contact")]
"""The key is Alice's of RFC 7748, 6.1."""


@pytest.mark.parametrize(
    ("rule", "level", "key", "words", "edits"),
    [
        pytest.param(*case[:4], case[4:], id=f"{case[0]}-{number}")
        for number, case in enumerate(
            [
                ("project_renamed", "error", "project.name", "whole lifetime budget",
                 ("shop-app", "shop")),
                ("lifetime_raised", "error", "project.lifetime_epsilon", "from 40 to 41",
                 ("lifetime_epsilon = 40", "lifetime_epsilon = 41")),
                ("lifetime_lowered", "note", "project.lifetime_epsilon", "falls silent",
                 ("lifetime_epsilon = 40", "lifetime_epsilon = 39")),
                ("window_weakened", "error", "project.window", "the promise is gone",
                 ("window = { days = 7, epsilon = 4 }\n", "")),
                ("window_weakened", "error", "project.window", "now it is 5 in any 7",
                 ("days = 7, epsilon = 4", "days = 7, epsilon = 5")),
                ("window_weakened", "error", "project.window", "now it is 4 in any 3",
                 ("days = 7, epsilon = 4", "days = 3, epsilon = 4")),
                ("seal_removed", "error", "project.seal", "ends TLS",
                 (SEAL, "")),
                ("removed", "note", "metrics.home_page", "what was spent stays spent",
                 (HOME_PAGE, "")),
                ("new_fingerprint", "note", "metrics.theme", "values added (blue)",
                 ('"dark", "other"]', '"dark", "blue", "other"]')),
                ("new_fingerprint", "note", "metrics.theme", "values removed (light)",
                 ('["light", "dark", ', '["dark", ')),
                ("new_fingerprint", "note", "metrics.theme", "values in another order",
                 ('"light", "dark"', '"dark", "light"')),
                ("new_fingerprint", "note", "metrics.load_seconds", "other buckets",
                 ("buckets = 5", "buckets = 4")),
                ("new_fingerprint", "note", "metrics.load_seconds", "type number becomes boolean",
                 ('"number"\nrange = [0, 10]\nbuckets = 5\nmissing = 0', '"boolean"')),
                ("new_reservation", "error", "metrics.home_page.memoize",
                 "a new reservation of 8 epsilon", ("bits = 128", "bits = 256")),
                ("new_reservation", "error", "metrics.home_page.memoize",
                 "fresh permanent noise", ("epsilon_permanent = 4.0", "epsilon_permanent = 3.0")),
                ("epoch", "note", "metrics.home_page.epoch", "again for the same days",
                 (HOME_PAGE, HOME_PAGE.replace('"week"', '"month"'))),
                ("sample", "note", "metrics.theme.sample", "who took part still does",
                 ("sample = 0.5", "sample = 0.6")),
                ("sample", "note", "metrics.theme.sample", "some fall silent",
                 ("sample = 0.5", "sample = 0.4")),
                ("when_absent", "note", "metrics.theme.when_absent", "different devices",
                 ('when_absent = "other"\n', "")),
                ("life_shortened", "note", "metrics.theme.expires", "2026-12-07 to 2027-11-07",
                 ("grace = 4\nstarts = 2026-12-07\nexpires = 2027-12-06",
                  "grace = 4\nstarts = 2026-12-07\nexpires = 2027-11-08")),
                ("life_shortened", "note", "metrics.theme.starts", "2027-01-04 to 2027-12-05",
                 ("grace = 4\nstarts = 2026-12-07", "grace = 4\nstarts = 2027-01-04")),
                ("share_raised", "note", "metrics.theme", "switches the metric off at once",
                 ("grace = 4\nstarts = 2026-12-07\nexpires = 2027-12-06",
                  "grace = 4\nstarts = 2026-12-07\nexpires = 2028-01-24")),
                ("reservation_raised", "error", "metrics.home_page.memoize", "from 8 to 12",
                 ("distinct_values = 2", "distinct_values = 3")),
                ("missing", "error", "metrics.theme.missing", "added together",
                 ('missing = "other"', 'missing = "light"')),
                ("catch_all", "error", "metrics.theme.catch_all", "added together",
                 ('catch_all = "other"', 'catch_all = "dark"')),
                ("question", "note", "metrics.theme.question", "give it a new name",
                 ("Which theme is active?", "Which theme was last active?")),
                ("sensitivity", "note", "metrics.home_page.sensitivity", "location becomes health",
                 ('"location"', '"health"')),
                ("min_reports", "note", "metrics.theme.min_reports", "from 200 to 100",
                 ("min_reports = 200", "min_reports = 100")),
                ("grace", "note", "metrics.theme.grace", "and have paid",
                 ("grace = 4", "grace = 2")),
            ]
        )
    ],
)  # fmt: skip
def test_a_breaking_change_is_reported_alone_with_its_consequence(
    rule: str, level: str, key: str, words: str, edits: tuple[tuple[str, str], ...]
) -> None:
    (finding,) = found(*edits)
    assert (finding.rule, finding.level, finding.key) == (rule, level, key)
    assert words in finding.text


@pytest.mark.parametrize(
    ("reasons", "edit"),
    [
        ("values added (blue)", ('"light", ', '"light", "blue", ')),
        ("values added (blue), values removed (light)", ('"light", ', '"blue", ')),
        ("values in another order", ('"light", "dark"', '"dark", "light"')),
        ("other buckets", ("[0, 10]", "[0, 20]")),
        (
            "other probabilities or sizes",
            ('epsilon = 1.0\nepoch = "once"', 'epsilon = 0.9\nepoch = "once"'),
        ),
        (
            "mechanism generalized_randomized_response becomes symmetric_unary",
            ("\nevery = 4", '\nevery = 4\nmechanism = "symmetric_unary"'),
        ),
        (
            "type category becomes ordinal",
            (
                '"category"\nvalues = ["light", "dark", "other"]\ncatch_all = "other"',
                '"ordinal"\nvalues = ["light", "dark", "other"]',
            ),
        ),
    ],
)
def test_why_a_channel_is_new_is_said_and_nothing_else(reasons: str, edit: tuple[str, str]) -> None:
    (text,) = [each.text for each in found(edit) if each.rule == "new_fingerprint"]
    assert text.startswith(f"{reasons}: a new channel")


def test_a_raised_epsilon_weakens_the_promise_and_changes_the_channel() -> None:
    raised = found(
        ("epsilon = 1.0\nepoch = \"week\"\nevery", "epsilon = 1.5\nepoch = \"week\"\nevery")
    )  # fmt: skip
    assert [(each.rule, each.level) for each in raised] == [
        ("epsilon_raised", "error"),
        ("new_fingerprint", "note"),
        ("share_raised", "note"),
    ]
    assert "1.000000 to 1.500000" in raised[0].text
    lowered = found(
        ("epsilon = 1.0\nepoch = \"week\"\nevery", "epsilon = 0.5\nepoch = \"week\"\nevery")
    )  # fmt: skip
    assert [each.rule for each in lowered] == ["new_fingerprint"]


def test_other_probabilities_that_lose_more_are_a_raised_epsilon_below_the_same_bound() -> None:
    def given(p_true: str, p_false: str) -> Registry:
        law = f"name = 'generalized_randomized_response', p_true = {p_true}, p_false = {p_false}"
        return edited(("\nevery = 4", f"\nevery = 4\nmechanism = {{ {law} }}"))

    rules = [each.rule for each in changes(given("0.4", "0.3"), given("0.5", "0.25"))]
    assert rules == ["epsilon_raised", "new_fingerprint", "share_raised"]


def test_rarer_turns_cost_less_and_more_frequent_ones_more() -> None:
    rarer = found(("every = 4", "every = 8"))
    assert [(each.rule, each.level) for each in rarer] == [("every", "note")]
    oftener = found(("every = 4", "every = 2"))
    assert [each.rule for each in oftener] == ["every", "share_raised"]


def test_a_rename_is_recognised_as_a_new_metric() -> None:
    removed, renamed = found(("[metrics.theme]", "[metrics.ui_theme]"))
    assert (removed.rule, renamed.rule, renamed.level) == ("removed", "renamed", "note")
    assert "share of 14 epsilon of its own" in renamed.text
    _, renamed = found(("[metrics.home_page]", "[metrics.start_page]"))
    assert renamed.level == "error" and "fresh permanent noise" in renamed.text


def test_what_stays_spent_may_leave_too_little_for_what_is_new() -> None:
    """14 + 8 + 1 of 24: with 8 of a removed metric spent, another 8 do not fit."""
    old = edited(("lifetime_epsilon = 40", "lifetime_epsilon = 24"))
    new = loads(
        old.text.replace("[metrics.home_page]", "[metrics.download]").replace(
            "Which site is the start page?", "Which file was downloaded?"
        )
    )
    rules = {each.rule: each for each in changes(old, new)}
    assert rules.keys() == {"removed", "does_not_fit"}
    assert "needs 23" in rules["does_not_fit"].text and "up to 8" in rules["does_not_fit"].text


@pytest.fixture
def device(tmp_path: Path) -> Any:
    factory = ClientFactory(tmp_path / "state", FakeClock())
    yield factory
    factory.close()


def after_update(device: ClientFactory, *edits: tuple[str, str], **options: Any) -> Any:
    """A device that has answered under the old file, then loads the new one."""
    for registry in (loads(OLD), edited(*edits)):
        client = device(registry, **options)
        client.record("home_page", "https://example.org")
        client.flush()
        if registry.text == OLD:
            client.close()
            assert len(device.reports("home_page")) == 1
            device.clock.tick(days=7)
    return client


def spent_on_home_page(client: Any) -> float:
    """Of one metric: the device's secret decides whether another reported an absence as well."""
    return {each.metric: each.spent for each in client.preview().budgets}["home_page"]


def test_a_device_pays_the_new_reservation_that_is_announced(device: ClientFactory) -> None:
    client = after_update(device, ("bits = 128", "bits = 256"))
    assert spent_on_home_page(client) == 16  # 8 + 8, as the text says


def test_a_device_pays_the_difference_that_is_announced(device: ClientFactory) -> None:
    client = after_update(device, ("distinct_values = 2", "distinct_values = 3"))
    assert spent_on_home_page(client) == 12


def test_a_device_may_answer_again_for_the_same_days_as_is_announced(
    device: ClientFactory,
) -> None:
    monthly = HOME_PAGE.replace('"week"', '"month"')
    client = after_update(device, (HOME_PAGE, monthly))
    assert len(device.reports("home_page")) == 2
    assert not client.dropped


def test_a_renamed_project_starts_anew_as_is_announced(
    device: ClientFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    client = after_update(device, ("shop-app", "shop"), state_dir=None)
    assert client.status().spent_epsilon == 8  # nothing is known of the 8 before


def test_a_removed_metric_is_still_sent_as_is_announced(device: ClientFactory) -> None:
    first = device(loads(OLD))
    first.record("home_page", "https://example.org")
    first.close(5)
    assert device.transport.batches == []
    device(edited((HOME_PAGE, ""))).flush()
    assert len(device.reports("home_page")) == 1
