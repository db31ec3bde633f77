"""sottovoce's client SDK: the ground floor, where all privacy happens.

It may import the standard library, and `requests` and `cryptography` when the first upload is
due; never numpy, flask or redis, because it is installed into other people's programs. Names
load on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module

TYPE_CHECKING = False  # importing that of typing would cost more than all of this
if TYPE_CHECKING:
    from client_sdk.client import Client
    from client_sdk.errors import (
        ParameterError,
        RegistryError,
        SottovoceError,
        StateError,
        TransportError,
        WrongType,
    )
    from client_sdk.registry import Registry, load, loads
    from client_sdk.status import Status

__all__ = [
    "Client",
    "ParameterError",
    "Registry",
    "RegistryError",
    "SottovoceError",
    "StateError",
    "Status",
    "TransportError",
    "WrongType",
    "load",
    "loads",
]

_HOMES = {
    "Client": "client",
    "Status": "status",
    "Registry": "registry",
    "load": "registry",
    "loads": "registry",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"client_sdk.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
