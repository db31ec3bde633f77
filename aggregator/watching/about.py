"""Which version runs here."""

from importlib import metadata


def version() -> str:
    """Return the version of the installed package."""
    try:
        return metadata.version("sottovoce")
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        return "unknown"
