"""Which metrics are the canary's: the operator's synthetic devices report them, and nobody else.

They come in a registry version of their own, whose lifetime cap binds nobody: all devices are held
to that of the newest version for apps.
"""

PREFIX = "canary."


def is_canary(name: str) -> bool:
    """Say whether a metric of this name is the canary's."""
    return name.startswith(PREFIX)
