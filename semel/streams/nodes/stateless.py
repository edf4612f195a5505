"""The work of nodes without state. Each function returns an operator: Arrow in, Arrow out.

Functions of batches and expressions of ``pyarrow.compute`` work on whole batches. Functions of single records are the
slow, easy way: they cost about a microsecond of Python for each record, and more for JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.errors import ConfigError, SemelError
from semel.serdes.serde import Serde, encode
from semel.streams.dropped import DroppedRecords
from semel.streams.rows import CARRIED, Record, calling, from_result, one_batch, place, records, returned, timestamps
from semel.streams.state.state_store import StateStore
from semel.streams.topology.node import Operator
from semel.streams.windows.keys import WindowKeys

__all__ = [
    "TARGET",
    "branch_child",
    "branching",
    "check_columns",
    "choosing",
    "filtering",
    "flat_mapping",
    "flat_mapping_values",
    "having_key_column",
    "keyed_by",
    "map_batch",
    "mapping",
    "mapping_values",
    "matching",
    "peeking",
    "requiring_key",
    "rows_from_results",
    "to_records",
    "without_nulls",
]

_BRANCH = "__branch"
#: The column of the partitions that rows are written to, where a node chooses them.
TARGET = "__target"


def map_batch(function: Callable[[pa.RecordBatch], Any], name: str) -> Operator:
    """Return an operator for a function of batches."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        try:
            result = function(rows)
        except SemelError:
            raise
        except Exception as error:
            raise ConfigError(
                f"the function of {name} failed at {_place(rows)}: {type(error).__name__}: {error}. Nothing of this"
                " transaction is visible. Correct the function or the records, then start again: they are read again.",
                tag="USER_FUNCTION",
            ) from error
        return from_result(rows, result, name)

    return operate


def filtering(
    condition: Callable[[Record], Any] | pc.Expression, name: str, key: Serde, value: Serde, *, negated: bool = False
) -> Operator:
    """Keep the rows for which a function of single records is true, or an expression."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        return rows.filter(matching(condition, rows, name, key, value, negated=negated))

    return operate


def mapping(
    function: Callable[[Record], tuple[Any, Any]], name: str, given: tuple[Serde, Serde], made: tuple[Serde, Serde]
) -> Operator:
    """One record for each: the function returns its key and value."""
    return flat_mapping(lambda record: [function(record)], name, given, made)


def flat_mapping(
    function: Callable[[Record], Any], name: str, given: tuple[Serde, Serde], made: tuple[Serde, Serde]
) -> Operator:
    """Any number of records for each: the function returns pairs of key and value."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        keys: list[Any] = []
        values: list[Any] = []
        parents: list[int] = []
        for at, record in enumerate(records(rows, *given)):
            for pair in calling(lambda one: list(map(_pair, function(one))), name, record, record):
                keys.append(pair[0])
                values.append(pair[1])
                parents.append(at)
        return rows_from_results(rows, name, keys, values, parents, made)

    return operate


def mapping_values(function: Callable[[Record], Any], name: str, given: tuple[Serde, Serde], made: Serde) -> Operator:
    """Return an operator that gives each record a new value. The key stays."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        values = [calling(function, name, record, record) for record in records(rows, *given)]
        return _set(rows, "value", returned(values, made, name, partial(place, rows)))

    return operate


def flat_mapping_values(
    function: Callable[[Record], Any], name: str, given: tuple[Serde, Serde], made: Serde
) -> Operator:
    """Any number of values for each record: the function returns them. The key stays."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        values: list[Any] = []
        parents: list[int] = []
        for at, record in enumerate(records(rows, *given)):
            found = calling(lambda one: list(function(one)), name, record, record)
            values += found
            parents += [at] * len(found)
        taken = rows.take(pa.array(parents, pa.int64()))
        return _set(taken, "value", returned(values, made, name, partial(place, taken)))

    return operate


