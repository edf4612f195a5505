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
from semel.connect.columns import UNREADABLE, alike
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.stores.offset_format import canonical
from semel.connect.tasks.dead_letters import dead_letters
from semel.errors import ConfigError
from semel.records.arrays import array
from semel.records.record_headers import HEADERS

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
        _check(polled.topic, polled.table, config, task)
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
    if config.tolerate_errors:  # of one that Arrow cannot hold, only that one is left out
        return _tolerant(parts, offsets, _Tolerant(config, task, refusal))
    made: list[tuple[str, pa.Table]] = []
    for topic, part in parts:
        try:
            made += _converted(topic, part, config, task)
        except ConfigError as error:
            if error.tag == "POLL_RESULT":  # it names the task
                raise
            source = polled if isinstance(polled, SourceBatch) else _first_bad(topic, part, config, task)
            raise _located(error, source, config, task) from None
    # what a transformation left out counts as read
    return Rows(made, offsets) if made or any(len(part) for _, part in parts) else None


def _converted(topic: str, part: Any, config: ConnectorConfig, task: int) -> list[tuple[str, pa.Table]]:
    """Transform and convert a part of a poll: a table, or records of one topic."""
    tables = _tables(part) if isinstance(part, list) else [part]
    for table in tables:
        _check(topic, table, config, task)
    return _made(topic, tables, config)


def _first_bad(topic: str, records: list[SourceRecord], config: ConnectorConfig, task: int) -> SourceRecord:
    """Return the first of these records that fails, or the last of a few that fail together alone."""
    while len(records) > 1:
        middle = len(records) // 2
        for half in (records[:middle], records[middle:]):
            try:
                _converted(topic, half, config, task)
            except ConfigError:
                records = half
                break
        else:
            break
    return records[-1]


def _located(error: ConfigError, source: SourceBatch | SourceRecord, config: ConnectorConfig, task: int) -> ConfigError:
    """Return the error with its task, and the source partition and offset of what failed."""
    where = f"source partition {source.partition!r:.200}, offset {source.offset!r:.200}"
    return ConfigError(f"task {config.name}-{task}, {where}: {error.message}", tag=error.tag)


def _check(topic: object, table: object, config: ConnectorConfig, task: int) -> None:
    if not isinstance(topic, str) or not topic or not isinstance(table, pa.Table) or "value" not in table.schema.names:
        raise ConfigError(
            f"task {config.name}-{task} gave records without a topic, or without a column value. Nothing of this"
            " poll is visible. Name the topic, and give a pyarrow Table.",
            tag="POLL_RESULT",
        )


def _made(topic: str, tables: Sequence[pa.Table], config: ConnectorConfig) -> list[tuple[str, pa.Table]]:
    """Transform and convert tables of one topic. Their rows are in order then, for each topic."""
    made: dict[str, list[pa.Table]] = {}
    for table in tables:
        if not table.num_rows:
            continue
        if config.chain.divides and _ROW not in table.schema.names:
            table = table.append_column(_ROW, array(np.arange(table.num_rows), pa.int64()))
        for there, rows in config.chain.apply(topic, _readable(table)):
            made.setdefault(there, []).append(_bytes(rows, config))
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
        """Convert a part; where that fails, its halves, so that of many only the bad ones are looked at one by one."""
        try:
            made = _converted(topic, part, self.config, self.task)
        except ConfigError as error:
            refused: ConfigError | None = error
        else:
            refused = next((one for one in (self._refusal(there, rows) for there, rows in made) if one), None)
        if refused is None:
            self.made += made
        elif len(part) <= 1:
            self.letters.append((topic, part, refused))
        else:
            middle = len(part) // 2
            halves = (part[:middle], part[middle:]) if isinstance(part, list) else (part[:middle], part.slice(middle))
            for half in halves:
                self.take(topic, half)

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


def _tables(records: Sequence[SourceRecord]) -> list[pa.Table]:
    """Return records as tables: one, unless Arrow would change a record for the sake of others."""
    parts = alike({"key": [record.key for record in records], "value": [record.value for record in records]})
    if len(parts) == 1:
        return [pa.table(parts[0][1] | _places(records))]
    more = pa.table({**_places(records), _ROW: array(np.arange(len(records)), pa.int64())})
    made = []
    for indexes, columns in parts:
        table = more.take(pa.array(indexes, pa.int64()))
        made.append(pa.table({**columns, **{name: table.column(name) for name in table.schema.names}}))
    return made


def _places(records: Sequence[SourceRecord]) -> dict[str, Any]:
    """Return the columns beside key and value that one of these records has."""
    made: dict[str, Any] = {}
    if any(record.kafka_partition is not None for record in records):
        made["partition"] = pa.array([record.kafka_partition for record in records], pa.int32())
    if any(record.timestamp is not None for record in records):
        made["timestamp"] = pa.array([record.timestamp for record in records], pa.timestamp("ms"))
    if any(record.headers for record in records):
        made["headers"] = _headers(records)
    return made


def _headers(records: Sequence[SourceRecord]) -> Any:
    try:
        rows = [
            [{"key": name, "value": value.encode() if isinstance(value, str) else value} for name, value in one.headers]
            for one in records
        ]
        return pa.array(rows, HEADERS)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError) as error:
        raise ConfigError(
            f"the headers of a record are not pairs of a name and text or bytes ({error}). Nothing of this poll is"
            ' visible. Give them as [("name", b"value")].',
            tag="WRONG_TYPE",
        ) from None


def _bytes(table: pa.Table, config: ConnectorConfig) -> pa.Table:
    for name, convert in (("key", config.key), ("value", config.value)):
        if name in table.schema.names:
            field = table.schema.field(name)
            table = table.set_column(table.schema.get_field_index(name), name, convert(table.column(name), field))
    return table
