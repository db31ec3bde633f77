"""The catalogue: versions are only added, the newest decides, none is forgotten early."""

from datetime import date
from typing import Any

import pytest

from aggregator.catalogue import Catalogue, Versions
from client_sdk.epochs import DAY_SECONDS
from client_sdk.errors import RegistryError
from client_sdk.registry import loads


def test_an_empty_store_has_no_versions(world: Any) -> None:
    assert Versions.of(()).cap == 0 and not Versions.of(()).metrics


def test_every_version_stays_known(world: Any) -> None:
    old = world.metric("theme")
    text = world.registry.text.replace('"system", "other"]', '"system", "sepia", "other"]')
    new = world.catalogue.register(text).metrics["theme"]
    versions = Catalogue(world.store).load()
    for metric in (old, new):
        assert versions.metrics["theme", metric.fingerprint].labels == metric.labels


def test_registering_again_adds_nothing_and_changes_no_order(world: Any) -> None:
    newer = world.registry.text.replace("lifetime_epsilon = 1000", "lifetime_epsilon = 900")
    world.catalogue.register(newer)
    world.catalogue.register(world.registry.text)
    assert world.store.registries.texts() == [world.registry.text, newer]
    assert world.catalogue.current().cap == 900_000_000


def test_a_broken_registry_is_refused_and_not_kept(world: Any) -> None:
    with pytest.raises(RegistryError):
        world.catalogue.register(world.registry.text.replace("epsilon = 1.0", "epsilon = 0"))
    assert len(world.store.registries.texts()) == 1


def test_a_fingerprint_is_accepted_as_long_as_any_version_accepts_it(world: Any) -> None:
    shorter = world.registry.text.replace("expires = 2027-12-31", "expires = 2027-01-31")
    longer = world.registry.text.replace("expires = 2027-12-31", "expires = 2028-01-31")
    versions = Versions.of([loads(longer), world.registry, loads(shorter)])
    metric = world.metric("theme")
    assert versions.metrics["theme", metric.fingerprint].expires == date(2028, 1, 31)
    assert versions.metrics["theme", metric.fingerprint].fingerprint == metric.fingerprint


def test_a_version_registered_elsewhere_is_known_to_the_first_who_asks(world: Any) -> None:
    catalogue = Catalogue(world.store)
    catalogue.load()
    newer = loads(world.registry.text.replace("lifetime_epsilon = 1000", "lifetime_epsilon = 900"))
    world.store.registries.add(newer.digest, newer.text)
    assert catalogue.refreshed().cap == 900_000_000


def test_what_a_newer_version_says_of_what_is_known_is_heard_within_ten_seconds(
    world: Any,
) -> None:
    now = 0.0
    catalogue = Catalogue(world.store, monotonic=lambda: now)
    assert catalogue.current().cap == 1000_000_000
    newer = world.registry.text.replace("lifetime_epsilon = 1000", "lifetime_epsilon = 900")
    Catalogue(world.store).register(newer)
    now = 9.9
    assert catalogue.current().cap == 1000_000_000
    now = 10.0
    assert catalogue.current().cap == 900_000_000


def test_the_store_is_asked_once_in_ten_seconds(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = Catalogue(world.store, monotonic=lambda: 0.0)
    catalogue.current()
    monkeypatch.setattr(world.store.registries, "count", pytest.fail)
    for _ in range(100):
        assert catalogue.current().names


@pytest.mark.parametrize(
    ("name", "change", "days"),
    [
        ("crashed", ("expires = 2027-01-01", "expires = 2027-06-01"), 40),
        ("crashed", ("starts = 2026-11-01", "starts = 2026-10-01"), -31),
    ],
    ids=["expires later", "starts earlier"],
)
def test_a_metric_whose_life_was_prolonged_elsewhere_is_taken_at_once(
    world: Any, name: str, change: tuple[str, str], days: int
) -> None:
    world.now += days * DAY_SECONDS
    metric, _, body = world.registry.text.partition(f"[metrics.{name}]")
    assert change[0] in body
    world.catalogue.current()
    Catalogue(world.store).register(f"{metric}[metrics.{name}]{body.replace(*change, 1)}")
    assert world.charged(world.device(), world.report(name)) == ["accepted"]


def test_strangers_cannot_make_the_catalogue_reload_at_will(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogue = Catalogue(world.store)
    catalogue.load()
    monkeypatch.setattr(world.store.registries, "texts", pytest.fail)
    for _ in range(100):
        catalogue.refreshed()
