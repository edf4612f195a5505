"""The clusters of one decision: the owner's own, whose commit decides, and others with prepared transactions for which
it decides (DESIGN section 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from semel.errors import ConfigError, SemelError
from semel.transaction.transactional_id import IdKind
from semel.transaction.two_phase import completion
from semel.transaction.two_phase.completion import raise_gravest
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.two_phase.recovery import abort_listed, identity_of, open_prepared
from semel.wire.api.describe_transactions import TransactionDescription
from semel.wire.api.transactions import Identity
from semel.wire.client import Client

__all__ = ["Clusters", "Listed"]

#: What one cluster has open of a prefix.
Listed = tuple[Client, Sequence[TransactionDescription]]


class Clusters:
    """The clusters that an owner may decide for. Threads may share it."""

    def __init__(self, own: Client, others: Sequence[Client] = ()) -> None:
        self._own = own
        self.others = tuple(others)

    def client_of(self, prepared: Prepared) -> Client:
        """Return the client of the cluster of a prepared transaction. Raises :class:`ConfigError` if none is here."""
        clients = [client for client in (self._own, *self.others) if client.cluster == prepared.cluster]
        if clients:
            return clients[0]
        if not self.others:
            completion.check_cluster(self._own, prepared)
        raise ConfigError(
            f"the prepared transaction {prepared.transactional_id!r} is of cluster {prepared.cluster}, and the producer"
            " knows no such cluster. Nothing was changed. Give that cluster too: producer(..., clusters=[...]).",
            tag="OTHER_CLUSTER",
        )

    def apart(self, prepared: Iterable[Prepared]) -> Iterator[tuple[Client, list[Prepared]]]:
        """Yield each cluster's own."""
        of_clusters: dict[Client, list[Prepared]] = {}
        for one in prepared:
            of_clusters.setdefault(self.client_of(one), []).append(one)
        yield from of_clusters.items()

    def commit_all(self, decided: Iterable[Prepared]) -> None:
        """Commit all of them, as :func:`~semel.transaction.two_phase.completion.commit_all`, on each cluster."""
        self._end_all(decided, completion.commit_all)

    def abort_all(self, prepared: Iterable[Prepared]) -> None:
        """Abort all of them, as :meth:`commit_all` commits."""
        self._end_all(prepared, completion.abort_all)

    def _end_all(self, prepared: Iterable[Prepared], end: Callable[[Client, Iterable[Prepared]], None]) -> None:
        failed: list[SemelError] = []
        for client, of_cluster in self.apart(prepared):
            try:
                end(client, of_cluster)
            except SemelError as error:  # the others are decided too, and may expire
                failed.append(error)
        raise_gravest(failed)

    def open_prepared(self, prefix: str, *, of_tasks: bool) -> list[Listed]:
        """Return what is open of a prefix: its units on the other clusters, and on the own one what its tasks have."""
        listed: list[Listed] = [(client, open_prepared(client, prefix, IdKind.UNIT)) for client in self.others]
        if of_tasks:
            listed.append((self._own, open_prepared(self._own, prefix, IdKind.TASK)))
        return listed

    def abort_undecided(self, listed: Iterable[Listed], decided: set[Identity]) -> int:
        """Abort what was listed and is not decided. Returns how many were aborted."""
        failed: list[SemelError] = []
        aborted = [
            name
            for client, found in listed
            for name in abort_listed(client, [one for one in found if identity_of(one) not in decided], failed)
        ]
        raise_gravest(failed)
        return len(aborted)
