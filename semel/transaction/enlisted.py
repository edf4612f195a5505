"""The prepared transactions for which a transaction decides: they are to be committed because it is (DESIGN section 1).

The progress record names them. Its owner ends them after its commit, and the next owner does so if this one dies first.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from semel.errors import AbortAndRetry
from semel.transaction.data_loss import check_prepared_rows, not_open
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

    def check(self, deadline: Deadline) -> None:
        """Check that a commit of each would commit all of its rows, now and when the decision has been answered.

        Raises :class:`AbortAndRetry` if one has ended, or expires before that, and
        :class:`~semel.errors.DataLoss` if rows are gone.
        """
        if not self.prepared:
            return
        self._check_time()
        check_prepared_rows(self._client, self.prepared, deadline)
        self._check_open(deadline)  # asked last: rows of one that has ended may be there still

    def _check_time(self) -> None:
        """Check that none expires before a decision that stalls would: that one has a quarter of their time, or a
        minute. Brokers look for what has expired every 10 s.
        """
        until = min((one.until_ms for one in self.prepared if one.until_ms is not None), default=None)
        if until is None:
            return
        longest = max(one.until_ms - one.prepared_ms for one in self.prepared if one.until_ms is not None)
        margin_ms = min(90_000, longest // 2)
        left_ms = until - time.time() * 1000
        if left_ms < margin_ms:
            raise AbortAndRetry(
                f"a part of this batch expires in {left_ms / 1000:.0f} s, too soon for a decision (bounded). Nothing of"
                " this batch is visible. Make batches smaller, raise transaction.timeout.ms, or let the brokers take"
                " two-phase commit.",
                tag="ENLISTED_LATE",
            )

    def _check_open(self, deadline: Deadline) -> None:
        ended = not_open(self._client, [one.identity for one in self.prepared], deadline)
        if ended:
            raise AbortAndRetry(
                f"the prepared transaction {ended[0].transactional_id!r} has ended before its decision, and so have"
                f" {len(ended) - 1} others: by its timeout, by an operator or by another owner. Nothing of this batch"
                " is visible. Run the same work again.",
                tag="ENLISTED_ENDED",
            )
