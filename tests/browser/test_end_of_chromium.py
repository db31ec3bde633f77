"""What a browser leaves behind when it ends: nothing, neither processes nor a running loop."""

import asyncio

import psutil
import pytest

from tests.browser.chromium import running_chromium
from tests.sottovoce.conftest import wait_until

pytestmark = pytest.mark.slow


def test_a_browser_that_has_ended_leaves_neither_processes_nor_a_running_loop() -> None:
    before = set(psutil.Process().children(recursive=True))
    with running_chromium() as browser:
        browser.new_page().goto("about:blank")
        started = set(psutil.Process().children(recursive=True)) - before
        assert {"chromium" in process.name() for process in started} == {True, False}
        asyncio.get_running_loop()  # which is why no other test may run meanwhile
    wait_until(lambda: not any(map(_runs, started)))
    asyncio.run(asyncio.sleep(0))


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
