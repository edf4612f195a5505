"""The rows of a session: from its group's offsets, batch by batch, with the position."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Collection, Generator, Hashable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from semel.errors import ConfigError
from semel.read.ranges import Range
from semel.read.reader import Reader
from semel.read.start_offsets import Earliest, Latest, resolve
from semel.transaction.session.inputs import Input, RowOrder, TaskInputs
from semel.wire.api.offsets import committed
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["ADVICE", "RESETS", "SessionReader", "check_arguments", "read_positions"]

#: What a loss of rows advises.
ADVICE = "Set the group's offsets where reading is to go on, on purpose, while none of its members runs."
#: Rows that were held back for longer are handed out only if their topic is still the one that they were read from.
_HELD_S = 1.0
RESETS: dict[str, Earliest | Latest] = {"earliest": Earliest(), "latest": Latest()}


def check_arguments(group: Any, topics: Any, reset: str, *, may_grow: bool = False) -> None:
    """Raise :class:`ConfigError` for what no session can read. One that ``may_grow`` may begin without topics."""
    if not group or isinstance(topics, str) or not (topics or may_grow):
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
    """Reads ranges without an end, in this order of rows. One thread uses it."""

    def __init__(self, client: Client, ranges: Sequence[Range], *, headers: bool, order: RowOrder) -> None:
        self._client, self._ranges, self._headers, self._order = client, ranges, headers, order
        self._positions = {one.topic_partition: one.start for one in ranges}
        #: Since when rows of a partition wait to be handed out, by the clock.
        self.held: dict[TopicPartition, float] = {}
        self._reader: Reader | None = None
        self._batches = self._decoded() if ranges else None

    @property
    def positions(self) -> Mapping[TopicPartition, int]:
        """Behind the rows that were handed out."""
        return self._positions

    @property
    def log_ends(self) -> Mapping[TopicPartition, int]:
        """The end of each partition, as its last answer named it. Empty before the first answer."""
        return self._reader.log_ends if self._reader is not None else {}

    @property
    def starts(self) -> Mapping[TopicPartition, int]:
        """Where it began."""
        return {one.topic_partition: one.start for one in self._ranges}

    def next(self) -> pa.RecordBatch | None:
        """Return the next rows, or None if an answer brought nothing or there is nothing to read."""
        return next(self._batches) if self._batches is not None else None

    def close(self) -> None:
        """Close its connections."""
        if self._batches is not None:
            self._batches.close()

    def _decoded(self) -> Generator[pa.RecordBatch | None, None, None]:
        """Batches, and None for each answer that brought nothing. A position counts when its rows are handed out.

        Tasks take turns, so that rows that take long do not hold up those of others.
        """
        reader = self._reader = Reader(
            self._client,
            self._ranges,
            read_committed=_reads_committed(self._client),
            headers=self._headers,
            advice=ADVICE,
        )
        inputs = {
            partition: Input(partition, self._positions, headers=self._headers, read=self._order.reading(partition))
            for partition in self._positions
        }
        tasks = self._tasks(inputs)
        reader.paused = _not_ready(tasks)
        for taken in reader.answers(idle=True):
            for rows in taken:
                inputs[rows.part.range.topic_partition].add(rows)
            pending, handed_out = deque(task for task in tasks if task.ready), False
            while pending:
                batch = pending[0].next(reader.left)
                if batch is None:
                    pending.popleft()
                else:
                    self._check_held(reader, pending[0].partitions)
                    pending.rotate(-1)
                    handed_out = True
                    yield batch
            waiting = {partition for partition, one in inputs.items() if one.waiting}
            reader.paused = waiting | _not_ready(tasks)
            now = time.monotonic()
            self.held = {partition: self.held.get(partition, now) for partition in waiting}
            if not handed_out:
                yield None

    def _check_held(self, reader: Reader, partitions: Collection[TopicPartition]) -> None:
        """Raise :class:`~semel.errors.DataLoss` if a topic was made again while its rows waited for those of another
        input: a position of the old topic must not be committed for the new one.
        """
        now = time.monotonic()
        long = {partition for partition in partitions if now - self.held.get(partition, now) > _HELD_S}
        if long:
            reader.check(long)
            self.held.update(dict.fromkeys(long, now))

    def _tasks(self, inputs: Mapping[TopicPartition, Input]) -> list[TaskInputs]:
        """Return the tasks, each with its inputs by their places."""
        tasks: dict[Hashable, list[tuple[int, TopicPartition]]] = defaultdict(list)
        for partition in inputs:
            name, place = self._order.task(partition)
            tasks[name].append((place, partition))
        return [
            TaskInputs(name, [inputs[partition] for _, partition in sorted(one)], self._order)
            for name, one in tasks.items()
        ]


def _not_ready(tasks: Iterable[TaskInputs]) -> set[TopicPartition]:
    return {partition for task in tasks if not task.ready for partition in task.partitions}


def _reads_committed(client: Client) -> bool:
    return client.config.isolation_level == "read_committed"
