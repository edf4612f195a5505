"""The prepared transactions for which a transaction decides: they are to be committed because it is (DESIGN section 1).

The progress record names them. Its owner ends them after its commit, and the next owner does so if this one dies first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from semel.errors import AbortAndRetry, ConfigError, Retriable, SemelError
from semel.transaction.clusters import Clusters
from semel.transaction.data_loss import check_prepared_rows, not_open
from semel.transaction.ownership import Ownership
from semel.transaction.transactional_id import IdKind, parse
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from semel.wire.deadline import Deadline

__all__ = ["Enlisted", "follow"]

log = logging.getLogger("semel.transaction")

#: Brokers look for what has expired this often, twice.
_BROKERS_LOOK_MS = 20_000


class Enlisted:
    """What one transaction has enlisted.

    What is on the owner's own cluster belongs to its tasks: whoever sent the work to them ends it. What is on others is
    ended here.
    """

    def __init__(self, own: Ownership) -> None:
        self._own, self._clusters = own, Clusters(own.client, own.others)
        self.prepared: list[Prepared] = []

    def add(self, prepared: Iterable[Prepared]) -> None:
        """Enlist these. Raises :class:`~semel.errors.ConfigError` for one of a cluster that the owner does not know, of
        its own cluster, or of another prefix: the next owner would not end it.
        """
        for one in prepared:
            self._check_kind(one)
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
        for client, prepared in self._clusters.apart(self.prepared):
            check_prepared_rows(client, prepared, deadline)
            _check_open(client, prepared, deadline)  # asked last: rows of one that has ended may be there still

    def follow(self, identity: Identity) -> None:
        """Commit what was decided for on other clusters, now that the transaction of ``identity`` is committed.

        Raises :class:`Retriable` tagged COMMITTED where brokers do not answer: what comes next tries again. Raises
        :class:`~semel.errors.DataLoss` where one has expired.
        """
        elsewhere = tuple(one for one in self.prepared if self._is_elsewhere(one))
        if elsewhere:
            self._own.undone = (identity, elsewhere)
            follow(self._own)

    def give_up(self) -> None:
        """Abort what was enlisted on other clusters: the transaction that was to decide is aborted."""
        try:
            self._clusters.abort_all(one for one in self.prepared if self._is_elsewhere(one))
        except SemelError as error:  # the next owner aborts what is left
            log.warning("what was prepared on other clusters is not decided, and is still open: %s", error.message)

    def _is_elsewhere(self, prepared: Prepared) -> bool:
        return self._clusters.client_of(prepared) in self._clusters.others

    def _check_kind(self, prepared: Prepared) -> None:
        name = parse(prepared.transactional_id)
        if not self._is_elsewhere(prepared):
            if name.kind is not IdKind.TASK:
                raise ConfigError(
                    f"{prepared.transactional_id!r} is prepared on the producer's own cluster. Nothing was decided."
                    " Send its rows in the producer's transaction, and enlist only what is on other clusters.",
                    tag="OWN_CLUSTER",
                )
            return
        if name.prefix != self._own.transactional_id or name.kind is not IdKind.UNIT:
            raise ConfigError(
                f"{prepared.transactional_id!r} is no transaction of {self._own.transactional_id!r}. Nothing was"
                " decided. Prepare it by a producer of the same id:"
                f" producer({self._own.transactional_id!r}, two_phase=True).",
                tag="OTHER_PREFIX",
            )

    def _check_time(self) -> None:
        """Check that none expires before a decision that stalls would: that one has a quarter of their time, or a
        minute. Brokers look for what has expired every 10 s.
        """
        until = min((one.until_ms for one in self.prepared if one.until_ms is not None), default=None)
        if until is None:
            return
        longest = max(one.until_ms - one.prepared_ms for one in self.prepared if one.until_ms is not None)
        margin_ms = min(90_000.0, longest / 2)
        if self._clusters.others:  # the decision may be on its way for as long as the owner's transaction lives
            margin_ms = max(margin_ms, self._own.timeout_ms - self._own.age_ms + _BROKERS_LOOK_MS)
        left_ms = until - time.time() * 1000
        if left_ms < margin_ms:
            raise AbortAndRetry(
                f"a part of this batch expires in {left_ms / 1000:.0f} s, too soon for a decision (bounded). Nothing of"
                " this batch is visible. Make batches smaller, raise transaction.timeout.ms of what is prepared, or let"
                " the brokers take two-phase commit.",
                tag="ENLISTED_LATE",
            )


def _check_open(client: Client, prepared: Iterable[Prepared], deadline: Deadline) -> None:
    ended = not_open(client, [one.identity for one in prepared], deadline)
    if ended:
        raise AbortAndRetry(
            f"the prepared transaction {ended[0].transactional_id!r} has ended before its decision, and so have"
            f" {len(ended) - 1} others: by its timeout, by an operator or by another owner. Nothing of this batch"
            " is visible. Run the same work again.",
            tag="ENLISTED_ENDED",
        )


def follow(own: Ownership) -> None:
    """Commit what the last transaction has decided for on other clusters, unless that is done. Raises what
    :meth:`Enlisted.follow` raises.
    """
    if own.undone is None:
        return
    identity, prepared = own.undone
    try:
        Clusters(own.client, own.others).commit_all(prepared)
        own.progress.record_ended(identity.producer_id, identity.epoch)
    except (AbortAndRetry, Retriable) as error:
        raise Retriable(
            f"the last transaction of {own.transactional_id!r} is committed: do not write its rows again. Not all of"
            " what it decided on other clusters is visible yet. Call wait_visible() again, or begin the next"
            f" transaction, which ends it first. The cause: {error.message}",
            tag="COMMITTED",
        ) from error
    own.undone = None
