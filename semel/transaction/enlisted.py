"""The prepared transactions for which a transaction decides: they are to be committed because it is (DESIGN section 1).

The progress record names them. Its owner ends them after its commit, and the next owner does so if this one dies first.
"""

from __future__ import annotations

from collections.abc import Iterable

from semel.errors import AbortAndRetry
from semel.transaction.data_loss import not_open
from semel.transaction.two_phase.completion import check_cluster
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.client import Client
from semel.wire.deadline import Deadline

__all__ = ["Enlisted"]


class Enlisted:
    """What one transaction has enlisted."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.prepared: list[Prepared] = []

    def add(self, prepared: Iterable[Prepared]) -> None:
        """Enlist these. Raises :class:`~semel.errors.ConfigError` for one of another cluster."""
        for one in prepared:
            check_cluster(self._client, one)
            if one.rows:
                self.prepared.append(one)

    def check_open(self, deadline: Deadline) -> None:
        """Check that all of them can still be committed. Raises :class:`AbortAndRetry` if one has ended."""
        ended = not_open(self._client, [one.identity for one in self.prepared], deadline) if self.prepared else []
        if ended:
            raise AbortAndRetry(
                f"the prepared transaction {ended[0].transactional_id!r} has ended before its decision, and so have"
                f" {len(ended) - 1} others: by its timeout, by an operator or by another owner. Nothing of this batch"
                " is visible. Run the same work again.",
                tag="ENLISTED_ENDED",
            )
