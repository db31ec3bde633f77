"""What the pages are made from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aggregator.administration.admin_log import AdminLog
from aggregator.keyring.keys import KeySource
from client_sdk.survey import Survey
from estimator.dashboard.published import Published
from estimator.dashboard.servers import Servers
from estimator.source import StoreSource


@dataclass(frozen=True)
class Inputs:
    """Where a page looks.

    Attributes:
        source: Registries, ledger and figures of the store, which may be away.
        published: The releases.
        keys: The server's keys, for their ages.
        log: The administrators' log.
        clock: Unix time in seconds.
        free_share: Share of the store's disk that is free; None: the store is elsewhere.
        servers: The servers' own figures.
        surveys: Those that are asked here.
        invitations: By a survey's name, how many invitations were made and used; None: that it has
            none. Itself None: nobody can say.
    """

    source: StoreSource
    published: Published
    keys: KeySource
    log: AdminLog
    clock: Callable[[], float]
    free_share: Callable[[], float] | None = None
    servers: Servers = field(default_factory=Servers)
    surveys: Sequence[Survey] = ()
    invitations: Callable[[str], tuple[int, int] | None] | None = None

    @property
    def releases(self) -> Path:
        """The directory of the release files."""
        return self.published.shelf.directory
