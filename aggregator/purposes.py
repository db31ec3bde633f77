"""Whom a registry version is for: apps, the operator's canary, or one survey.

Devices of one never report what is of another: a canary's device is synthetic, a respondent of a
survey enrols for it and is never heard of again. So each version is of one kind, and what a device
may spend in its life is said by the newest version of its own kind.
"""

from collections.abc import Sequence

from aggregator.canary import PREFIX as CANARY
from aggregator.canary import is_canary
from client_sdk.errors import RegistryError
from client_sdk.registry import Registry, loads
from client_sdk.survey import PREFIX as SURVEY
from client_sdk.survey import is_survey, survey_of

_APPS = ""


def for_apps(registry: Registry) -> bool:
    """Say whether a registry version is for apps, not the canary's own or a survey's."""
    return _APPS in _kinds(registry)


def survey_in(registry: Registry) -> str | None:
    """Return the name of the survey that a registry version is, None if it is none."""
    return next(map(survey_of, registry.metrics))


def require_apart(registry: Registry) -> None:
    """Refuse a version that has metrics of several kinds; nothing would keep them apart.

    Raises:
        RegistryError: It has.
    """
    if len(_kinds(registry)) < 2:
        return
    for prefix, whose in ((CANARY, "the operator's canary"), (SURVEY, "a survey")):
        for name in registry.metrics:
            if name.startswith(prefix):
                rule = f"must not begin with {prefix} here: such metrics are {whose}"
                raise RegistryError(f"metrics.{name}", rule, name)


def require_no_survey(registry: Registry) -> None:
    """Refuse an app's file that uses a survey's names.

    Raises:
        RegistryError: It does.
    """
    for name in filter(is_survey, registry.metrics):
        rule = f"must not begin with {SURVEY}: such metrics come from a survey's own file"
        raise RegistryError(f"metrics.{name}", rule, name)


def newest_for_apps(texts: Sequence[str]) -> Registry | None:
    """Return the newest of a store's registry versions that is for apps, None without any."""
    return next((found for text in reversed(texts) if for_apps(found := loads(text))), None)


def foremost(texts: Sequence[str]) -> Registry | None:
    """Return the version that a store is shown by: the newest for apps, else the newest survey's.

    None where there is neither.
    """
    surveys = (found for text in reversed(texts) if survey_in(found := loads(text)) is not None)
    return newest_for_apps(texts) or next(surveys, None)


def of_the_foremost(texts: Sequence[str]) -> list[Registry]:
    """Return all versions that are for the same as the foremost one, which is the last of them."""
    shown = foremost(texts)
    if shown is None:
        return []
    return [found for text in texts if _kinds(found := loads(text)) == _kinds(shown)]


def _kinds(registry: Registry) -> set[str]:
    return set(map(_kind, registry.metrics))


def _kind(metric: str) -> str:
    if is_canary(metric):
        return CANARY
    return SURVEY + (survey_of(metric) or "") if is_survey(metric) else _APPS
