"""The notifier that the environment describes, for the commands that use one."""

import os
import time
from pathlib import Path

from aggregator.settings import ServerSettings
from aggregator.store import Store
from client_sdk.registry import loads
from estimator.notices.audience import Audience
from estimator.notices.notify import Notifier
from estimator.settings import NotifySettings
from sottovoce.connect import signing


def notifier(settings: ServerSettings, store: Store, releases: Path) -> Notifier:
    """Return what sends digests.

    Args:
        settings: Name the key file.
        store: Holds the registry versions.
        releases: Directory that digests tell of.

    Raises:
        SettingsError: A variable breaks its rule.
    """
    return Notifier(
        directory=releases,
        settings=NotifySettings.from_env(os.environ),
        audience=lambda: Audience.of([loads(text) for text in store.registries.texts()]),
        signing=lambda: signing(settings),
        clock=time.time,
    )
