"""What can go wrong between a tally and a release.

SottovoceError
|- NoReports (ValueError)       nothing was counted, so there is nothing to estimate
|- DecodeError (ValueError)     the candidates cannot be told apart by this tally
|- DocumentError (ValueError)   a tally document breaks a rule; names field, rule, value
`- NotPublishable (ValueError)  this epoch cannot be published, or not yet
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
