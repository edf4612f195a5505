"""The table of a topic, whose commits carry rows and the next offset of a partition: Delta Lake's and Iceberg's.

A task commits on the version of the table in which it has found its offset. If the offset has moved since, another task
has the partition: this one is fenced, however late it is. A format says how its tables keep offsets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from semel.connect.connectors.sinks.table_rows import fitted_rows, table_rows
from semel.connect.sink_api import TopicPartition
from semel.errors import ConfigError, Fenced

__all__ = ["NO_OFFSET", "PartitionTable"]

T = TypeVar("T")
#: The offset of a partition whose offset was removed by REST.
NO_OFFSET = -1


class PartitionTable(ABC, Generic[T]):
    """The table of one topic, as the task of one partition sees it. ``T`` is a table of the format's library."""

    #: The settings that let tables be made and extended.
    create: ClassVar[str] = "auto.create"
    evolve: ClassVar[str] = "auto.evolve"
    #: Whether the format has the time of a day.
    times: ClassVar[bool] = False

    def __init__(self, config: Mapping[str, Any], partition: TopicPartition, topic_id: str, title: str) -> None:
        self._config, self._partition, self._topic_id, self._title = config, partition, topic_id, title
        #: The offset as the task knows it, and the newest one that it was about to commit.
        self._at: int | None = None
        self._sent: int | None = None

    # ---- what a format says

    @abstractmethod
    def _errors(self) -> AbstractContextManager[None]:
        """Turn the library's errors into refusals, and into ``OSError`` where a second try may help."""

    @abstractmethod
    def _found(self) -> T | None:
        """Return the newest version of the table, or None."""

    @abstractmethod
    def _made(self, schema: pa.Schema) -> T:
        """Make the table, unless another task has just made it."""

    @abstractmethod
    def _schema(self, table: T) -> pa.Schema:
        """Return the table's columns."""

    @abstractmethod
    def _offset(self, table: T) -> int | None:
        """Return the next offset of the partition in the table; None if nothing of it was ever written."""

    @abstractmethod
    def _is_of_topic(self, table: T) -> bool:
        """Return False if the offset is of another topic of this name."""

    @abstractmethod
    def _append(self, table: T, rows: pa.Table, offset: int, *, evolves: bool) -> None:
        """Add rows and their next offset in one commit, unless the offset has moved. ``evolves``: with more columns."""

    # ---- what a task asks

    def open(self, position: int) -> int:
        """Return the offset after the last record of the partition, or 0."""
        with self._errors():
            table = self._found()
            if table is None:
                return 0
            self._at = self._offset(table)
            if self._at is not None and self._topic_id and not self._is_of_topic(table):
                raise ConfigError(
                    f"connector {self._config['name']} has written records of another topic {self._partition[0]}: it"
                    " was made again, or is of another cluster. Nothing more was written. Stop the connector, and set"
                    " or remove its offsets by REST, so that they say where this topic is read from.",
                    tag="SINK_TOPIC",
                )
        return max(0, self._at or 0)

    def write(self, first: int, last: int, column: Any, field: pa.Field, before: Callable[[], None]) -> None:
        """Add the values of these offsets in one commit. ``before`` is called before it."""
        with self._errors():
            rows = table_rows(column, field, times=self.times)
            table = self._found() or self._created(rows.schema)
            if self._is_there(table, last + 1):
                return
            rows, more = fitted_rows(rows, self._schema(table))
            if more and not self._config[self.evolve]:
                raise ConfigError(
                    f"the {self._title} lacks the column {more[0]:.60}. The record was not put into the target. Add it,"
                    f" set {self.evolve}=true, or leave the field out by a transformation.",
                    tag="SINK_TABLE",
                )
            self._sent = last + 1
            before()
            self._append(table, rows, last + 1, evolves=bool(more))
            self._at = last + 1

    def _is_there(self, table: T, offset: int) -> bool:
        """Return True if the commit of this offset has arrived: its answer was lost.

        Raise :class:`Fenced` if another task has moved the offset.
        """
        at = self._offset(table)
        if at is not None and at == self._sent == offset:
            self._at = at
            return True
        if at != self._at:
            raise self._fenced()
        return False

    def _created(self, schema: pa.Schema) -> T:
        if not self._config[self.create]:
            raise ConfigError(
                f"there is no {self._title}. The record was not put into the target. Create it, or set"
                f" {self.create}=true.",
                tag="SINK_TABLE",
            )
        return self._made(schema)

    def _fenced(self) -> Fenced:
        return Fenced(
            f"another task has committed rows of {self._partition[0]}-{self._partition[1]} to the table. Nothing of"
            " this commit was written by this task. Nothing: the task that has the partition writes it.",
            tag="SINK_FENCED",
        )
