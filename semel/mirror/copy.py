"""What a batch that was fetched becomes on the target. No requests.

A batch is copied whole where it can be: only its header is written anew, by whoever knows the identity of the
transaction, and its records stay compressed as they are. Its old checksum is checked here, since it gets a new one.
Brokers refuse, or silently misread, what these have in their headers (measured), so they are decoded and encoded again,
by the same codec:

- batches of which only a part is wanted: the copy begins in the middle of it;
- batches from which compaction has removed records;
- batches with log-append time, whose records have no time of their own;
- batches that are larger than the target topic allows.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from semel.errors import ConfigError
from semel.read.cursor import Taken
from semel.records.codecs import Codec
from semel.records.decode import decode
from semel.records.encode import encode
from semel.records.header import BatchHeader, check_crc
from semel.transaction.ticket import TicketTopic

__all__ = ["batches", "whole"]

_RECORD = ["key", "value", "timestamp", "headers"]
#: Of a record before compression: its producer was allowed to write it, and only the target topic counts.
_ANY_SIZE = 2**31


def batches(taken: Taken, target: TicketTopic, name: str) -> Iterator[memoryview]:
    """The batches to write for what an answer brought of one partition, in order, without an identity.

    Raises :class:`~semel.errors.DataLoss` for a damaged batch, :class:`ConfigError` for a record that ``target``, which
    is called ``name``, does not take.
    """
    for header in taken.batches:
        if not header.count or header.next_offset <= taken.start:
            continue
        if whole(header, taken.start, taken.end) and header.size <= target.max_bytes:
            check_crc(taken.records, header, taken.part.range.name)
            yield taken.records[header.position : header.position + header.size]
        else:
            yield from _encoded_again(taken, header, target.max_bytes, name)


def whole(header: BatchHeader, start: int, end: int) -> bool:
    """Whether a broker takes a batch with nothing but another header, and all of it is wanted."""
    wanted = start <= header.base_offset and header.next_offset <= end
    return wanted and header.count == header.last_offset_delta + 1 and not (header.control or header.log_append_time)


def _encoded_again(taken: Taken, header: BatchHeader, limit: int, name: str) -> Iterator[memoryview]:
    where = taken.part.range.name
    rows = decode(taken.records, [header], start=taken.start, end=taken.end, headers=True, where=where)
    records = rows.select(_RECORD)
    try:
        encoded = encode(records, codec=header.codec, max_bytes=limit, max_record=_ANY_SIZE, where=name)
    except ConfigError as error:
        raise _refused(rows, records, header.codec, limit, where, name) or error from None
    for batch in encoded:
        yield memoryview(b"".join(batch.chunks))


def _refused(
    rows: pa.RecordBatch, records: pa.RecordBatch, codec: Codec, limit: int, where: str, name: str
) -> ConfigError | None:
    """Find the record that cannot be encoded, for the message: this is the end of the flow, so it may take its time."""
    for row in range(records.num_rows):
        try:
            encode(records.slice(row, 1), codec=codec, max_bytes=limit, max_record=_ANY_SIZE, where=name)
        except ConfigError as error:
            offset = rows.column("offset")[row].as_py()
            return ConfigError(
                f"the record at offset {offset} of {where} cannot be written to {name}: {error.message} The flow stops"
                f" before it. If it is too large, raise max.message.bytes of {name}, then start again.",
                tag=error.tag,
            )
    return None
