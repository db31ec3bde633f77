"""A signal to end is never lost and never ends what was begun."""

import os
import signal
import threading
import time

import pytest

from aggregator.machine.signals import ending


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_noted_whatever_runs_when_it_comes(number: int) -> None:
    before = signal.getsignal(number)
    with ending() as told:
        assert not told.is_set() and told.number is None
        try:
            os.kill(os.getpid(), number)
            time.sleep(0.01)
        except BaseException as error:  # as libraries do that call what was given to them
            raise AssertionError("the signal was raised into what ran") from error
        assert told.is_set() and told.number == number
        assert told.wait() and told.wait(0)
    assert signal.getsignal(number) is before


def test_a_wait_ends_with_the_signal_or_its_time() -> None:
    with ending() as told:
        assert not told.wait(0.05)
        sender = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM))
        sender.start()
        assert told.wait(30) and told.number == signal.SIGTERM
        sender.join()


def test_the_first_of_several_signals_is_told() -> None:
    with ending() as told:
        for number in (signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
            time.sleep(0.01)
        assert told.number == signal.SIGTERM