def peeking(function: Callable[[Record], Any], name: str, given: tuple[Serde, Serde]) -> Operator:
    """Call a function with each record, and hand the rows on as they are."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        for record in records(rows, *given):
            calling(function, name, record, record)
        return rows

    return operate


def keyed_by(chooser: str | Callable[[Record], Any], name: str, given: tuple[Serde, Serde], made: Serde) -> Operator:
    """Take another key: a column's, or what a function of single records returns."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        if isinstance(chooser, str):
            if chooser not in rows.schema.names:
                raise ConfigError(
                    f"{name} groups by column {chooser!r}, and the rows have {', '.join(rows.schema.names)}. Nothing of"
                    " this transaction is visible. Name one of these.",
                    tag="NO_COLUMN",
                )
            return _set(rows, "key", rows[chooser])
        keys = [calling(chooser, name, record, record) for record in records(rows, *given)]
        return _set(rows, "key", returned(keys, made, name, partial(place, rows)))

    return operate


def choosing(function: Callable[[Record], str], name: str, given: tuple[Serde, Serde]) -> Callable[[Any], list[str]]:
    """Return a function that gives the topic of each row. It raises :class:`ConfigError` for what is none."""

    def choose(rows: Any) -> list[str]:
        found = [calling(function, name, record, record) for record in records(rows, *given)]
        for at, topic in enumerate(found):
            if not isinstance(topic, str) or not topic:
                raise ConfigError(
                    f"the function of {name} returned {topic!r} for {place(rows, at)}, and that is no topic. Nothing of"
                    " this transaction is visible. Return the name of a topic that exists.",
                    tag="USER_FUNCTION",
                )
        return found

    return choose


def check_columns(rows: Any, columns: Iterable[str], name: str) -> None:
    """Raise :class:`ConfigError` for rows that lack one of these columns."""
    missing = set(columns) - set(rows.schema.names)
    if missing:
        raise ConfigError(
            f"{name} needs the columns {', '.join(sorted(missing))}, and the rows have {', '.join(rows.schema.names)}."
            " Nothing of this transaction is visible. Make them in map_batches.",
            tag="NO_COLUMN",
        )


def without_nulls(rows: Any, columns: Sequence[str], name: str, dropped: DroppedRecords) -> Any:
    """Drop and count the rows that have a null in one of these columns, as far as they are there."""
    nulls = [column for column in columns if column in rows.schema.names and rows[column].null_count]
    if not nulls:
        return rows
    kept = rows.filter(reduce(pc.and_, [rows[column].is_valid() for column in nulls]))
    dropped.count(name, rows.num_rows - kept.num_rows, f"rows without a {' or '.join(columns)}")
    return kept


def requiring_key(name: str, dropped: DroppedRecords) -> Operator:
    """Drop rows without a key: they belong to no group. Raise :class:`ConfigError` for rows that have no such
    column.
    """
    check = having_key_column(name)

    def operate(rows: Any, stores: Mapping[str, StateStore]) -> Any:
        return without_nulls(check(rows, stores), ("key",), name, dropped)

    return operate


def having_key_column(name: str) -> Operator:
    """Raise :class:`ConfigError` for rows that have no column of keys."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        if "key" not in rows.schema.names:
            raise ConfigError(
                f"{name} needs the column key, and the rows have {', '.join(rows.schema.names)}. Nothing of this"
                " transaction is visible. Make it in map_batches.",
                tag="NO_COLUMN",
            )
        return rows

    return operate


def branching(conditions: Sequence[Any], name: str, key: Serde, value: Serde) -> Operator:
    """Say of each row which of the conditions it meets first; rows that meet none go."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        place = np.full(rows.num_rows, -1, np.int16)
        for at, condition in enumerate(conditions):
            met = matching(condition, rows, name, key, value).to_numpy(zero_copy_only=False)
            place[(place < 0) & met] = at
        return _set(rows, _BRANCH, pa.array(place)).filter(pa.array(place >= 0))

    return operate


