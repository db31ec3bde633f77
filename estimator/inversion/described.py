"""What an inversion needs to know of a metric; `Metric` and offline documents have it."""

from decimal import Decimal
from typing import Protocol

from client_sdk.mechanisms import Mechanism
from client_sdk.metric import Label


class Described(Protocol):
    """A metric: what its values are, and the channel that its reports went through."""

    @property
    def labels(self) -> tuple[Label, ...]: ...
    @property
    def candidates(self) -> tuple[str, ...]: ...
    @property
    def edges(self) -> tuple[Decimal, ...]: ...
    @property
    def mechanism(self) -> Mechanism: ...
