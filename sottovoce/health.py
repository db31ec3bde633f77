"""Whether a part of the server side works, as one line that says why not."""

import requests

from aggregator.settings import ServerSettings
from aggregator.store import Store

FOLD_WITHIN_SECONDS = 180.0
"""Three times the pause between two generations, which the fold worker raises."""
SCHEDULE_WITHIN_SECONDS = 600.0
"""Ten ticks of `sottovoce schedule`."""
_LONGEST_WAIT_SECONDS = 5.0
_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
"""What listens on all addresses listens on this one."""


def server_trouble(host: str, port: int, path: str) -> str | None:
    """Ask a server of this machine over HTTP; return what is wrong, None if nothing is.

    Args:
        host: Address that it listens on.
        port: Its TCP port.
        path: /livez or /readyz.
    """
    here = _EVERYWHERE.get(host, host)
    url = f"http://{f'[{here}]' if ':' in here else here}:{port}{path}"
    with requests.Session() as session:
        session.trust_env = False  # no proxy stands between a machine and itself
        try:
            answer = session.get(url, timeout=_LONGEST_WAIT_SECONDS, allow_redirects=False)
        except requests.RequestException as error:
            return f"{url} does not answer: {type(error).__name__}"
    if answer.status_code == 200:
        return None
    try:
        problem = answer.json()
        return f"{problem.get('reason', answer.status_code)}: {problem['detail']}"
    except (ValueError, KeyError, AttributeError):
        return f"{url} answers {answer.status_code}"


def fold_trouble(store: Store, settings: ServerSettings, now: float, within: float) -> str | None:
    """Return why folding does not go on, None if it does.

    A fold worker raises the store's generation on its way, whether or not there are reports.

    Args:
        now: Unix time in seconds.
        within: Seconds in which it must have.

    Raises:
        StoreUnavailable: There is no asking.
    """
    since = _since(store.generation_raised_at(), now, within)
    if since is not None:
        return f"no fold worker has passed through the store {since}"
    oldest = store.figures.oldest_seconds()
    if oldest > settings.ready_fold_lag_seconds:
        return f"a report has waited {oldest:.0f} seconds for the fold"
    return None


def schedule_trouble(store: Store, now: float, within: float) -> str | None:
    """Return why publishing does not go on, None if it does.

    Args:
        now: Unix time in seconds.
        within: Seconds in which a pass must have ended in which nothing failed.

    Raises:
        StoreUnavailable: There is no asking.
    """
    _, succeeded_at = store.figures.published()
    since = _since(succeeded_at or 0, now, within)
    return None if since is None else f"no pass without a failure has ended {since}"


def _since(happened_at: int, now: float, within: float) -> str | None:
    if not happened_at:
        return "ever"
    ago = now - happened_at
    # A time that lies ahead was noted before the clock was put back.
    return None if ago <= within else f"for {ago:.0f} seconds, {within:g} are allowed"
