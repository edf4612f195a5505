"""Rows to record batches in the stage before the shuffle, so that what is shuffled is few large rows (DESIGN section
7).

Kafka's partitioner decides where a row goes, and it runs in Python; encoding there too means that the rows cross
between Spark's Java and Python once, and that the shuffle moves finished bytes. A batch gets its identity only in the
writing task (:meth:`Participant.write_encoded`), whose ticket names it: what this stage makes may be made any number of
times.

Between the two stages Spark copies each byte about ten times. So a batch crosses compressed where that makes it
smaller, whatever codec the topic's batches have. Nothing of it is left in what is written (docs/decisions/0020).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import types as t

from semel.errors import ConfigError
from semel.records.arrays import array, joined, numbers, repeated
from semel.records.codecs import Codec
from semel.records.decode import PORTION
from semel.records.encode import Batch, encode
from semel.transaction.routing import by_partition, targets
from semel.transaction.ticket import TicketTopic

__all__ = ["COLUMNS", "Encoder", "by_topic", "gathered", "in_portions", "shuffled", "unshuffled"]

#: Rows are gathered to about this many bytes before they are encoded: record batches of small Arrow batches would be
#: small themselves.
_GATHER = 8 << 20
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


@dataclass(frozen=True)
class Encoder:
    """The function of the tasks before the shuffle: ``mapInArrow`` calls it with Arrow batches of rows.

    ``topic`` is where all rows go, or None where a column says it. ``first`` numbers the partitions of all ``topics``
    through; partition number ``n`` belongs to task ``n % tasks``. Raises :class:`ConfigError` for a topic or a
    partition that is not there.
    """

    topic: str | None
    topics: Mapping[str, TicketTopic]
    first: Mapping[str, int]
    tasks: int
    keys: bool
    codec: Codec
    max_record: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Encode. Batches of different partitions come in turn, so that the writer can send many in one request."""
        context = TaskContext.get()
        # rows without key or partition stay together for a while, on a partition that differs from task to task
        sticky = context.partitionId() if context is not None else 0
        for rows in gathered(batches):
            for name, part in by_topic(rows, self.topic, self.topics):
                yield from self._encoded(name, part, sticky)
            sticky += 1

    def _encoded(self, name: str, rows: pa.Table, sticky: int) -> Iterator[pa.RecordBatch]:
        topic = self.topics[name]
        target = targets(name, rows, topic.partitions, sticky % topic.partitions, keys=self.keys)
        parts = [
            [
                (index, batch)
                for batch in encode(
                    part,
                    codec=self.codec,
                    max_bytes=topic.max_bytes,
                    max_record=self.max_record,
                    where=f"{name}-{index}",
                )
            ]
            for index, part in by_partition(rows, target)
        ]
        turns = [pair for turn in zip_longest(*parts) for pair in turn if pair is not None]
        for some in in_portions(turns):
            partitions = np.array([index for index, _ in some], np.int32)
            slots = ((partitions + self.first[name]) % self.tasks).astype(np.int32)
            yield shuffled(name, slots, partitions, [batch for _, batch in some])


def in_portions(turns: Sequence[tuple[int, Batch]], most: int = PORTION) -> Iterator[Sequence[tuple[int, Batch]]]:
    """Yield the encoded batches in order, as many at a time as have ``most`` bytes together, or one: an Arrow array
    holds less than 2 GiB.
    """
    first = size = 0
    for index, (_, batch) in enumerate(turns):
        if index > first and size + batch.size > most:
            yield turns[first:index]
            first, size = index, 0
        size += batch.size
    yield turns[first:]


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Arrow batches put together until they are worth encoding."""
    kept: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        kept.append(batch)
        size += batch.nbytes
        if size >= _GATHER:
            yield pa.Table.from_batches(kept)
            kept, size = [], 0
    if kept:
        yield pa.Table.from_batches(kept)


def by_topic(rows: pa.Table, topic: str | None, known: Mapping[str, object] | None) -> list[tuple[str, pa.Table]]:
    """Return the rows of each topic. Raise :class:`ConfigError` for a topic that is not in ``known``, if that is
    given.
    """
    if topic is not None:
        return [(topic, rows)]
    names = rows.column("topic")
    found = {one.as_py(): one for one in names.unique()}
    unknown = [name for name in found if name is None or (known is not None and name not in known)]
    if None in unknown:
        raise ConfigError(
            "a row has no topic: its column topic is null. Nothing of this batch is visible. Give it one (coalesce),"
            " leave such rows out, or give the sink the option topic.",
            tag="NO_TOPIC",
        )
    if unknown and known is not None:
        raise ConfigError(
            f"a row names topic {unknown[0]!r}, which is not among topics={','.join(sorted(known))}. Nothing of this"
            " batch is visible. Add it to topics, if these rows are to go there. If topic is the column of the"
            " source, which says where a row was read: drop it, and give the sink the option topic.",
            tag="UNKNOWN_TOPIC",
        )
    return [(name, rows if len(found) == 1 else rows.filter(pc.equal(names, one))) for name, one in found.items()]


# ---- record batches as rows of Spark


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
