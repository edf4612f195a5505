"""The rows that an owner writes from its own process: only the partitions that they go to are added.

The end of a transaction writes a marker to each partition that was added, also to those without a row. An owner that
has the rows at hand knows where they go before it asks the coordinator. Tasks elsewhere do not: they get tickets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa

from semel.errors import AbortAndRetry
from semel.transaction.participant import Participant
from semel.transaction.routing import check_columns, plain_columns, targets
from semel.transaction.ticket import Receipt, Ticket, TicketTopic
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["LocalWriter"]


class LocalWriter:
    """Writes in one transaction. ``add`` adds partitions to it; ``issue`` gives the ticket of a whole topic.

    Rows without a key begin at partition ``first``, of as many as there are, and move on with each call.
    """

    def __init__(
        self,
        client: Client,
        *,
        add: Callable[[set[TopicPartition]], None],
        issue: Callable[[tuple[TopicPartition, ...], Mapping[str, TicketTopic]], Ticket],
        first: int,
    ) -> None:
        self._client, self._add, self._issue = client, add, issue
        self._participants: dict[str, Participant] = {}
        self._failed = False
        self._sticky = first

    def __contains__(self, topic: str) -> bool:
        """Return True if rows of the topic have been sent."""
        return topic in self._participants

    def send(self, topic: str, facts: TicketTopic, rows: pa.Table | pa.RecordBatch, *, wait: bool = True) -> None:
        """Write rows, columns as for :meth:`Participant.send`. They are acknowledged when it returns, unless it does
        not ``wait``.

        Raises :class:`~semel.errors.ConfigError` for rows that cannot be written, before anything of them is sent, and
        what adding and :meth:`Participant.flush` raise. Then there are no :meth:`receipts`.
        """
        failed, self._failed = self._failed, True
        check_columns(rows)
        if rows.num_rows:
            rows = plain_columns(rows)
            self._sticky += 1
            target = targets(topic, rows, facts.partitions, self._sticky % facts.partitions)
            self._add({(topic, index) for index in np.unique(target).tolist()})
            participant = self._participant(topic, facts)
            participant.write_placed(topic, rows, target)
            if wait:
                participant.flush()
        self._failed = failed

    def _participant(self, topic: str, facts: TicketTopic) -> Participant:
        # its ticket names the identity, which the first request of a transaction may change: so it comes after that
        if topic not in self._participants:
            every = tuple((topic, index) for index in range(facts.partitions))
            self._participants[topic] = Participant(self._client, self._issue(every, {topic: facts}))
        return self._participants[topic]

    def receipts(self) -> list[Receipt]:
        """Wait until all is acknowledged, and return the receipts. Nothing more can be written then.

        Raises :class:`AbortAndRetry` after a failure, and what :meth:`Participant.flush` raises.
        """
        if self._failed:
            raise AbortAndRetry(
                "rows of this transaction were refused, or could not be sent. Nothing of it is visible once it is"
                " aborted. Abort it, correct the rows, and run the same work again.",
                tag="NO_RECEIPT",
            )
        return [participant.receipt for participant in self._participants.values()]
