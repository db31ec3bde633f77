"""Who hears of which metric: owners of theirs, the project's contact of all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from client_sdk.metric import Metric
from client_sdk.registry import Registry
from estimator.errors import NotPublishable


@dataclass(frozen=True)
class Audience:
    """What notifications need of all registry versions.

    Attributes:
        project: The project's name.
        contact: Hears of everything.
        metrics: By name, each as the newest version that has it declares it.
        current: Names of the newest version.
    """

    project: str
    contact: str
    metrics: Mapping[str, Metric]
    current: frozenset[str]

    @classmethod
    def of(cls, registries: Sequence[Registry]) -> "Audience":
        """Merge registry versions, oldest first.

        Raises:
            NotPublishable: There are none.
        """
        if not registries:
            raise NotPublishable("the store holds no registry yet")
        newest = registries[-1]
        metrics = {name: m for registry in registries for name, m in registry.metrics.items()}
        return cls(newest.project, newest.contact, metrics, frozenset(newest.metrics))

    def recipients(self) -> list[str]:
        """Return the contact and every owner, each once, as the registry writes them."""
        owners = (owner for metric in self.metrics.values() for owner in metric.owners)
        return list(dict.fromkeys((self.contact, *owners)))

    def hears(self, who: str, metric: str) -> bool:
        """Return whether somebody hears of a metric."""
        known = self.metrics.get(metric)
        return who == self.contact or (known is not None and who in known.owners)
