"""The rows that an owner writes from its own process: only the partitions that they go to are added.

The end of a transaction writes a marker to each partition that was added, also to those without a row. An owner that
has the rows at hand knows where they go before it asks the coordinator. Tasks elsewhere do not: they get tickets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semel.errors import AbortAndRetry
from semel.transaction.participant import Participant
from semel.transaction.routing import check_columns, plain_columns, targets
from semel.transaction.ticket import Receipt, Tickets, TicketTopic
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["LocalWriter"]

Rows: TypeAlias = pa.Table | pa.RecordBatch


class LocalWriter:
    """Writes in one transaction, with one ticket that gets each topic as it comes.

    ``add`` adds partitions to the transaction, ``identity`` is asked after that: the first request of a transaction may
    change it. Rows without a key begin at partition ``first``, of as many as there are, and move on with each call.
    Without ``keys``, rows with one do so too.
    """

    def __init__(
        self,
        client: Client,
        tickets: Tickets,
        *,
        identity: Callable[[], Identity],
        add: Callable[[set[TopicPartition]], None],
        first: int,
        keys: bool = True,
    ) -> None:
        self._client, self._tickets, self._identity, self._add = client, tickets, identity, add
        self._participant: Participant | None = None
        self._topics: set[str] = set()
        self._failed = False
        self._sticky = first
        self._keys = keys

    def __contains__(self, topic: str) -> bool:
        """Return True if rows of the topic have been sent."""
        return topic in self._topics

    def send(
        self,
        rows: Mapping[str, Rows],
        topics: Mapping[str, TicketTopic],
        *,
        soon: Collection[TopicPartition] = (),
        wait: bool = True,
        more: bool = False,
    ) -> None:
        """Write the rows of each topic, columns as for :meth:`Participant.send`. They are acknowledged when it returns,
        unless it does not ``wait``.

        ``topics`` has the facts about each topic. Partitions that rows will go to ``soon`` are added in the same
        request. With ``more``, rows that do not fill a request wait for those of the next call.

        Raises :class:`~semel.errors.ConfigError` for rows that cannot be written, before anything of them is sent, and
        what adding and :meth:`Participant.flush` raise. Then there are no :meth:`receipts`.
        """
        failed, self._failed = self._failed, True
        placed = self._place(rows, topics)
        if placed:
            self._add({*soon, *((name, index) for name, (_, to) in placed.items() for index in np.unique(to).tolist())})
            participant = self._with_topics({name: topics[name] for name in placed})
            for name, (table, target) in placed.items():
                participant.write_placed(name, table, target, more=more)
            if wait:
                participant.flush()
        self._failed = failed

    def _place(
        self, rows: Mapping[str, Rows], topics: Mapping[str, TicketTopic]
    ) -> dict[str, tuple[Rows, npt.NDArray[np.int64]]]:
        placed = {}
        for name, table in rows.items():
            check_columns(table)
            if table.num_rows:
                self._sticky += 1
                plain, count = plain_columns(table), topics[name].partitions
                placed[name] = plain, targets(name, plain, count, self._sticky % count, keys=self._keys)
        return placed

    def _with_topics(self, topics: Mapping[str, TicketTopic]) -> Participant:
        new = {name: facts for name, facts in topics.items() if name not in self._topics}
        share = tuple((name, index) for name, facts in new.items() for index in range(facts.partitions))
        if self._participant is None:
            self._participant = Participant(self._client, self._tickets.issue(self._identity(), share, new))
        elif new:
            self._participant.widen(self._tickets.widen(self._participant.ticket, share, new))
        self._topics.update(new)
        return self._participant

    def receipts(self) -> list[Receipt]:
        """Wait until all is acknowledged, and return the receipt, if there are rows. Nothing more can be written then.

        Raises :class:`AbortAndRetry` after a failure, and what :meth:`Participant.flush` raises.
        """
        if self._failed:
            raise AbortAndRetry(
                "rows of this transaction were refused, or could not be sent. Nothing of it is visible once it is"
                " aborted. Abort it, correct the rows, and run the same work again.",
                tag="NO_RECEIPT",
            )
        return [self._participant.receipt] if self._participant is not None else []
