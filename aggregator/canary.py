"""Which metrics are the canary's: the operator's synthetic devices report them, and nobody else.

They come in a registry version of their own, whose lifetime cap binds nobody: all devices are held
to that of the newest version for apps.
"""

from collections.abc import Sequence

from client_sdk.errors import RegistryError
from client_sdk.registry import Registry, loads

PREFIX = "canary."


def is_canary(name: str) -> bool:
    """Say whether a metric of this name is the canary's."""
    return name.startswith(PREFIX)


def for_apps(registry: Registry) -> bool:
    """Say whether a registry version is for apps, not the canary's own."""
    return not all(is_canary(name) for name in registry.metrics)


def require_apart(registry: Registry) -> None:
    """Refuse a version that has metrics of both kinds; nothing would keep them apart.

    Raises:
        RegistryError: It has.
    """
    found = [name for name in registry.metrics if is_canary(name)]
    if found and for_apps(registry):
        rule = f"must not begin with {PREFIX}: such metrics are the operator's canary"
        raise RegistryError(f"metrics.{found[0]}", rule, found[0])


def newest_for_apps(texts: Sequence[str]) -> Registry | None:
    """Return the newest of a store's registry versions that is for apps, None without any."""
    return next((found for text in reversed(texts) if for_apps(found := loads(text))), None)
