"""The other side: kafka-python's own encoder and decoder, and batches put in a row as a broker hands them out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.util import encode_varint

from semel.records import HEADER_SIZE, Batch, BatchHeader, Codec, scan
from semel.records.header import pack

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def varint(value: int) -> bytes:
    """One signed number by kafka-python."""
    out = bytearray()
    encode_varint(value, out.append)
    return bytes(out)


class Row(NamedTuple):
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: list[tuple[str, bytes | None]]


def written(rows: Iterable[tuple[int, Row]], *, codec: Codec = Codec.NONE, base: int = 0) -> bytes:
    """One batch by kafka-python, of rows with their offset deltas."""
    builder = DefaultRecordBatchBuilder(2, int(codec), False, -1, -1, -1, 1 << 30)
    for delta, row in rows:
        assert builder.append(delta, row.timestamp, row.key, row.value, row.headers) is not None
    return base.to_bytes(8, "big") + bytes(builder.build())[8:]


def read(batch: bytes) -> list[tuple[int, Row]]:
    """One batch read by kafka-python, CRC checked: offsets and rows."""
    parsed = DefaultRecordBatch(batch)
    assert parsed.validate_crc()
    return [(r.offset, Row(r.key, r.value, r.timestamp, [tuple(h) for h in r.headers])) for r in parsed]


def appended(batches: Sequence[Batch], base: int = 0) -> bytes:
    """Batches one behind the other, with the offsets that a broker would give them."""
    out: list[bytes] = []
    for batch in batches:
        raw = b"".join(batch.chunks)
        assert len(raw) == batch.size
        out.append(base.to_bytes(8, "big") + raw[8:])
        base += batch.count
    return b"".join(out)


def table(rows: Sequence[Row]) -> pa.Table:
    headers = [[{"key": k, "value": v} for k, v in row.headers] for row in rows]
    return pa.table(
        {
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "timestamp": pa.array([row.timestamp for row in rows], pa.int64()),
            "headers": pa.array(headers, HEADERS),
        }
    )


def rows_of(decoded: Any) -> list[tuple[int, Row]]:
    """What decode() gave, in the same shape."""
    decoded.validate(full=True)
    microseconds = decoded["timestamp"].cast(pa.int64()).to_pylist()
    headers = decoded["headers"].to_pylist() if "headers" in decoded.schema.names else [[]] * len(decoded)
    return [
        (offset, Row(key, value, time // 1000, [(h["key"], h["value"]) for h in pairs]))
        for offset, key, value, time, pairs in zip(
            decoded["offset"].to_pylist(),
            decoded["key"].to_pylist(),
            decoded["value"].to_pylist(),
            microseconds,
            headers,
            strict=True,
        )
    ]


def changed(batch: bytes, body: bytes | None = None, **changes: Any) -> bytes:
    """The same batch with other header fields (or another body), and a CRC that fits."""
    header: BatchHeader = scan(memoryview(batch))[0]
    records = batch[HEADER_SIZE:] if body is None else body
    return pack(replace(header, size=HEADER_SIZE + len(records), **changes), (records,)) + records
