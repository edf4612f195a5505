"""The classes that the author of a connector imports.

::

    class Numbers(SourceConnector):
        config = {"topic": str, "limit": Setting(int, default=100)}
        def task(self): return NumbersTask()

    class NumbersTask(SourceTask):
        def start(self, config, context):
            self.topic, self.limit = config["topic"], config["limit"]
            self.next = (context.offset({"id": "numbers"}) or {"next": 0})["next"]
        def poll(self):
            if self.next >= self.limit:
                return None
            self.next += 1
            return [SourceRecord(self.topic, str(self.next), {"id": "numbers"}, {"next": self.next})]

The task asks where it stands when it starts, and remembers it by itself from then on. Records and the offsets that come
with them are committed together, or not at all; after a crash a new task asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from semel.serdes.schemas import Field, Schema, Struct
from semel.serdes.schemas.arrow import arrow_field
from semel.settings import REQUIRED, Setting

__all__ = [
    "REQUIRED",
    "Field",
    "Offset",
    "Partition",
    "Polled",
    "Schema",
    "Setting",
    "SourceBatch",
    "SourceConnector",
    "SourceRecord",
    "SourceTask",
    "Struct",
    "TaskContext",
    "TransactionContext",
    "arrow_field",
]

#: Which part of a source: flat, with text as keys. Equal ones share one offset.
Partition = Mapping[str, Any]
#: How far that part was read: flat, with text as keys. None forgets it.
Offset = Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One record, and the offset of its source partition once it is written.

    With a schema, a value is what the schema says, and an error if it does not fit. Without one it is what it is in
    Python. Nothing is inferred from other records. ``timestamp`` is in milliseconds. Without ``kafka_partition``
    the key decides, by Kafka's own rule. ``headers`` are pairs of a name and text, bytes or nothing.
    """

    topic: str
    value: Any
    partition: Partition
    offset: Offset
    key: Any = None
    kafka_partition: int | None = None
    timestamp: int | None = None
    headers: Sequence[tuple[str, str | bytes | None]] = ()
    key_schema: Schema | None = None
    value_schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Many records as a table: ``value``, and maybe ``key``, ``partition``, ``timestamp`` and ``headers``.

    The fields of ``key`` and ``value`` are their schemas; :func:`arrow_field` makes one of a schema. The one
    ``offset`` counts once all of them are written.
    """

    topic: str
    table: pa.Table
    partition: Partition
    offset: Offset


Polled = SourceBatch | Sequence[SourceRecord] | None


class TransactionContext:
    """The ends of a task's transactions, with ``transaction.boundary=connector``.

    A request without a record is for all records of the next poll, and takes effect after them. A request with a record
    takes effect directly after that record, and counts if both are there. Aborted records are discarded. Their offsets
    are committed all the same, so that the task does not read them again. To read them again, raise an error.
    """

    def __init__(self) -> None:
        self._batch: bool | None = None
        self._records: dict[int, tuple[SourceRecord, bool]] = {}

    def commit_transaction(self, record: SourceRecord | None = None) -> None:
        """Commit after this record, or after the next poll."""
        self._request(record, commit=True)

    def abort_transaction(self, record: SourceRecord | None = None) -> None:
        """Abort after this record, or after the next poll."""
        self._request(record, commit=False)

    def _request(self, record: SourceRecord | None, *, commit: bool) -> None:
        asked = self._batch if record is None else self._records.get(id(record), (record, commit))[1]
        if asked is not None and asked is not commit:
            raise ValueError("commit and abort were both asked for at one place of a transaction")
        if record is None:
            self._batch = commit
        else:
            self._records[id(record)] = record, commit

    def take_batch(self) -> bool | None:
        """Return the request for the end of this poll, once: True to commit, False to abort, None without one."""
        asked, self._batch = self._batch, None
        return asked

    def take_record(self, record: SourceRecord) -> bool | None:
        """Return the request for the end of this record."""
        return self._records.pop(id(record), (record, None))[1]


class TaskContext:
    """The questions that a task may ask. ``transaction`` is set if the task may say where transactions end."""

    def __init__(self, find: Callable[[Partition], Offset], transaction: TransactionContext | None = None) -> None:
        self._find, self.transaction = find, transaction

    def offset(self, partition: Partition) -> Offset:
        """Return the committed offset of a source partition at the start of this task, or None."""
        return self._find(partition)


class SourceTask:
    """Reads one share of a source. All calls come from one thread."""

    def start(self, config: Mapping[str, Any], context: TaskContext) -> None:
        """Open the source where the offsets say."""
        raise NotImplementedError(f"{type(self).__name__} has no method start")

    def poll(self) -> Polled:
        """Give what is there; None, or nothing in it, when there is nothing now. May wait for about a second."""
        raise NotImplementedError(f"{type(self).__name__} has no method poll")

    def commit(self) -> None:
        """Hear that all that was polled so far is committed. Called after each commit."""

    def commit_record(self, record: SourceRecord) -> None:
        """Hear that this record is committed, or was left out by a transformation. Called before :meth:`commit`."""

    def stop(self) -> None:
        """Close the source."""


class SourceConnector:
    """Source connector: names its settings, and makes its tasks."""

    #: Names and kinds of its own settings: a type for one that must be given, or a :class:`Setting`. A name that ends
    #: in ``.*`` takes all settings that begin so, as one mapping of texts.
    config: ClassVar[Mapping[str, type | Setting]] = {}

    def validate(self, config: Mapping[str, Any]) -> None:
        """Refuse a configuration before it is stored, by :class:`~semel.errors.ConfigError`.

        It is called once each setting by itself is right. A message that begins with a setting's name is shown there.
        Look at no other system here.
        """

    def tasks(self, config: Mapping[str, Any], max_tasks: int) -> Sequence[Mapping[str, Any]]:
        """Return the configuration of each task, at most ``max_tasks`` of them. By default it is a single task with all
        of it.
        """
        return [config]

    def task(self) -> SourceTask:
        """Make a task."""
        raise NotImplementedError(f"{type(self).__name__} has no method task")

    def task_class_name(self) -> str:
        """Return the value of ``task.class``, which Kafka Connect wants in a task's configuration."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def alter_offsets(self, config: Mapping[str, Any], offsets: Sequence[tuple[Partition, Offset]]) -> bool:
        """Check offsets that a user wants to set, each with its source partition; None removes one.

        Raise ``ValueError`` for an offset that is not this connector's. Return True if no other system keeps offsets.
        False, the default, lets REST say that offsets elsewhere must be changed there.
        """
        return False

    def can_define_transaction_boundaries(self, config: Mapping[str, Any]) -> bool | None:
        """Say whether its tasks say where transactions end, with ``transaction.boundary=connector``."""
        return False

    def exactly_once_support(self, config: Mapping[str, Any]) -> bool | None:
        """Say whether records come exactly once with this configuration; None where it is not known."""
        return None
