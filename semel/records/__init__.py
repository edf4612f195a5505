"""Kafka record batches (format v2) to Arrow and back, many records at a time. No client, no sockets.

Follow a batch out: :mod:`.encode` cuts the rows of one partition into batches. :mod:`.columns` finds where their bytes
lie, :mod:`.timestamps` turns any Arrow timestamp into milliseconds, and :mod:`.assembly` copies the bytes once into
place. :mod:`.codecs` compresses, and :mod:`.header` packs the 61 bytes and the CRC.

Follow a batch in: :mod:`.header` scans a fetched buffer, :mod:`.bodies` checks and decompresses. :mod:`.starts` finds
where each record begins, :mod:`.decode` turns the records into columns, and :mod:`.gather` joins scattered bytes.

Both ways use :mod:`.varint`, :mod:`.record_headers`, and :mod:`.arrays` between numpy and Arrow. :mod:`.row_label`
names a row that is refused. :mod:`.control` reads the markers that end transactions. :mod:`.partitioner` places keys as
Java does. :mod:`.dead_letters` makes rows of records that a program could not work on.
"""

from __future__ import annotations

from semel.records.codecs import Codec
from semel.records.control import MarkerKind, marker
from semel.records.decode import decode
from semel.records.encode import Batch, encode
from semel.records.header import HEADER_SIZE, BatchHeader, scan
from semel.records.partitioner import murmur2, partition_for

__all__ = [
    "HEADER_SIZE",
    "Batch",
    "BatchHeader",
    "Codec",
    "MarkerKind",
    "decode",
    "encode",
    "marker",
    "murmur2",
    "partition_for",
    "scan",
]
