"""Records that came one by one: each is transformed and converted by itself, as Kafka Connect does it.

What becomes of a record does not depend on the others of its poll: no type, no field and no schema is shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from semel.connect.api import SourceRecord
from semel.connect.converters import refused
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.transforms.record import Data, Record
from semel.errors import ConfigError
from semel.records.record_headers import header_pairs, headers_column
from semel.serdes.columns import whole
from semel.serdes.json_value import milliseconds
from semel.serdes.schemas import Schema, Struct
from semel.serdes.schemas.arrow import schema_of, values_of
from semel.serdes.schemas.struct import checked
from semel.serdes.unfit import Mismatch, Unfit

__all__ = ["Written", "records_of", "tables_of", "write_data", "write_record"]

_BESIDE = ("partition", "timestamp", "headers")


class Written(NamedTuple):
    """A record as it is written."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None
    timestamp: int | None
    headers: Sequence[tuple[str, bytes | None]]


def write_record(record: SourceRecord, config: ConnectorConfig) -> Written | None:
    """Transform and convert a record; None for one that a transformation leaves out.

    Raises :class:`ConfigError` for one that cannot be transformed or converted.
    """
    return _tried(lambda: _written(_record(record), config))


def write_data(record: Record, config: ConnectorConfig) -> Written | None:
    """Do the same with a record of a table."""
    return _tried(lambda: _written(record, config))


def records_of(topic: str, table: pa.Table) -> Iterator[Record]:
    """Yield the records of a table of one topic. A null is a tombstone.

    Raises :class:`ConfigError` for values that have no schema.
    """
    nothing = [None] * table.num_rows
    columns = {name: table[name].to_pylist() if name in table.schema.names else nothing for name in _BESIDE}
    keys, values = _datas(table, "key"), _datas(table, "value")
    for key, value, partition, moment, headers in zip(keys, values, *columns.values(), strict=True):
        yield Record(topic, key, value, partition, _moment(moment), header_pairs(headers))


def _datas(table: pa.Table, part: str) -> list[Data]:
    nothing = Data(None, None)
    if part not in table.schema.names:
        return [nothing] * table.num_rows
    try:
        schema = schema_of(table.schema.field(part))
        return [nothing if one is None else Data(schema, one) for one in values_of(whole(table[part]), schema)]
    except Unfit as error:
        raise refused(error, part, "", "") from None


def _tried(write: Callable[[], Written | None]) -> Written | None:
    try:
        return write()
    except RecursionError:
        why = "it is nested too deeply, or contains itself"
    except (ValueError, OverflowError) as error:  # as of a whole number of thousands of digits
        why = f"{error!s:.200}"
    raise ConfigError(
        f"a record cannot be written: {why}. Nothing of this poll is visible. Have the connector give smaller values.",
        tag="WRONG_TYPE",
    )


def _record(record: SourceRecord) -> Record:
    return Record(
        record.topic,
        _data(record.key, record.key_schema, "key"),
        _data(record.value, record.value_schema, "value"),
        None if record.kafka_partition is None else _number(record.kafka_partition, 2**31, "kafka_partition"),
        None if record.timestamp is None else _number(_moment(record.timestamp), 2**63, "timestamp"),
        _headers(record) if record.headers else (),
    )


def _written(record: Record, config: ConnectorConfig) -> Written | None:
    made = config.chain.change(record) if config.chain.links else record
    if made is None:
        return None
    key = config.key.value(made.key.schema, made.key.value, "key", made.topic)
    value = config.value.value(made.value.schema, made.value.value, "value", made.topic)
    return Written(made.topic, key, value, made.partition, made.timestamp, made.headers)


def tables_of(records: Iterable[Written]) -> list[tuple[str, pa.Table]]:
    """Return a table for each topic, with the columns that one of its records has."""
    topics: dict[str, list[Written]] = {}
    for record in records:
        topics.setdefault(record.topic, []).append(record)
    return [(topic, _table(some)) for topic, some in topics.items()]


def _table(records: Sequence[Written]) -> pa.Table:
    _, keys, values, partitions, timestamps, headers = zip(*records, strict=True)
    columns: dict[str, Any] = {"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())}
    if any(one is not None for one in partitions):
        columns["partition"] = pa.array(partitions, pa.int32())
    if any(one is not None for one in timestamps):
        columns["timestamp"] = pa.array(timestamps, pa.timestamp("ms"))
    if any(headers):
        columns["headers"] = headers_column(headers)
    return pa.table(columns)


def _data(value: Any, schema: object, part: str) -> Data:
    """Return a value by its schema. A struct brings its own."""
    if schema is None:
        if not isinstance(value, Struct):
            return Data(None, value)
        schema = value.schema
    try:
        if not isinstance(schema, Schema):
            raise Mismatch(f"has a {type(schema).__name__} as its schema, which is none")
        return Data(schema, None if value is None else checked(schema, value))
    except Mismatch as error:
        raise refused(error, part, "", "") from None


def _moment(value: Any) -> Any:
    return milliseconds(value) if isinstance(value, datetime) else value


def _number(value: object, limit: int, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < limit:
        raise ConfigError(
            f"the {name} of a record is {value!r:.60}. Nothing of this poll is visible. Give a whole number from 0 to"
            f" {limit - 1}, or None.",
            tag="WRONG_TYPE",
        )
    return int(value)


def _headers(record: SourceRecord) -> Sequence[tuple[str, bytes | None]]:
    try:
        headers = [(name, value.encode() if isinstance(value, str) else value) for name, value in record.headers]
        fits = all(type(name) is str and isinstance(value, bytes | None) for name, value in headers)
        for name, _ in headers:
            str(name).encode()
    except (TypeError, ValueError):  # half of a surrogate pair is no UTF-8
        headers, fits = [], False
    if not fits:
        raise ConfigError(
            f"the headers of a record are not pairs of a name and text or bytes ({record.headers!r:.100}). Nothing of"
            ' this poll is visible. Give them as [("name", b"value")].',
            tag="WRONG_TYPE",
        )
    return headers
