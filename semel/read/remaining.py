"""How many records are left for a reader: markers and aborted rows take offsets, and no reader waits for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from semel.errors import SemelError
from semel.read.isolation import visible
from semel.records.control import is_abort
from semel.records.header import scan
from semel.wire import error_codes
from semel.wire.api.fetch import fetch
from semel.wire.api.fetch_frames import Fetched, Position
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.error_codes import Action
from semel.wire.metadata import TopicPartition

__all__ = ["remaining_records"]

#: Where more offsets than these remain, or in more partitions, markers make no difference that matters.
_FEW_OFFSETS, _FEW_PARTITIONS = 1_000, 200
#: Bytes of one look at a partition: some hundred markers, or the first batch.
_LOOK_BYTES = 32 << 10


def remaining_records(
    client: Client, ranges: Mapping[TopicPartition, tuple[int, int]], deadline: Deadline
) -> dict[TopicPartition, int]:
    """Return how many records a ``read_committed`` reader still gets, by partition, for (next offset, end).

    Short ranges are looked at, with one request to each leader. What that look does not reach, and what cannot be read,
    counts by its offsets. So a number is never too low, and 0 where only markers and aborted rows are left.
    """
    left = {partition: max(end - first, 0) for partition, (first, end) in ranges.items()}
    few = [partition for partition, offsets in left.items() if 0 < offsets <= _FEW_OFFSETS][:_FEW_PARTITIONS]
    for partition, fetched in _fetched(client, {one: ranges[one][0] for one in few}, deadline).items():
        if error_codes.of("Fetch", fetched.code) is Action.OK:
            with suppress(SemelError):  # damaged: its reader says so
                left[partition] = _count(fetched, *ranges[partition], where=f"{partition[0]}-{partition[1]}")
    return left


def _fetched(
    client: Client, positions: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, Fetched]:
    try:
        topics = client.topics({topic for topic, _ in positions}, deadline) if positions else {}
        led: dict[int, dict[TopicPartition, Position]] = defaultdict(dict)
        for (topic, index), offset in positions.items():
            one = topics[topic].partitions.get(index)
            if one is not None and one.leader >= 0:
                led[one.leader][topic, index] = Position(topics[topic].id, offset)
        answers: dict[TopicPartition, Fetched] = {}
        for leader, asked in led.items():
            answers |= fetch(
                client, leader, asked, read_committed=True, max_wait_ms=0, max_bytes=_LOOK_BYTES, deadline=deadline
            )
    except SemelError:  # offsets say enough
        return {}
    return answers


def _count(fetched: Fetched, first: int, end: int, *, where: str) -> int:
    aborts = partial(is_abort, fetched.records, where=where)
    headers = [header for header in scan(fetched.records, where=where) if header.base_offset < end]
    seen_to = headers[-1].next_offset if headers else first
    records = sum(
        min(header.count, header.last_offset + 1 - max(header.base_offset, first))
        for header in visible(headers, fetched.aborted, aborts, read_committed=True)
        if header.last_offset >= first
    )
    return records + max(end - seen_to, 0)