def branch_child(number: int) -> Operator:
    """Return an operator that keeps the rows of one branch."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        return rows.filter(pc.equal(rows[_BRANCH], number)).drop_columns([_BRANCH])

    return operate


def matching(condition: Any, rows: Any, name: str, key: Serde, value: Serde, *, negated: bool = False) -> Any:
    """Return which rows a function of single records is true for, or an expression."""
    if isinstance(condition, pc.Expression):
        numbered = pa.Table.from_batches([_set(rows, "__row", pa.array(np.arange(rows.num_rows)))])
        try:
            kept = one_batch(numbered.filter(condition))["__row"].to_numpy()
        except (ValueError, pa.ArrowException) as error:
            raise _refused(condition, rows, name, error) from None
        met = np.zeros(rows.num_rows, bool)
        met[kept] = True
    else:
        found = [bool(calling(condition, name, record, record)) for record in records(rows, key, value)]
        met = np.array(found, bool)
    return pa.array(met ^ negated)


def _refused(condition: Any, rows: Any, name: str, error: Exception) -> ConfigError:
    said = str(error).splitlines()[0][:100]
    shown = f"the expression {condition} of {name}"
    if "No match for FieldRef" in said:
        return ConfigError(
            f"{shown} needs a column that is not there: the rows have {', '.join(rows.schema.names)}. Nothing of this"
            " transaction is visible. Name one of these, or make the column in map_batches.",
            tag="NO_COLUMN",
        )
    return ConfigError(
        f"{shown} failed at {_place(rows)}: {said}. Nothing of this transaction is visible. Correct the expression, or"
        " cast its columns in map_batches.",
        tag="USER_FUNCTION",
    )


def rows_from_results(
    rows: Any,
    name: str,
    keys: list[Any],
    values: list[Any],
    parents: list[int],
    made: tuple[Serde, Serde],
    time: list[int] | None = None,
) -> Any:
    """Rows that a function has made of those at ``parents``, with their time, origin and headers. ``time`` gives
    another one.
    """
    columns = {
        column: returned(values, serde, name, lambda at: place(rows, parents[at]))
        for column, values, serde in (("key", keys, made[0]), ("value", values, made[1]))
    }
    taken = pa.array(parents, pa.int64())
    for column in ("timestamp", *CARRIED):
        if column in rows.schema.names:
            columns[column] = rows[column].take(taken)
    if time is not None:
        columns["timestamp"] = timestamps(time)
    return pa.RecordBatch.from_pydict(columns)


def _pair(given: Any) -> tuple[Any, Any]:
    key, value = given
    return key, value


def _set(rows: Any, name: str, column: Any) -> Any:
    if name in rows.schema.names:
        return rows.set_column(rows.schema.get_field_index(name), name, column)
    return rows.append_column(name, column)


def _place(rows: Any) -> str:
    if not rows.num_rows or "offset" not in rows.schema.names:
        return f"a batch of {rows.num_rows} rows"
    first, last = rows["offset"][0], rows["offset"][rows.num_rows - 1]
    return f"{rows['topic'][0]}-{rows['partition'][0]} at offsets {first} to {last}"


def to_records(rows: Any, key: Serde, value: Serde, window_keys: WindowKeys) -> Any:
    """Return rows as records: columns key, value, timestamp, and headers and partitions if there are some. A window is
    in the key, as in Kafka Streams. Rows without a value get their other columns, as JSON.
    """
    names = rows.schema.names
    keys = encode(rows["key"], key) if "key" in names else pa.nulls(rows.num_rows, pa.binary())
    if window_keys.columns <= set(names):
        keys = window_keys.in_output(keys, rows)
    values = rows["value"] if "value" in names else _others(rows)
    time = rows["timestamp"]
    if pa.types.is_timestamp(time.type):  # sinks of one topic must agree: a source has microseconds
        time = time.cast(pa.timestamp("ms", "UTC"), safe=False)
    columns = {"key": keys, "value": encode(values, value if "value" in names else "json"), "timestamp": time}
    if "headers" in names:
        columns["headers"] = rows["headers"]
    if TARGET in names:
        columns["partition"] = rows[TARGET]
    return pa.RecordBatch.from_pydict(columns)


def _others(rows: Any) -> Any:
    left_out = {"key", "timestamp", "window_start", "window_end", *CARRIED, "timestampType"}
    names = [name for name in rows.schema.names if name not in left_out]
    columns = [rows[name] for name in names]
    return pa.StructArray.from_arrays(columns, names) if names else pa.nulls(rows.num_rows)
