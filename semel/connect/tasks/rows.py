"""What a poll gave, as tables of bytes for each topic and as the offsets that come with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa

from semel.connect.api import Offset, Partition, SourceBatch, SourceRecord
from semel.connect.connector_config import ConnectorConfig
from semel.connect.stores.offset_format import canonical
from semel.errors import ConfigError

__all__ = ["Rows", "rows_of"]


@dataclass(frozen=True, slots=True)
class Rows:
    """The records of one poll, in their order, and the last offset of each source partition, by its canonical text."""

    tables: Sequence[tuple[str, pa.Table]]
    offsets: dict[str, tuple[Partition, Offset]]

    @property
    def count(self) -> int:
        """How many records."""
        return sum(table.num_rows for _, table in self.tables)


def rows_of(polled: object, config: ConnectorConfig, task: int) -> Rows | None:
    """Convert what ``poll`` returned; None where there is nothing.

    Raises :class:`ConfigError` for what is neither a batch nor records, and for what the converters do not take.
    """
    if polled is None:
        return None
    if isinstance(polled, SourceBatch):
        tables, offsets = [(polled.topic, polled.table)], _offsets(config, [polled])
    elif isinstance(polled, Sequence) and all(isinstance(record, SourceRecord) for record in polled):
        tables = [(topic, _table(list(records))) for topic, records in groupby(polled, lambda record: record.topic)]
        offsets = _offsets(config, polled)
    else:
        raise ConfigError(
            f"task {config.name}-{task} returned a {type(polled).__name__} from poll. Nothing of this poll is visible."
            " Return a SourceBatch, a list of SourceRecord, or None.",
            tag="POLL_RESULT",
        )
    for topic, table in tables:
        if (
            not isinstance(topic, str)
            or not topic
            or not isinstance(table, pa.Table)
            or "value" not in table.schema.names
        ):
            raise ConfigError(
                f"task {config.name}-{task} gave records without a topic, or without a column value. Nothing of this"
                " poll is visible. Name the topic, and give a pyarrow Table.",
                tag="POLL_RESULT",
            )
    made = [(topic, _bytes(table, config)) for topic, table in tables if table.num_rows]
    return Rows(made, offsets) if made else None


def _offsets(config: ConnectorConfig, parts: Sequence[Any]) -> dict[str, tuple[Partition, Offset]]:
    try:
        return {canonical(part.partition): (part.partition, part.offset) for part in parts}
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"connector {config.name!r} gave a source partition that cannot be kept: {error}. Nothing of this poll is"
            " visible. It must be flat, with text as keys.",
            tag="OFFSET_FORM",
        ) from None


def _table(records: Sequence[SourceRecord]) -> pa.Table:
    columns = {"key": [record.key for record in records], "value": [record.value for record in records]}
    made = {name: _column(name, values) for name, values in columns.items()}
    if any(record.kafka_partition is not None for record in records):
        made["partition"] = pa.array([record.kafka_partition for record in records], pa.int32())
    if any(record.timestamp is not None for record in records):
        made["timestamp"] = pa.array([record.timestamp for record in records], pa.timestamp("ms"))
    return pa.table(made)


def _column(name: str, values: list[Any]) -> Any:
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError) as error:
        raise ConfigError(
            f"the {name}s of one poll are not of one type ({error}). Nothing of this poll is visible. Give all of them"
            " as text, or all as bytes.",
            tag="WRONG_TYPE",
        ) from None


def _bytes(table: pa.Table, config: ConnectorConfig) -> pa.Table:
    for name, convert in (("key", config.key), ("value", config.value)):
        if name in table.schema.names:
            table = table.set_column(table.schema.get_field_index(name), name, convert(table.column(name), name))
    return table
