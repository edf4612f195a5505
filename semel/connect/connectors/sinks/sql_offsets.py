"""The offsets of a sink in a table of its target, and the claims on them.

A task that opens a partition raises the claim of its row. Each transaction of rows locks the row by its own claim, so a
task that was frozen while another opened the partition writes nothing. A row is never deleted: its claim only grows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

import sqlalchemy as sa
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from semel.database.dialects import dialect_of
from semel.errors import ConfigError, Fenced
from semel.steps import SinkTaskStep, reached
from semel.wire.metadata import TopicPartition

__all__ = ["TargetOffsets"]

_TABLE = sa.Table(
    "semel_connect_sink_offsets",
    sa.MetaData(),
    sa.Column("connector", sa.Text, primary_key=True),
    sa.Column("topic", sa.Text, primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("topic_id", sa.Text),
    sa.Column("next_offset", sa.BigInteger),
    sa.Column("claim", sa.BigInteger, nullable=False),
)
_ROW = _TABLE.c


class TargetOffsets:
    """The offsets of one connector, and the claims that one task holds."""

    def __init__(self, engine: Engine, connector: str) -> None:
        self._engine, self._connector = engine, connector
        self._dialect = dialect_of(engine)
        self._claims: dict[TopicPartition, int] = {}
        self._topic_ids: Mapping[str, str] = {}

    def prepare(self) -> None:
        """Make the table if it is missing, and check that the database keeps what it has committed."""
        with self._engine.connect() as connection:
            self._dialect.check_durable(connection)
        try:
            with self._engine.begin() as connection:
                _TABLE.create(connection, checkfirst=True)
        except DBAPIError:
            if not sa.inspect(self._engine).has_table(_TABLE.name):  # another task may have made it
                raise

    def claim(self, partitions: Collection[TopicPartition], topic_ids: Mapping[str, str]) -> dict[TopicPartition, int]:
        """Raise the claims of partitions, and return the next offset of those that have one.

        Raises :class:`ConfigError` if an offset is of a topic with another id.
        """
        self._claims, self._topic_ids = {}, topic_ids
        offsets: dict[TopicPartition, int] = {}
        with self._transaction() as connection:
            self._dialect.bound_wait(connection)
            for partition in sorted(partitions):  # in one order, so that two tasks cannot lock each other out
                made = self._dialect.insert(_TABLE).values(**self._key(partition), claim=1)
                raised = made.on_conflict_do_update(
                    index_elements=list(_TABLE.primary_key), set_={"claim": _ROW.claim + 1}
                ).returning(_ROW.claim, _ROW.next_offset, _ROW.topic_id)
                claim, offset, topic_id = connection.execute(raised).one()
                self._claims[partition] = int(claim)
                if offset is not None:
                    self._check_topic(partition, topic_id)
                    offsets[partition] = int(offset)
        return offsets

    def _check_topic(self, partition: TopicPartition, topic_id: str | None) -> None:
        """Refuse an offset of another topic: records of this one would be passed over. None says that a user set it."""
        now = self._topic_ids.get(partition[0])
        if topic_id not in (None, now):
            raise ConfigError(
                f"connector {self._connector} has written records of another topic {partition[0]}: it was made again,"
                " or is of another cluster. Nothing more was written. Stop the connector, and set or remove its offsets"
                " by REST, so that they say where this topic is read from.",
                tag="SINK_TOPIC",
            )

    def change(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        """Set next offsets; None forgets one. Claims are raised, so no task that still runs writes after it."""
        with self._transaction() as connection:
            for partition, offset in sorted(offsets.items()):
                values = {**self._key(partition), "claim": 1, "next_offset": offset, "topic_id": None}
                made = self._dialect.insert(_TABLE).values(**values)
                changed = {"claim": _ROW.claim + 1, "next_offset": made.excluded.next_offset, "topic_id": None}
                keys = list(_TABLE.primary_key)
                connection.execute(made.on_conflict_do_update(index_elements=keys, set_=changed))

    @contextmanager
    def locked(self, partition: TopicPartition, end: int) -> Iterator[tuple[Connection, int | None]]:
        """Begin a transaction that moves a partition's next offset to ``end``, and commit it unless it raises.

        Yield the connection, and the next offset before. Raise :class:`Fenced` if another task has the partition.
        """
        with self._transaction(bounded=True) as connection:
            mine = sa.and_(*(_ROW[name] == value for name, value in self._key(partition).items()))
            claimed = mine & (_ROW.claim == self._claims.get(partition, -1))
            row = connection.execute(sa.select(_ROW.next_offset).where(claimed).with_for_update()).one_or_none()
            if row is None:
                raise Fenced(
                    f"the target has a newer claim on {partition[0]}-{partition[1]} than this task. Nothing of this"
                    " batch was written. Nothing: the task that has the partition writes it.",
                    tag="SINK_FENCED",
                )
            before = None if row[0] is None else int(row[0])
            yield connection, before
            if before is None or before < end:
                # last: after rows by executemany PostgreSQL would not end the session of a task that froze
                values = {"next_offset": end, "topic_id": self._topic_ids.get(partition[0])}
                connection.execute(sa.update(_TABLE).where(claimed).values(values))
            reached(SinkTaskStep.ROWS_SENT, self._connector)

    @contextmanager
    def _transaction(self, *, bounded: bool = False) -> Iterator[Connection]:
        """Begin a transaction, and commit it unless what is done in it raises."""
        connection, transaction = self._dialect.begin(self._engine)
        with connection, transaction:
            if bounded:
                self._dialect.check_before_lock(connection)
            yield connection

    def _key(self, partition: TopicPartition) -> dict[str, str | int]:
        return {"connector": self._connector, "topic": partition[0], "partition": partition[1]}
