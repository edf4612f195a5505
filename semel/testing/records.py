"""Reads of topics by a client that is not semel's (confluent-kafka), from the earliest record to the end,
read_committed.

The end is the broker's end when reading begins, open transactions included: they are waited for, and named if they stay
open. Records become Arrow columns as they come, so a million of them take tens of megabytes.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from semel.errors import ConfigError, DataLoss, Retriable

__all__ = ["Field", "arrived", "client_properties", "read"]

Ends = dict[tuple[str, int], int]

_CHUNK = 10_000
_POLL_S = 0.05
_REQUEST_S = 10.0
#: Answers of brokers while a topic is new or a leader changes. The client's own ``retriable()`` does not cover them
#: here.
_PASSING = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
    }
)


@dataclass(frozen=True, slots=True)
class Field:
    """The place of a value in a record: ``key``, ``value``, ``header:NAME``, ``json:$.path.in.value``, ``partition`` or
    ``offset``.
    """

    kind: str
    path: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Field:
        """Parse the text. Raise :class:`ConfigError` if it names no place."""
        kind, _, rest = text.partition(":")
        if text in ("key", "value", "partition", "offset"):
            return cls(text)
        if kind == "header" and rest:
            return cls(kind, (rest,))
        if kind == "json" and rest.startswith("$.") and all(rest[2:].split(".")):
            return cls(kind, tuple(rest[2:].split(".")))
        raise ConfigError(
            f"{text!r} names no place in a record. Nothing was read. It is key, value, header:NAME, json:$.field,"
            " partition or offset."
        )

    def reader(self) -> Callable[[Any], str | None]:
        """Return a function that reads the value from a confluent-kafka message, as text; None if the record lacks
        it.
        """
        if self.kind == "header":
            name = self.path[0]
            return lambda message: _text(dict(message.headers() or ()).get(name))
        if self.kind == "json":
            return self._from_json
        return {
            "key": lambda message: _text(message.key()),
            "value": lambda message: _text(message.value()),
            "partition": lambda message: str(message.partition()),
            "offset": lambda message: str(message.offset()),
        }[self.kind]

    def _from_json(self, message: Any) -> str | None:
        try:
            value = json.loads(message.value())
            for name in self.path:
                value = value[name]
        except (TypeError, ValueError, KeyError):
            return None
        return value if value is None or isinstance(value, str) else json.dumps(value, sort_keys=True)


def client_properties(cluster: str | Mapping[str, str]) -> dict[str, str]:
    """Return properties for confluent-kafka, from bootstrap servers or from properties."""
    return {"bootstrap.servers": cluster} if isinstance(cluster, str) else dict(cluster)


def read(
    cluster: str | Mapping[str, str],
    topics: Sequence[str],
    fields: Mapping[str, str],
    *,
    timeout: float = 60,
    wait_for_open: bool = True,
    missing: str | None = None,
) -> pa.Table:
    """Return all committed records: columns ``topic``, ``partition``, ``offset``, and a text column for each of
    ``fields`` (name: place).

    Raise :class:`Retriable` if the end is not reached within ``timeout`` seconds. Raise :class:`ConfigError` for a
    record without a field, unless ``missing`` gives its replacement (a tombstone has no value). With
    ``wait_for_open=False``, records after an open transaction are not waited for, and not read.
    """
    deadline = time.monotonic() + timeout
    properties = client_properties(cluster)
    readers = {name: Field.parse(place).reader() for name, place in fields.items()}
    ends = _ends(properties, topics, deadline, wait_for_open)
    chunks = [_columns(messages, readers, fields, missing) for messages in _messages(properties, ends, deadline)]
    schema = pa.schema(
        {"topic": pa.string(), "partition": pa.int32(), "offset": pa.int64()} | dict.fromkeys(fields, pa.string())
    )
    return pa.Table.from_batches([chunk.cast(schema) for chunk in chunks], schema)


def arrived(cluster: str | Mapping[str, str], *topics: str) -> int:
    """Return the number of records that a read_committed reader sees in these topics now, to wait for a running
    program.
    """
    return int(read(cluster, topics, {}, wait_for_open=False).num_rows)


def _columns(
    messages: Sequence[Any],
    readers: Mapping[str, Callable[[Any], str | None]],
    fields: Mapping[str, str],
    missing: str | None,
) -> pa.RecordBatch:
    columns: dict[str, Any] = {
        "topic": pa.array([message.topic() for message in messages], pa.string()),
        "partition": pa.array([message.partition() for message in messages], pa.int32()),
        "offset": pa.array([message.offset() for message in messages], pa.int64()),
    }
    for name, reader in readers.items():
        column = pa.array(map(reader, messages), pa.string())
        if missing is not None:
            column = column.fill_null(missing)
        if column.null_count:
            first = next(message for message in messages if reader(message) is None)
            raise ConfigError(
                f"the record at {first.topic()}-{first.partition()}@{first.offset()} has no {fields[name]}, so that"
                " nothing can be said of it. Name the place where every record carries it."
            )
        columns[name] = column
    return pa.RecordBatch.from_pydict(columns)


# ---- where to stop


def _ends(properties: Mapping[str, str], topics: Sequence[str], deadline: float, wait_for_open: bool) -> Ends:
    admin = AdminClient(dict(properties))
    partitions = [TopicPartition(topic, index) for topic in topics for index in _partitions(admin, topic)]
    if not wait_for_open:
        return _latest(admin, partitions, IsolationLevel.READ_COMMITTED, deadline)
    ends = _latest(admin, partitions, IsolationLevel.READ_UNCOMMITTED, deadline)
    while True:
        stable = _latest(admin, partitions, IsolationLevel.READ_COMMITTED, deadline)
        held = {partition: stable[partition] for partition, end in ends.items() if stable[partition] < end}
        if not held:
            return ends
        if time.monotonic() > deadline:
            raise Retriable(
                f"open transactions hide what is after {_places(held)}: no reader sees it, so that nothing can be"
                " said yet. End them (they end by themselves after their timeout), then ask again.",
                tag="OPEN_TRANSACTION",
            )
        time.sleep(_POLL_S)


def _partitions(admin: Any, topic: str) -> list[int]:
    metadata = admin.list_topics(topic, timeout=_REQUEST_S).topics[topic]
    if metadata.error is not None:
        raise ConfigError(
            f"topic {topic} cannot be read: {metadata.error.str()}. Nothing was checked.", tag="UNKNOWN_TOPIC"
        )
    return sorted(metadata.partitions)


def _latest(admin: Any, partitions: Sequence[Any], isolation: Any, deadline: float) -> Ends:
    asked = {partition: OffsetSpec.latest() for partition in partitions}
    while True:
        answers = admin.list_offsets(asked, isolation_level=isolation, request_timeout=_REQUEST_S)
        try:
            return {
                (partition.topic, partition.partition): answer.result().offset for partition, answer in answers.items()
            }
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                raise
        time.sleep(_POLL_S)


# ---- reading up to there


def _messages(properties: Mapping[str, str], ends: Ends, deadline: float) -> Iterator[list[Any]]:
    """Yield lists of messages below the ends.

    A partition is done when a message or the end of the visible records reaches its end.
    """
    left = {partition: end for partition, end in ends.items() if end > 0}
    consumer = Consumer(
        {
            **properties,
            "group.id": f"semel-history-{uuid.uuid4()}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for topic, index in left])
        while left:
            got = consumer.consume(_CHUNK, timeout=_POLL_S)
            if messages := [message for message in got if _counts(message, left)]:
                yield messages
            if left and time.monotonic() > deadline:
                raise Retriable(f"not all could be read in time: {_places(left)} are the ends that were not reached.")
    finally:
        consumer.close()


def _counts(message: Any, left: Ends) -> bool:
    partition = (message.topic(), message.partition())
    problem = message.error()
    if problem is not None and problem.code() != KafkaError._PARTITION_EOF:
        if problem.code() == KafkaError._AUTO_OFFSET_RESET:
            raise DataLoss(
                f"{partition[0]}-{partition[1]} lost records while it was read: {problem.str()}. Nothing was checked."
                " Read it again."
            )
        raise KafkaException(problem)
    end = left.get(partition)
    if end is None:
        return False
    reached = message.offset() + (problem is None)
    if reached >= end:
        del left[partition]
    return problem is None and reached <= end


def _places(offsets: Ends) -> str:
    named = [f"{topic}-{index}@{offset}" for (topic, index), offset in sorted(offsets.items())]
    return ", ".join(named[:5]) + (f" and {len(named) - 5} more" if len(named) > 5 else "")


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode(errors="backslashreplace")
