"""The records of a poll as tables of bytes, one for each topic, and their offsets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from semel.connect.api import Offset, Partition, SourceBatch, SourceRecord
from semel.connect.columns import UNREADABLE
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.tasks.dead_letters import dead_letters
from semel.connect.tasks.records import Written, records_of, tables_of, write_data, write_record
from semel.errors import ConfigError
from semel.records.arrays import array
from semel.serdes.connect_offsets import canonical
from semel.serdes.registry.errors import RegistryUnusable

__all__ = ["Rows", "rows_of"]

log = logging.getLogger("semel.connect")

#: Asked of a topic and rows for it: why it would not take one of them, or None.
Refusal = Callable[[str, pa.Table], ConfigError | None]
#: How many of the records that one poll leaves out are logged.
_LOGGED = 10
#: A column of numbers that says where rows stood, while they are in several tables.
_ROW = "semel.row"


@dataclass(frozen=True, slots=True)
class Rows:
    """The records of one poll, in their order, and the last offset of each source partition, by its canonical text.

    ``left_out`` are those that could not be converted, where that is tolerated.
    """

    tables: Sequence[tuple[str, pa.Table]]
    offsets: dict[str, tuple[Partition, Offset]]
    left_out: int = 0

    @property
    def count(self) -> int:
        """The number of records."""
        return sum(table.num_rows for _, table in self.tables)


def rows_of(
    polled: object, config: ConnectorConfig, task: int, refusal: Refusal = lambda _topic, _table: None
) -> Rows | None:
    """Transform and convert what ``poll`` returned; None where there is nothing.

    ``refusal`` says why a topic would not take converted rows. It is asked only where records may be left out; else the
    write raises that.

    Raises :class:`ConfigError` for what is neither a batch nor records, and for what cannot be transformed or converted
    unless that is tolerated.
    """
    if polled is None:
        return None
    parts: list[tuple[str, Any]]
    if isinstance(polled, SourceBatch):
        _check_batch(polled, config, task)
        parts, offsets = [(polled.topic, polled.table)], _offsets(config, [polled])
    elif isinstance(polled, Sequence) and all(isinstance(record, SourceRecord) for record in polled):
        parts = [(topic, list(records)) for topic, records in groupby(polled, lambda record: record.topic)]
        offsets = _offsets(config, polled)
    else:
        raise ConfigError(
            f"task {config.name}-{task} returned a {type(polled).__name__} from poll. Nothing of this poll is visible."
            " Return a SourceBatch, a list of SourceRecord, or None.",
            tag="POLL_RESULT",
        )
    if config.tolerate_errors:
        return _tolerant(parts, offsets, _Tolerant(config, task, refusal))
    made: list[tuple[str, pa.Table]] = []
    for topic, part in parts:
        if not isinstance(polled, SourceBatch):
            made += tables_of(one for one in (_written(record, config, task) for record in part) if one is not None)
            continue
        try:
            made += _made(topic, part, config)
        except ConfigError as error:
            raise _located(error, polled, config, task) from None
    # what a transformation left out counts as read
    return Rows(made, offsets) if made or any(len(part) for _, part in parts) else None


def _written(record: SourceRecord, config: ConnectorConfig, task: int) -> Written | None:
    """Transform and convert one record. An error names its place in the source."""
    _check_topic(record.topic, config, task)
    try:
        return write_record(record, config)
    except ConfigError as error:
        raise _located(error, record, config, task) from None


def _located(error: ConfigError, source: SourceBatch | SourceRecord, config: ConnectorConfig, task: int) -> ConfigError:
    """Return the error with its task, and the source partition and offset of what failed."""
    try:
        where = f"source partition {source.partition!r:.200}, offset {source.offset!r:.200}"
    except (ValueError, RecursionError):
        where = "a source partition or offset that is too large to be shown"
    return ConfigError(f"task {config.name}-{task}, {where}: {error.message}", tag=error.tag)


def _check_batch(batch: SourceBatch, config: ConnectorConfig, task: int) -> None:
    _check_topic(batch.topic, config, task)
    if not isinstance(batch.table, pa.Table) or "value" not in batch.table.schema.names:
        raise ConfigError(
            f"task {config.name}-{task} gave a batch without a table, or without a column value. Nothing of this poll"
            " is visible. Give a pyarrow Table.",
            tag="POLL_RESULT",
        )


def _check_topic(topic: object, config: ConnectorConfig, task: int) -> None:
    if not isinstance(topic, str) or not topic:
        raise ConfigError(
            f"task {config.name}-{task} gave records without a topic. Nothing of this poll is visible. Name the topic.",
            tag="POLL_RESULT",
        )


def _made(topic: str, table: pa.Table, config: ConnectorConfig) -> list[tuple[str, pa.Table]]:
    """Transform and convert a table of one topic. Its rows are in order then, for each topic."""
    made: dict[str, list[pa.Table]] = {}
    if not table.num_rows:
        return []
    if not config.chain.takes_tables:
        written = (write_data(one, config) for one in records_of(topic, _readable(table)))
        return tables_of(one for one in written if one is not None)
    if config.chain.divides:
        table = table.append_column(_ROW, array(np.arange(table.num_rows), pa.int64()))
    for there, rows in config.chain.apply(topic, _readable(table)):
        made.setdefault(there, []).append(_bytes(rows, config, there))
    return [(there, _in_order(some)) for there, some in made.items()]


def _in_order(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables in their first order."""
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive").sort_by(_ROW)
    return table.drop_columns(_ROW) if _ROW in table.schema.names else table


