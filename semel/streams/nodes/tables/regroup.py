"""Updates of a table under other keys, and their values in a repartition topic, in Kafka Streams' form.

A value is the old one, the new one, or the length of the new one and both. The last byte says which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from semel.records.varint import pack, read_one, zigzag
from semel.serdes.serde import Serde, decode, encode
from semel.streams.nodes.tables.old_values import OLD, with_value, without_old
from semel.streams.rows import CARRIED, Record, calling, place, records, returned
from semel.streams.state.state_store import StateStore
from semel.streams.topology.node import Operator

__all__ = ["packing_changes", "regrouping", "unpacking_changes"]

_ONLY_OLD, _ONLY_NEW, _BOTH = b"\0", b"\1", b"\2"
_Pair = tuple[Any, Any] | None


def regrouping(
    function: Callable[[Record], tuple[Any, Any]], name: str, given: tuple[Serde, Serde], made: tuple[Serde, Serde]
) -> Operator:
    """Return an operator that gives updates another key and value. The function is called with the new value and with
    the old one. What it gives no key or no value is left out.
    """

    def pair(record: Record) -> _Pair:
        if record.value is None:
            return None
        key, value = calling(lambda one: _pair(function(one)), name, record, record)
        return None if key is None or value is None else (key, value)

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        changes: list[tuple[Any, Any, Any, int]] = []
        new, old = records(without_old(rows), *given), records(with_value(rows, rows[OLD]), *given)
        for at, (after, before) in enumerate(zip(map(pair, new), map(pair, old), strict=True)):
            if after is not None and before is not None and _same(after[0], before[0]):
                changes.append((after[0], after[1], before[1], at))
                continue
            if before is not None:
                changes.append((before[0], None, before[1], at))
            if after is not None:
                changes.append((after[0], after[1], None, at))
        columns = {
            column: returned([one[number] for one in changes], serde, name, lambda row: place(rows, changes[row][3]))
            for number, (column, serde) in enumerate((("key", made[0]), ("value", made[1]), (OLD, made[1])))
        }
        taken = pa.array([one[3] for one in changes], pa.int64())
        columns |= {
            column: rows[column].take(taken) for column in ("timestamp", *CARRIED) if column in rows.schema.names
        }
        return pa.RecordBatch.from_pydict(columns)

    return operate


def packing_changes(value: Serde) -> Callable[[Any], Any]:
    """Return a function that makes the values of the repartition topic."""

    def packed(rows: Any) -> Any:
        both = zip(*(encode(rows[name], value).to_pylist() for name in ("value", OLD)), strict=True)
        return pa.array([_packed(new, old) for new, old in both], pa.binary())

    return packed


def unpacking_changes(value: Serde) -> Callable[[Any], Any]:
    """Return a function that reads them into the columns of the new and the old values."""

    def unpack(values: Any) -> dict[str, Any]:
        pairs = [_unpacked(one) for one in values.to_pylist()]
        new, old = (pa.array([one[at] for one in pairs], pa.binary()) for at in range(2))
        return {"value": decode(new, value), OLD: decode(old, value)}

    return unpack


def _packed(new: bytes | None, old: bytes | None) -> bytes:
    if new is None or old is None:
        return (old or b"") + _ONLY_OLD if new is None else new + _ONLY_NEW
    words, sizes = pack(zigzag(np.array([len(new)])))
    return int(words[0]).to_bytes(int(sizes[0]), "little") + new + old + _BOTH


def _unpacked(data: bytes) -> tuple[bytes | None, bytes | None]:
    kind, data = data[-1:], data[:-1]
    if kind == _BOTH:
        size, at = read_one(data, 0, len(data))
        return data[at : at + size], data[at + size :]
    return (None, data) if kind == _ONLY_OLD else (data, None)


def _pair(given: Any) -> tuple[Any, Any]:
    key, value = given
    return key, value


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and bool(one == other)
