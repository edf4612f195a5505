"""The committed records of one partition below a claim, once none of the wanted ones is open.

A claim is a record of the reader itself: everything that was acknowledged before is below it, on every broker that can
answer. Later markers settle the records. Unwanted records are skipped, open or not.
"""

from __future__ import annotations

from collections.abc import Callable

from semel.errors import Retriable
from semel.read.raw_log import EndMarker, LogRecord, read_raw
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition

__all__ = ["read_settled"]


def read_settled(
    client: Client,
    partition: TopicPartition,
    claim: int,
    deadline: Deadline,
    *,
    wanted: Callable[[LogRecord], bool] = lambda _: True,
    claim_again: Callable[[], int],
    subject: str,
) -> list[LogRecord]:
    """Return the wanted records below ``claim``, in their order.

    ``claim_again`` writes a later claim, up to which is read while something is open: its marker is below that. Raises
    :class:`Retriable`, beginning with ``subject``, where it stays open until the deadline.
    """
    end = claim
    while True:
        settled: list[LogRecord] = []
        waiting: dict[int, list[LogRecord]] = {}
        # by a deadline of its own: what is open at the last reading is to be told, not that there was no time for it
        for event in read_raw(client, partition, end, client.deadline()):
            if isinstance(event, EndMarker):
                ended = waiting.pop(event.producer_id, [])
                settled += ended if event.commit else []
            elif event.offset < claim and wanted(event):
                if event.transactional:
                    waiting.setdefault(event.producer_id, []).append(event)
                else:
                    settled.append(event)
        if not waiting:
            return sorted(settled, key=lambda record: record.offset)
        if deadline.passed:
            raise Retriable(
                f"{subject} in {partition[0]}-{partition[1]} is in a transaction that stays open for"
                f" {deadline.timeout_ms:.0f} ms. Nothing was read from the source. Another program writes it: stop it,"
                " or wait for its transaction timeout.",
                tag="OFFSET_OPEN",
            )
        deadline.pause()
        end = claim_again()
