"""What `client_sdk` promises to apps: few names, all there, all explained."""

import inspect

import pytest

import client_sdk


def test_the_public_surface_is_small_and_sorted() -> None:
    assert len(client_sdk.__all__) <= 12
    assert client_sdk.__all__ == sorted(client_sdk.__all__)
    assert dir(client_sdk) == client_sdk.__all__


@pytest.mark.parametrize("name", client_sdk.__all__)
def test_every_public_name_is_importable_and_documented(name: str) -> None:
    thing = getattr(client_sdk, name)
    # Its own docstring: an inherited one explains something else.
    assert vars(thing)["__doc__"] if inspect.isclass(thing) else thing.__doc__


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = client_sdk.Nothing
