"""A raw read of one partition: records and markers, uncommitted too, up to a given offset (PROTOCOL 2, step 3).

The end is the offset of the reader's own write, never a high watermark: a deposed leader, or a new one that lags, names
an old one (measured). Such a leader answers a fetch beyond its log with nothing. So the read repeats until it reaches
the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from semel.errors import Retriable
from semel.records.control import marker
from semel.records.decode import portions
from semel.records.header import BatchHeader, scan
from semel.wire import error_codes
from semel.wire.api.fetch import fetch
from semel.wire.api.fetch_frames import Fetched, Position
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.error_codes import Action
from semel.wire.metadata import TopicPartition

__all__ = ["EndMarker", "LogRecord", "aborted_from", "end_after", "first_record", "read_raw", "written_by"]

#: Bytes of one fetch for the first record: some hundred markers, or the batch with that record.
_LOOK_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A record, committed or not, and its producer.

    ``transactional`` is False for a plain record. Its producer may have an id too.
    """

    offset: int
    producer_id: int
    epoch: int
    transactional: bool
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class EndMarker:
    """The marker that ended a transaction of ``producer_id`` on this partition. ``time_ms`` is when, by its leader's
    clock; -1 if that is unknown.
    """

    offset: int
    producer_id: int
    epoch: int
    commit: bool
    time_ms: int = field(default=-1, compare=False)


def read_raw(
    client: Client, partition: TopicPartition, end: int, deadline: Deadline, *, start: int | None = None
) -> Iterator[LogRecord | EndMarker]:
    """Yield all records and markers of the partition below offset ``end``, in order, from ``start`` or the beginning.

    Raise :class:`Retriable` at the deadline.
    """
    start = _start(client, partition, deadline) if start is None else start
    for buffer, header in _batches(client, partition, start, end, deadline):
        yield from (event for event in _events(buffer, header, start, partition) if event.offset < end)


def first_record(
    client: Client, partition: TopicPartition, start: int, end: int, deadline: Deadline
) -> LogRecord | None:
    """Return the first record from ``start`` to below ``end``, committed or not. None if there are only markers.

    A log may begin with markers: rows were deleted up to a reader's position, which is before the marker that follows
    them. Raise :class:`Retriable` at the deadline.
    """
    for buffer, header in _batches(client, partition, start, end, deadline, max_bytes=_LOOK_BYTES):
        for event in _events(buffer, header, start, partition):
            if isinstance(event, LogRecord):
                return event
    return None


def end_after(
    client: Client, partition: TopicPartition, producer_id: int, offset: int, deadline: Deadline
) -> EndMarker | None:
    """Return the next marker of ``producer_id`` after ``offset``. None if there is none up to the end, or if the log
    begins after that offset.
    """
    end = list_offsets(client, {partition: LATEST}, read_committed=False, deadline=deadline)[partition].offset
    if _start(client, partition, deadline) > offset:
        return None
    for buffer, header in _batches(client, partition, offset + 1, end, deadline):
        if header.control and header.producer_id == producer_id:
            for event in _events(buffer, header, offset, partition):
                return event if isinstance(event, EndMarker) else None
    return None


def written_by(client: Client, partition: TopicPartition, offset: int, deadline: Deadline) -> tuple[int, int] | None:
    """Return producer id and epoch in the header of the batch that holds ``offset``. None if the log begins after
    it.
    """
    if _start(client, partition, deadline) > offset:
        return None
    _, header = next(_batches(client, partition, offset, offset + 1, deadline))
    return header.producer_id, header.producer_epoch


def aborted_from(
    client: Client, partition: TopicPartition, producer_id: int, first: int, deadline: Deadline
) -> bool | None:
    """Return True if the transaction whose first row is at ``first`` was aborted. None if the log begins after it, or
    another transaction is open before it.
    """
    if _start(client, partition, deadline) > first:
        return None
    topic_id = client.topics({partition[0]}, deadline)[partition[0]].id
    fetched = _fetch(client, partition, Position(topic_id, first), deadline, read_committed=True)
    return (producer_id, first) in fetched.aborted if fetched.last_stable_offset > first else None


def _start(client: Client, partition: TopicPartition, deadline: Deadline) -> int:
    return list_offsets(client, {partition: EARLIEST}, read_committed=False, deadline=deadline)[partition].offset


def _batches(
    client: Client,
    partition: TopicPartition,
    offset: int,
    end: int,
    deadline: Deadline,
    *,
    max_bytes: int | None = None,
) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Yield the batches up to offset ``end``, from the one that holds ``offset``, each with its buffer."""
    topic_id = client.topics({partition[0]}, deadline)[partition[0]].id
    while offset < end:
        fetched = _fetch(client, partition, Position(topic_id, offset), deadline, max_bytes=max_bytes)
        for header in scan(fetched.records, where=f"{partition[0]}-{partition[1]}"):
            if header.last_offset >= offset:
                yield fetched.records, header
                offset = header.next_offset


def _fetch(
    client: Client,
    partition: TopicPartition,
    position: Position,
    deadline: Deadline,
    *,
    read_committed: bool = False,
    max_bytes: int | None = None,
) -> Fetched:
    problem = "no leader"
    while not deadline.passed:
        led = client.topics({partition[0]}, deadline)[partition[0]].partitions.get(
            partition[1]
        )  # a topic that was created again may have fewer
        try:
            if led is not None and led.leader >= 0:
                fetched = fetch(
                    client,
                    led.leader,
                    {partition: position},
                    read_committed=read_committed,
                    max_wait_ms=50,
                    max_bytes=max_bytes,
                    deadline=deadline,
                )[partition]
                verdict = error_codes.of("Fetch", fetched.code)
                if verdict is Action.OK:
                    return fetched
                if not verdict.temporary:
                    raise error_codes.error(
                        "Fetch", fetched.code, f"reading {partition[0]}-{partition[1]}", "Nothing was written."
                    )
                problem = error_codes.name(fetched.code)
        except Retriable as error:
            problem = error.message
        deadline.pause()
        client.refresh({partition[0]}, deadline)
    subject = f"{partition[0]}-{partition[1]} could not be read within {deadline.timeout_ms:.0f} ms"
    raise error_codes.given_up(subject, problem, "Reading changes nothing.")


def _events(
    buffer: memoryview, header: BatchHeader, start: int, partition: TopicPartition
) -> Iterator[LogRecord | EndMarker]:
    if header.control:
        end_marker = marker(buffer, header)
        if end_marker is not None:
            writer = (header.producer_id, header.producer_epoch)
            yield EndMarker(header.base_offset, *writer, end_marker.committed, header.max_timestamp)
        return
    for rows, _ in portions(
        buffer, [header], start=start, where=f"{partition[0]}-{partition[1]}", timestamp_overflow="null"
    ):
        keys, values, offsets = (rows.column(name).to_pylist() for name in ("key", "value", "offset"))
        for key, value, offset in zip(keys, values, offsets, strict=True):
            yield LogRecord(offset, header.producer_id, header.producer_epoch, header.transactional, key, value)
