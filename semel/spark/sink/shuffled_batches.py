"""Record batches as rows of Spark, from the stage that encodes them to the task that writes them
(docs/decisions/0020).

Between the two stages Spark copies each byte about ten times. So a batch crosses compressed where that makes it
smaller, whatever codec the topic's batches have. Nothing of it is left in what is written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import types as t

from semel.records.arrays import array, joined, numbers, repeated
from semel.records.encode import Batch

__all__ = ["COLUMNS", "shuffled", "unshuffled"]

#: The task that writes the batch, its topic and partition, its size in the log, and its bytes: compressed if they are
#: fewer.
COLUMNS = (
    t.StructType()
    .add("slot", "integer")
    .add("topic", "string")
    .add("partition", "integer")
    .add("size", "integer")
    .add("batch", "binary")
)
_SCHEMA = pa.schema(
    [
        ("slot", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("size", pa.int32()),
        ("batch", pa.binary()),
    ]
)
#: Both ways at gigabytes a second; what does not shrink is passed over faster still.
_LZ4 = pa.Codec("lz4_raw")
#: What LZ4 takes at once.
_LZ4_MOST = 0x7E000000


def shuffled(
    topic: str, slots: npt.NDArray[np.int32], partitions: npt.NDArray[np.int32], batches: Sequence[Batch]
) -> pa.RecordBatch:
    """Return the rows for these batches of one topic."""
    sizes = np.array([batch.size for batch in batches], np.int32)
    columns = [
        array(slots, pa.int32()),
        repeated(topic, len(batches)),
        array(partitions, pa.int32()),
        array(sizes, pa.int32()),
        joined([_smaller(batch) for batch in batches], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _smaller(batch: Batch) -> bytes:
    whole = b"".join(batch.chunks)
    if len(whole) > _LZ4_MOST:
        return whole
    compressed: bytes = _LZ4.compress(whole, asbytes=True)
    return compressed if len(compressed) < len(whole) else whole


def unshuffled(rows: pa.RecordBatch) -> Iterator[tuple[str, npt.NDArray[np.int64], Iterator[memoryview]]]:
    """Yield topic, partitions and batches of each run of rows of one topic. Each call of the encoder makes such a run.
    A batch is decompressed when it is taken.
    """
    topics, partitions = rows.column("topic").to_pylist(), numbers(rows.column("partition").cast(pa.int64()))
    sizes = numbers(rows.column("size").cast(pa.int64()))
    starts = [i for i, name in enumerate(topics) if i == 0 or name != topics[i - 1]]
    values = list(_values(rows.column("batch")))
    for start, end in pairwise([*starts, len(topics)]):
        batches = map(_whole, values[start:end], sizes[start:end].tolist())
        yield topics[start], partitions[start:end], batches


def _values(column: pa.Array) -> Iterator[memoryview]:
    """Yield the bytes of each value where they lie. A scalar of pyarrow would be a copy."""
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    area = memoryview(data).cast("B")
    return (area[start:end] for start, end in pairwise(ends.tolist()))


def _whole(value: memoryview, size: int) -> memoryview:
    return value if len(value) == size else memoryview(_LZ4.decompress(value, size)).cast("B")
