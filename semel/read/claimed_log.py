"""A log up to a claim of its reader: which records count, as the markers after them say.

A claim is a record of the reader itself: everything that was acknowledged before is below it, on every broker that can
answer. Later markers settle the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from semel.errors import Retriable
from semel.read.raw_log import EndMarker, LogRecord, read_raw
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition

__all__ = ["Settled", "read_settled", "settle"]


@dataclass(frozen=True, slots=True)
class Settled:
    """A record, and how its transaction ended: committed, aborted, or None while it is open. A plain one is committed.

    ``ended_ms`` is the time of the marker, by its leader's clock; -1 where none was seen.
    """

    record: LogRecord
    committed: bool | None
    ended_ms: int = -1


def settle(
    events: Iterable[LogRecord | EndMarker], wanted: Callable[[LogRecord], bool] = lambda _: True
) -> list[Settled]:
    """Return the wanted records in their order, each settled by the next marker of its producer id after it, whatever
    that marker's epoch.
    """
    settled: list[Settled] = []
    waiting: dict[int, list[int]] = {}
    for event in events:
        if isinstance(event, EndMarker):
            for index in waiting.pop(event.producer_id, ()):
                settled[index] = replace(settled[index], committed=event.commit, ended_ms=event.time_ms)
        elif wanted(event):
            if event.transactional:
                waiting.setdefault(event.producer_id, []).append(len(settled))
            settled.append(Settled(event, None if event.transactional else True))
    return settled


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
    """Return the committed records below ``claim``, in their order, once none of the wanted ones is open. Unwanted
    records are skipped, open or not.

    ``claim_again`` writes a later claim, up to which is read while something is open: its marker is below that. Raises
    :class:`Retriable`, beginning with ``subject``, where it stays open until the deadline.
    """
    end = claim
    while True:
        # by a deadline of its own: what is open at the last reading is reported, not that there was no time for it
        events = read_raw(client, partition, end, client.deadline())
        settled = settle(events, lambda record: record.offset < claim and wanted(record))
        if all(one.committed is not None for one in settled):
            return [one.record for one in settled if one.committed]
        if deadline.passed:
            raise Retriable(
                f"{subject} in {partition[0]}-{partition[1]} is in a transaction that stays open for"
                f" {deadline.timeout_ms:.0f} ms. Nothing was read from the source. Another program writes it: stop it,"
                " or wait for its transaction timeout.",
                tag="OFFSET_OPEN",
            )
        deadline.pause()
        end = claim_again()
