"""What can go wrong between a tally and a release.

SottovoceError
|- NoReports (ValueError)       nothing was counted, so there is nothing to estimate
|- DecodeError (ValueError)     the candidates cannot be told apart by this tally
|- DocumentError (ValueError)   a tally document breaks a rule; names field, rule, value
|- NotPublishable (ValueError)  this epoch cannot be published, or not yet
`- NotDelivered (OSError)       a mail server or a webhook did not take a digest
"""

from client_sdk.errors import SottovoceError


class NoReports(SottovoceError, ValueError):
    """No report was counted: there is no estimate, which is not an estimate of zero."""


class DecodeError(SottovoceError, ValueError):
    """The candidates offered cannot be told apart by the cells that were counted."""


class DocumentError(SottovoceError, ValueError):
    """A field of a document breaks a rule; names field, rule and value."""

    def __init__(self, field: str, rule: str, value: object) -> None:
        super().__init__(f"{field}: {rule}, got {value!r}")
        self.field = field
        self.rule = rule
        self.value = value


class NotPublishable(SottovoceError, ValueError):
    """The epoch asked for is unknown, holds no reports, or is still open."""


class NotDelivered(SottovoceError, OSError):
    """A digest was not taken; the message names no password and no secret address.

    Attributes:
        alone: It is about this one only; others may get through the same way.
        lasting: It was refused for good: trying again soon is of no use.
    """

    def __init__(self, reason: str, *, alone: bool = False, lasting: bool = False) -> None:
        super().__init__(reason)
        self.alone = alone
        self.lasting = lasting
