"""The first 61 bytes of a record batch v2: reading them, finding them in a fetched buffer, packing them with their CRC.

Base offset, length, leader epoch and magic are not under the CRC (CRC-32C); everything from the attributes on is.
Damage that shows in the 61 bytes raises :class:`~semel.errors.DataLoss` with the tag ``CORRUPT_RECORDS``. The CRC
itself is checked by whoever reads the records behind them, so that batches which are only passed over cost nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from crc32c import crc32c

from semel.errors import DataLoss, Unsupported
from semel.records.codecs import Codec

__all__ = ["HEADER_SIZE", "SMALLEST_RECORD", "BatchHeader", "check_crc", "corrupt", "pack", "scan"]

HEADER_SIZE = 61
#: Length, attributes, timestamp and offset deltas, key and value lengths, header count: a byte each.
SMALLEST_RECORD = 7

_FRONT = struct.Struct(">qiibI")
_TAIL = struct.Struct(">hiqqqhii")
_WHOLE = struct.Struct(">qiibIhiqqqhii")
#: Base offset and length stand before what the length counts.
_BEFORE_LENGTH = 12
_MAGIC_AT = 16
_CRC_AT = 17
_CRC_FROM = 21
_MAGIC = 2

_CODEC_MASK = 0x07
_CODECS = tuple(Codec)
_LOG_APPEND_TIME = 0x08
_TRANSACTIONAL = 0x10
_CONTROL = 0x20
_DELETE_HORIZON = 0x40


@dataclass(
    slots=True
)  # not frozen: there is one for every few records, and a frozen one takes three times as long to make
class BatchHeader:
    """What the first 61 bytes of a batch say, and where the batch stands in the scanned buffer."""

    position: int
    #: With the 12 bytes of base offset and length.
    size: int
    base_offset: int
    last_offset_delta: int
    #: Of records. Less than ``last_offset_delta + 1`` after compaction; 0 where nothing is left but the batch.
    count: int
    codec: Codec
    transactional: bool
    control: bool
    log_append_time: bool
    #: The base timestamp is then the time at which tombstones may go; record timestamps still count from it.
    delete_horizon: bool
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    leader_epoch: int

    @property
    def last_offset(self) -> int:
        """The offset of the last record that the batch had when it was written."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where the next batch may begin."""
        return self.base_offset + self.last_offset_delta + 1


def corrupt(where: str, offset: int, what: str) -> DataLoss:
    """The error for bytes that cannot be what a producer wrote."""
    place = f" of {where}" if where else ""
    return DataLoss(
        f"the record batch at offset {offset}{place} is damaged: {what}. No row after the damage was read. Read"
        " the partition again, from another replica if it stays: a damaged disk or network is the usual cause.",
        tag="CORRUPT_RECORDS",
    )


def scan(buffer: memoryview, *, where: str = "") -> list[BatchHeader]:
    """All whole batches of a fetched buffer. A cut-off batch at its end is normal and ends the scan; other damage
    raises.

    ``where`` names the partition in messages, as in ``orders-0``.
    """
    headers: list[BatchHeader] = []
    position, end = 0, len(buffer)
    while end - position > _MAGIC_AT:
        length = int.from_bytes(buffer[position + 8 : position + 12], "big", signed=True)
        _check_front(buffer, position, length, where)
        size = _BEFORE_LENGTH + length
        if position + size > end:
            break
        headers.append(_read(buffer, position, size, where))
        position += size
    return headers


def _check_front(buffer: memoryview, position: int, length: int, where: str) -> None:
    magic = buffer[position + _MAGIC_AT]
    base_offset = int.from_bytes(buffer[position : position + 8], "big", signed=True)
    if magic in (0, 1) and length > 0:
        raise Unsupported(
            f"offset {base_offset}{' of ' + where if where else ''} is stored in message format {magic}, from before"
            " Kafka 0.11; semel reads format 2 only. Nothing was read. Copy the topic with a client of that time, or"
            " start after it.",
            tag="OLD_MESSAGE_FORMAT",
        )
    if magic != _MAGIC:
        raise corrupt(where, base_offset, f"its magic byte is {magic}, which no version of Kafka writes")
    if length < HEADER_SIZE - _BEFORE_LENGTH:
        raise corrupt(where, base_offset, f"it says that it is {length} bytes long, less than its own header")


def _read(buffer: memoryview, position: int, size: int, where: str) -> BatchHeader:
    (
        base_offset,
        _,
        leader_epoch,
        _,
        _,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = _WHOLE.unpack_from(buffer, position)
    if not 0 <= count <= last_offset_delta + 1 or last_offset_delta < 0 or base_offset < 0:
        raise corrupt(where, base_offset, f"{count} records do not fit its last offset delta {last_offset_delta}")
    codec = attributes & _CODEC_MASK
    if codec > Codec.ZSTD:
        raise corrupt(where, base_offset, f"there is no codec {codec}")
    if codec == Codec.NONE and count * SMALLEST_RECORD > size - HEADER_SIZE:
        raise corrupt(where, base_offset, f"{count} records do not fit in {size - HEADER_SIZE} bytes")
    return BatchHeader(
        position,
        size,
        base_offset,
        last_offset_delta,
        count,
        _CODECS[codec],
        bool(attributes & _TRANSACTIONAL),
        bool(attributes & _CONTROL),
        bool(attributes & _LOG_APPEND_TIME),
        bool(attributes & _DELETE_HORIZON),
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        leader_epoch,
    )


def check_crc(buffer: memoryview, header: BatchHeader, where: str) -> None:
    """Raise if the bytes of a batch are not those that its CRC was made from."""
    stored = int.from_bytes(buffer[header.position + _CRC_AT : header.position + _CRC_FROM], "big")
    actual = crc32c(buffer[header.position + _CRC_FROM : header.position + header.size])
    if stored != actual:
        raise corrupt(where, header.base_offset, f"its CRC is {stored:#010x}, its bytes give {actual:#010x}")


def pack(header: BatchHeader, body: Sequence[bytes | memoryview]) -> bytes:
    """The 61 bytes of ``header`` for the (compressed) records in ``body``, CRC included.

    ``header.size`` must count both.
    """
    attributes = (
        int(header.codec)
        | _LOG_APPEND_TIME * header.log_append_time
        | _TRANSACTIONAL * header.transactional
        | _CONTROL * header.control
        | _DELETE_HORIZON * header.delete_horizon
    )
    tail = _TAIL.pack(
        attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.count,
    )
    crc = crc32c(tail)
    for chunk in body:
        crc = crc32c(chunk, crc)
    return _FRONT.pack(header.base_offset, header.size - _BEFORE_LENGTH, header.leader_epoch, _MAGIC, crc) + tail
