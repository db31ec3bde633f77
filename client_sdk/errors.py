"""What can go wrong in the SDK.

    SottovoceError
    |- RegistryError (ValueError)   metrics.toml breaks a rule; raised at load
    |  `- UnreadableRegistry        because there is no such file, or none that is text
    |- ParameterError (ValueError)  a mechanism's parameters make no valid channel
    |  `- OptionError               because one of its options breaks a rule
    |- WrongType (TypeError)        a value cannot be an answer to the metric's question
    |- StateError (OSError)         the device's state cannot be used; nothing is reported
    |  `- StateErased               because it was erased meanwhile; never leaves the SDK
    |- NoRandomness (OSError)       the operating system's generator fails; nothing is drawn
    `- TransportError (OSError)     an upload did not get an answer that can be believed

Mistakes in configuration raise at start. After start nothing here reaches the host app:
`Client.record` contains it and counts the reason.
"""


class SottovoceError(Exception):
    """Base of everything this package raises on purpose."""


class RegistryError(SottovoceError, ValueError):
    """A key of metrics.toml breaks a rule; names key, rule and value."""

    def __init__(self, key: str, rule: str, value: object) -> None:
        # A rule that a mechanism states already says what it got: of the key it is the context.
        shows = "for" if ", got " in rule else "got"
        told = (
            "" if value is None else f", {shows} {_shown(value)}"
        )  # TOML has no None: it is missing
        super().__init__(f"{key}: {rule}{told}")
        self.key = key
        self.rule = rule
        self.value = value


class UnreadableRegistry(RegistryError):
    """metrics.toml cannot be read at all; names the path and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__("metrics.toml", "must be readable", path)
        self.args = (f"{path} cannot be read: {reason}",)


def _shown(value: object) -> str:
    """Return a value as a person wrote it, cut to a readable length."""
    from datetime import date  # here, because every import of the SDK loads this module
    from decimal import Decimal

    try:
        text = str(value) if isinstance(value, Decimal | date) else repr(value)
        text = text.replace("Decimal('", "").replace("')", "") if "Decimal('" in text else text
    except ValueError:  # more digits than Python is willing to print
        return "an integer of thousands of digits"
    return text if len(text) <= 200 else f"{text[:200]}..."


class ParameterError(SottovoceError, ValueError):
    """A mechanism's parameters do not describe a private, invertible channel."""


class OptionError(ParameterError):
    """One option of a mechanism breaks a rule; names option, rule and value."""

    def __init__(self, option: str, rule: str, value: object) -> None:
        super().__init__(f"{option} {rule}, got {option}={_shown(value)}")
        self.option = option
        self.rule = rule
        self.value = value


class WrongType(SottovoceError, TypeError):
    """A value of this type cannot answer the metric's question. Never shows the value."""


class StateError(SottovoceError, OSError):
    """The device's state is missing, unreadable, read-only or corrupt."""


class StateErased(StateError):
    """The device was erased by somebody else meanwhile; its new state may be opened."""


class NoRandomness(SottovoceError, OSError):
    """The operating system gives no randomness, or what it gives looks broken."""


class TransportError(SottovoceError, OSError):
    """No answer arrived, or none that its MAC lets us believe."""
