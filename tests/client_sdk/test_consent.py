"""Off until the host enables it, and where the environment objects. (Bugs 19 and 24.)

Bug 19, opting out: test_client.py, test_opting_out_empties_the_queue_at_once; an erase that does
not refund: test_erase.py, test_erase_no_refund.
"""

from collections.abc import Callable
from typing import Any

import pytest

from client_sdk import Client
from client_sdk.consent import MACHINES, WISH, objection

MakeClient = Callable[..., Client]


Quiet = Callable[[], pytest.MonkeyPatch]


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> Quiet:
    """Makes an environment in which nobody objects; pytest itself does, once the test runs."""

    def clear() -> pytest.MonkeyPatch:
        for name in (WISH, *MACHINES):
            monkeypatch.delenv(name, raising=False)
        return monkeypatch

    return clear


@pytest.mark.parametrize("name", [WISH, *MACHINES])
def test_each_objection_keeps_a_client_silent(
    name: str, quiet: Quiet, client_of: MakeClient, server: Any, tmp_path: Any
) -> None:
    quiet().setenv(name, "1")
    client = client_of(respect_environment=True)
    client.record("theme", "dark")
    assert not client.flush()
    assert client.status().summary == f"disabled: {name} is set"
    assert client.dropped == {"disabled": 1}
    client.close()
    assert not (tmp_path / "state").exists()
    assert server.enrolments == 0


def test_without_an_objection_an_enabled_client_collects(
    quiet: Quiet, client_of: MakeClient, server: Any
) -> None:
    quiet()
    client = client_of(respect_environment=True)
    client.record("theme", "dark")
    assert client.flush()
    assert len(server.reports) == 1


def test_a_host_that_has_asked_its_user_may_overrule_the_environment(
    quiet: Quiet, client_of: MakeClient, server: Any
) -> None:
    environment = quiet()
    environment.setenv(WISH, "1")
    environment.setenv("CI", "true")
    client = client_of(respect_environment=False)
    client.record("theme", "dark")
    assert client.flush()
    assert len(server.reports) == 1


def test_overruling_the_environment_is_no_consent(client_of: MakeClient, tmp_path: Any) -> None:
    client = client_of(enabled=False, respect_environment=False)
    client.record("theme", "dark")
    assert client.status().summary == "disabled: not enabled by the app"
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("value", ["", "0", "false", "False", "no", "off", " "])
def test_a_variable_that_says_no_is_no_objection(value: str) -> None:
    assert objection({"CI": value, WISH: value}) is None


@pytest.mark.parametrize("value", ["1", "true", "yes", "anything"])
def test_any_other_value_is_one(value: str) -> None:
    assert objection({"CI": value}) == "CI"
    assert objection({WISH: value, "CI": "1"}) == WISH


def test_a_test_run_sends_nothing_unless_it_says_so(
    monkeypatch: pytest.MonkeyPatch, client_of: MakeClient, server: Any
) -> None:
    """Bug 24: under pytest alone, as this test is."""
    for name in (WISH, *MACHINES):
        if not name.startswith("PYTEST"):
            monkeypatch.delenv(name, raising=False)
    client = client_of(respect_environment=True, upload_within_seconds=0)
    client.record("theme", "dark")
    assert not client.flush()
    assert client.status().summary.startswith("disabled: PYTEST_")
    assert server.enrolments == 0


def test_a_program_on_a_build_server_makes_no_request(host: Any, sink: Any) -> None:
    program = """
        client = client_of(upload_within_seconds=0)
        client.record("theme", "dark")
        print(client.flush(5), client.status().summary)
    """
    assert host.run(program, CI="1") == "False disabled: CI is set\n"
    assert host.run(program, DO_NOT_TRACK="1") == "False disabled: DO_NOT_TRACK is set\n"
    assert sink.paths == []
    assert host.run(program) == "True collecting\n"
    assert len(sink.reports) == 1


def test_what_an_earlier_run_left_stays_where_it_is_while_somebody_objects(
    quiet: Quiet, client_of: MakeClient, server: Any
) -> None:
    environment = quiet()
    server.answer = server.dead
    client = client_of(respect_environment=True)
    client.record("theme", "dark")
    client.flush()
    client.close(5)
    server.answer = server.accepted
    environment.setenv(WISH, "1")
    objecting = client_of(respect_environment=True, upload_within_seconds=0)
    objecting.record("theme", "dark")
    objecting.close(5)
    assert len(server.bodies) == 1
    assert objecting.preview().uploaded  # and its user can see it
