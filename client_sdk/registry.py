"""metrics.toml: everything that an app may ask its users, reviewed like code.

The file ships with the app and is the only source of epsilon and of every parameter; nothing
of it is ever taken from the network. A file that breaks a rule is refused as a whole with an
error that names key, rule and value.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from datetime import date
from decimal import Context, Decimal, localcontext
from typing import Any, NamedTuple

from client_sdk.declaration import Table, metric_from
from client_sdk.errors import RegistryError, UnreadableRegistry
from client_sdk.hashing import sha256
from client_sdk.mechanisms.thresholds import budget_micro
from client_sdk.metric import Metric
from client_sdk.sealing import MOST_KEY_ID, SealingKey, is_public_key

SCHEMA = 1
_PUBLIC_KEY = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z][a-z0-9_.]{0,63}")


class Window(NamedTuple):
    """A promise about short times: at most `epsilon` of fresh-noise charges in any `days` days."""

    days: int
    epsilon: Decimal


class Registry(NamedTuple):
    """A project's metrics, in file order.

    Attributes:
        project: The project's name.
        lifetime_epsilon: The most that one device may ever spend, over all metrics and versions.
        contact: Who answers questions about the collection.
        metrics: By name.
        text: The file as it was read.
        window: The promise over any few days, None without one.
        seal: The aggregator's public key that uploads are sealed to; None: they travel plain,
            under TLS. No part of a fingerprint: a new key makes no new version of a metric.
        by_invitation: The survey whose invited respondents alone may report these metrics, None if
            whoever is enrolled may.
    """

    project: str
    lifetime_epsilon: Decimal
    contact: str
    metrics: Mapping[str, Metric]
    text: str
    window: Window | None = None
    seal: SealingKey | None = None
    by_invitation: str | None = None

    def __repr__(self) -> str:
        return f"Registry({self.project!r}, {list(self.metrics)})"

    @property
    def lifetime_micro(self) -> int:
        """The cap in micro-epsilon, rounded down."""
        return budget_micro(self.lifetime_epsilon)

    @property
    def digest(self) -> str:
        """Names this file among all that a server has been given. 64 hex digits."""
        return sha256(self.text.encode()).hexdigest()

    def expired(self, today: date) -> list[RegistryError]:
        """Return an error for each metric that collects nothing any more.

        Not raised at load: an app in the field outlives its metrics and must go on quietly.
        """
        return [
            RegistryError(f"metrics.{metric.name}.expires", "must lie ahead", metric.expires)
            for metric in self.metrics.values()
            if metric.expires <= today
        ]


def load(path: str | os.PathLike[str]) -> Registry:
    """Read metrics.toml.

    Raises:
        UnreadableRegistry: There is no such file, or it cannot be read.
        RegistryError: The file is not TOML or breaks a rule.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError as error:
        raise UnreadableRegistry(str(path), "no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UnreadableRegistry(str(path), reason or type(error).__name__) from error
    return loads(text)


def loads(text: str) -> Registry:
    """Read the text of a metrics.toml.

    Raises:
        RegistryError: The text is not TOML or breaks a rule.
    """
    try:
        document: dict[str, Any] = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else type(error).__name__
        raise RegistryError("metrics.toml", f"must be TOML ({reason})", text[:40]) from error
    # Bucket edges are computed: the host's decimal precision must not shape a fingerprint.
    with localcontext(Context(prec=28)):
        return _registry(text, document)


def _registry(text: str, document: dict[str, Any]) -> Registry:
    root = Table("", document)
    root.take_choice("schema", (SCHEMA,))
    project = root.take_table("project")
    name = project.take_text("name")
    lifetime = project.take_epsilon("lifetime_epsilon", most=Decimal(1000))
    contact = project.take_text("contact")
    window = _window(project)
    seal = _seal(project)
    admission = project.take_choice("admission", ("open", "invitation"), default="open")
    project.finish()
    tables = root.take_table("metrics")
    metrics = {}
    for key in list(tables.values):
        if not _NAME.fullmatch(key):
            raise RegistryError(f"metrics.{key}", f"a name must match {_NAME.pattern}", key)
        metrics[key] = metric_from(key, tables.take_table(key), contact)
    if not metrics:
        raise RegistryError("metrics", "must declare at least one metric", {})
    root.finish()
    invited = _survey_of(metrics) if admission == "invitation" else None
    registry = Registry(name, lifetime, contact, metrics, text, window, seal, invited)
    _check_shares(registry)
    if window is not None:
        _check_window(registry, window)
    return registry


def _window(project: Table) -> Window | None:
    if "window" not in project.values:
        return None
    table = project.take_table("window")
    window = Window(
        table.take_integer("days", 1, 366), table.take_epsilon("epsilon", most=Decimal(1000))
    )
    table.finish()
    return window


def _seal(project: Table) -> SealingKey | None:
    if "seal" not in project.values:
        return None
    table = project.take_table("seal")
    number = table.take_integer("key", 1, MOST_KEY_ID)
    text = table.take_text("public")
    public = bytes.fromhex(text) if _PUBLIC_KEY.fullmatch(text) else b""
    if not is_public_key(public):
        rule = "must be the 64 hex digits that `sottovoce keys rotate sealing` prints"
        raise table.fail("public", rule, text)
    table.finish()
    return SealingKey(number, public)


def _survey_of(metrics: Mapping[str, Metric]) -> str:
    from client_sdk.survey.names import survey_of  # here: its package reads registries

    surveys = {survey_of(name) for name in metrics}
    survey = surveys.pop()
    if survey is None or surveys:
        rule = "must be open unless all metrics are named survey.NAME.QUESTION, of one survey"
        raise RegistryError("project.admission", rule, "invitation")
    return survey


def _check_shares(registry: Registry) -> None:
    shares = {metric.name: metric.share(metric.starts) for metric in registry.metrics.values()}
    total = sum(shares.values())
    if total > registry.lifetime_micro:
        listed = ", ".join(f"{name} {share / 1e6:g}" for name, share in shares.items())
        raise RegistryError(
            "project.lifetime_epsilon",
            f"must cover the shares of all metrics, which add up to {total / 1e6:g} ({listed}); "
            "raise it, lower an epsilon, or let a metric expire sooner",
            f"{registry.lifetime_epsilon}",
        )


def _check_window(registry: Registry, window: Window) -> None:
    """Check the worst case: a window may touch an epoch more than it is long."""
    worst = {
        metric.name: metric.charge * metric.most_reports_in(window.days)
        for metric in registry.metrics.values()
        if metric.memoize is None
    }
    total = sum(worst.values())
    if total > budget_micro(window.epsilon):
        listed = ", ".join(f"{name} {charge / 1e6:g}" for name, charge in worst.items())
        raise RegistryError(
            "project.window",
            f"must cover what a device can spend in any {window.days} days, which adds up to "
            f"{total / 1e6:g} ({listed}); raise its epsilon, or use longer epochs or `every`",
            f"{window.epsilon}",
        )
