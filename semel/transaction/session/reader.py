"""The rows of a session: from its group's offsets, batch by batch, with the position."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from semel.errors import ConfigError
from semel.read.cursor import Taken
from semel.read.ranges import Range
from semel.read.reader import MAX_ROWS, Reader
from semel.read.start_offsets import Earliest, Latest, resolve
from semel.wire.api.offsets import committed
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["ADVICE", "RESETS", "SessionReader", "check_arguments", "read_positions"]

#: What a loss of rows advises.
ADVICE = "Set the group's offsets where reading is to go on, on purpose, while none of its members runs."
RESETS: dict[str, Earliest | Latest] = {"earliest": Earliest(), "latest": Latest()}


def check_arguments(group: Any, topics: Any, reset: str) -> None:
    """Raise :class:`ConfigError` for what no session can read."""
    if not group or isinstance(topics, str) or not topics:
        raise ConfigError(
            'a session needs a group and a list of topics. Nothing was read. Give group="orders", topics=["in"].'
        )
    if reset not in RESETS:
        raise ConfigError(
            f"auto_offset_reset={reset!r} is neither earliest nor latest. Nothing was read. Give one of them: it says"
            " where a partition begins for which the group has committed nothing."
        )


def read_positions(
    client: Client,
    group: str,
    partitions: Collection[TopicPartition],
    reset: Earliest | Latest,
    from_earliest: Collection[str] = (),
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return the group's offsets, once nothing is pending there any more, so that a predecessor's commit counts or does
    not; and where each partition is read from. Partitions without an offset begin by ``reset``, and those of topics in
    ``from_earliest`` at the earliest offset.
    """
    _learn(client, partitions)
    stands = committed(client, group, partitions, require_stable=True) if partitions else {}
    missing = set(partitions) - stands.keys()
    positions = dict(stands)
    if missing:
        begun = {partition for partition in missing if partition[0] in from_earliest}
        positions |= resolve(client, missing - begun, reset, read_committed=_reads_committed(client))
        positions |= resolve(client, begun, Earliest(), read_committed=_reads_committed(client))
    return dict(stands), {partition: positions[partition] for partition in sorted(partitions)}


def _learn(client: Client, partitions: Collection[TopicPartition]) -> None:
    """Have the client know the partitions that the group has assigned: it may have noticed first that some were added.
    A broker that does not know one either within the deadline has it refused.
    """
    topics, deadline = {topic for topic, _ in partitions}, client.deadline()
    metadata = client.topics(topics)
    while any(index not in metadata[topic].partitions for topic, index in partitions) and not deadline.passed:
        client.refresh(topics, deadline)
        metadata = client.topics(topics)
        deadline.pause()


class SessionReader:
    """Reads ranges without an end. One thread uses it.

    ``max_rows`` is asked before each batch how many rows of a partition it may have.
    """

    def __init__(
        self, client: Client, ranges: Sequence[Range], *, headers: bool, max_rows: Callable[[TopicPartition], int]
    ) -> None:
        self._client, self._ranges, self._headers, self._max_rows = client, ranges, headers, max_rows
        self._positions = {one.topic_partition: one.start for one in ranges}
        self._batches = self._decoded() if ranges else None

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Behind the rows that were handed out."""
        return self._positions

    def next(self) -> pa.RecordBatch | None:
        """Return the next rows, or None if an answer brought nothing or there is nothing to read."""
        return next(self._batches) if self._batches is not None else None

    def close(self) -> None:
        """Close its connections."""
        if self._batches is not None:
            self._batches.close()

    def _decoded(self) -> Generator[pa.RecordBatch | None, None, None]:
        """Batches, and None for each answer that brought nothing. A position counts when its rows are handed out.

        The partitions of an answer take turns, so that rows that take long do not hold up those of others.
        """
        reader = Reader(
            self._client,
            self._ranges,
            read_committed=_reads_committed(self._client),
            headers=self._headers,
            advice=ADVICE,
        )
        for taken in reader.answers(idle=True):
            pending = deque(self._pieces(rows) for rows in taken)
            while pending:
                pieces = pending.popleft()
                piece = next(pieces, None)
                if piece is not None:
                    pending.append(pieces)
                    yield piece
            if not taken:
                yield None

    def _pieces(self, rows: Taken) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition, as many at a time as it may have."""
        partition = rows.part.range.topic_partition
        for batch, position in rows.decode(headers=self._headers, max_rows=MAX_ROWS):
            for piece, after in self._slices(partition, batch, position):
                self._positions[partition] = after
                yield piece
        self._positions[partition] = rows.end

    def _slices(self, partition: TopicPartition, batch: Any, end: int) -> Iterator[tuple[Any, int]]:
        """Yield the rows in slices, each with the position after it. A commit between two of them is exact."""
        first = 0
        while first < batch.num_rows:
            piece = batch.slice(first, self._max_rows(partition))
            first += piece.num_rows
            yield piece, end if first == batch.num_rows else piece["offset"][piece.num_rows - 1].as_py() + 1


def _reads_committed(client: Client) -> bool:
    return client.config.isolation_level == "read_committed"
