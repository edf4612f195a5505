"""Late markers: on brokers before 4.2, the epoch that the markers of a transaction carry is not used by the next one.

The marker of a transaction carries the epoch after its rows'. EndTxn hands out that epoch for the next transaction. A
coordinator that moves may send a marker twice, the second time late. Brokers of 4.2 and newer refuse it by
WriteTxnMarkers version 2. Older ones take it, and it ends half of the next transaction. One epoch further, a partition
with rows of the next transaction refuses it (47). Before those rows it ends nothing (measured on 4.0.2 and 4.1.2).
"""

from __future__ import annotations

from semel.errors import Retriable
from semel.wire.api.transactions import Identity, end
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.error_codes import name

__all__ = ["skip_epoch", "turn"]

#: Another owner has the id, or it has expired unused.
_NOT_OURS = (47, 49, 90)


def skip_epoch(client: Client, identity: Identity, deadline: Deadline) -> Identity | None:
    """Leave out the epoch of ``identity``, which EndTxn has handed out and nothing has used. Return the next one, or
    None if the id is not this owner's any more: then ``identity`` is refused in any request.

    Call this once the markers of the last transaction have been seen. It is the abort of a transaction with nothing in
    it. Sent again, it is answered the same. Sent late, it is refused, and aborts nothing. InitProducerId, sent late,
    would abort what a successor has open.

    Raises :class:`Retriable` if no coordinator answers: call it again before the next transaction.
    """
    answer = end(client, identity, commit=False, deadline=deadline)
    if answer.code not in (0, *_NOT_OURS):
        raise Retriable(
            f"the coordinator of {identity.transactional_id!r} answered {name(answer.code)} before a new transaction."
            " Nothing new was written. Begin the transaction again.",
            tag=name(answer.code),
        )
    return answer.identity if answer.code == 0 else None


def turn(identity: Identity, *, skips_epochs: bool) -> int:
    """Return a number that rises by one from one transaction of an owner to the next, for what takes turns."""
    return identity.epoch // (2 if skips_epochs else 1)