def _readable(table: pa.Table) -> pa.Table:
    """Return the table without its column of complaints. Raise :class:`ConfigError` for the first complaint."""
    if UNREADABLE not in table.schema.names:
        return table
    why = next((one for one in table.column(UNREADABLE).to_pylist() if one is not None), None)
    if why is not None:
        raise ConfigError(
            f"{why} Nothing of this poll is visible. Read it as text in a query, or set errors.tolerance=all to leave"
            " such rows out.",
            tag="WRONG_TYPE",
        )
    return table.drop_columns(UNREADABLE)


class _Tolerant:
    """The rows of one poll, with what cannot be written left out."""

    def __init__(self, config: ConnectorConfig, task: int, refusal: Refusal) -> None:
        self.config, self.task, self._refusal = config, task, refusal
        self.made: list[tuple[str, pa.Table]] = []
        self.letters: list[tuple[str, Any, ConfigError]] = []

    def take(self, topic: str, part: Any) -> None:
        """Convert a part: records one by one; of a table that fails its halves, so that only the bad rows are looked
        at one by one.
        """
        if isinstance(part, list):
            self._take_records(topic, part)
            return
        try:
            made = _made(topic, part, self.config)
            refused = self._refused(made)
        except RegistryUnusable:
            raise
        except ConfigError as error:
            refused = error
        if refused is None:
            self.made += made
        elif part.num_rows <= 1:
            self.letters.append((topic, part, refused))
        else:
            middle = part.num_rows // 2
            self.take(topic, part[:middle])
            self.take(topic, part.slice(middle))

    def _take_records(self, topic: str, records: Sequence[SourceRecord]) -> None:
        fine = []
        for record in records:
            try:
                _check_topic(topic, self.config, self.task)
                written = write_record(record, self.config)
            except RegistryUnusable:
                raise
            except ConfigError as error:
                self.letters.append((topic, [record], error))
            else:
                if written is not None:
                    fine.append((record, written))
        if fine:
            self._place(topic, fine)

    def _place(self, topic: str, records: Sequence[tuple[SourceRecord, Written]]) -> None:
        """Take the records that their topic takes; where it refuses one, each half of them."""
        made = tables_of(written for _, written in records)
        refused = self._refused(made)
        if refused is None:
            self.made += made
        elif len(records) == 1:
            self.letters.append((topic, [records[0][0]], refused))
        else:
            middle = len(records) // 2
            self._place(topic, records[:middle])
            self._place(topic, records[middle:])

    def _refused(self, made: Sequence[tuple[str, pa.Table]]) -> ConfigError | None:
        return next((one for one in (self._refusal(there, rows) for there, rows in made) if one), None)

    def written_down(self) -> None:
        """Log what was left out, and put it into the dead-letter topic if there is one."""
        config, task = self.config, self.task
        if self.letters and config.log_errors:
            for topic, _, error in self.letters[:_LOGGED]:
                log.error("task %s-%s left out a record%s: %s", config.name, task, _where(topic, config), error)
        if self.letters and config.dead_letters:
            letters = dead_letters(self.letters, config, task, partial(self._refusal, config.dead_letters))
            self.made.append((config.dead_letters, letters))


def _tolerant(
    parts: Sequence[tuple[str, Any]], offsets: dict[str, tuple[Partition, Offset]], tolerant: _Tolerant
) -> Rows | None:
    for topic, part in parts:
        tolerant.take(topic, part)
    tolerant.written_down()
    made, letters = tolerant.made, tolerant.letters
    return Rows(made, offsets, len(letters)) if made or letters or any(len(part) for _, part in parts) else None


def _where(topic: str, config: ConnectorConfig) -> str:
    return f" for {topic}" if config.log_messages else ""


def _offsets(config: ConnectorConfig, parts: Sequence[Any]) -> dict[str, tuple[Partition, Offset]]:
    try:
        return {canonical(part.partition): (part.partition, part.offset) for part in parts}
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"connector {config.name!r} gave a source partition that cannot be kept: {error}. Nothing of this poll is"
            " visible. It must be flat, with text as keys.",
            tag="OFFSET_FORM",
        ) from None


def _bytes(table: pa.Table, config: ConnectorConfig, topic: str) -> pa.Table:
    for name, convert in (("key", config.key), ("value", config.value)):
        if name in table.schema.names:
            field = table.schema.field(name)
            made = convert.column(table.column(name), field, topic)
            table = table.set_column(table.schema.get_field_index(name), name, made)
    return table
