"""The cost of exactly-once in a micro-batch: the same sink and the same small batches, with and without the
transaction.

Each run is a query of its own, whose batches follow each other without a pause: so the wait for the markers of the
batch before is in it, which a slower trigger would hide. Keyed rows reach every partition. The time is the one that
Spark itself reports of each batch, without the first ones, which take over and warm up.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from bench import rows
from bench.figures import Figure, differences
from bench.rig import CORES, Rig
from bench.rounds import Contender, interleave
from semel.spark import KafkaSink

__all__ = ["FIRST", "ROWS", "batch_times", "measure"]

#: In each micro-batch.
ROWS = 1_000
#: Batches that are not counted.
FIRST = 3
#: Looking is work in the very process that commits: every 50 ms, as it was once, it made the batches longer that it
#: measured.
_POLL_S = 1.0
_PATIENCE_S = 120.0
_MODES = ("exactly_once", "at_least_once")
_PEER = "same sink, at-least-once"


def measure(rig: Rig, partitions: Sequence[int], batches: int, rounds: range) -> list[Figure]:
    """Milliseconds of a micro-batch at each number of output partitions; of each query the median of so many
    batches.
    """
    return [_measure(rig, count, batches, rounds) for count in partitions]


def _measure(rig: Rig, partitions: int, batches: int, rounds: range) -> Figure:
    work = f"micro-batch, {partitions} partition{'s' if partitions > 1 else ''}"

    def contender(mode: str) -> Contender:
        return Contender(
            mode, lambda number: _query(rig, f"batches-{partitions}-{mode}-{number}", mode, partitions, batches)
        )

    times = interleave(work, [contender(mode) for mode in _MODES], rounds, unit="ms a batch", console=rig.console)
    return differences(work, _PEER, *(times[mode] for mode in _MODES), target=25.0, aim=10.0)


def _query(rig: Rig, topic: str, mode: str, partitions: int, batches: int) -> float:
    """Return the median time of a micro-batch, from the start of its trigger to its entry in Spark's commit log."""
    source = (
        rig.spark.readStream.format("rate-micro-batch").options(rowsPerBatch=str(ROWS), numPartitions=str(CORES)).load()
    )
    df = source.select(f.col("value").cast("string").alias("key"), rows.payload(f.col("value")).alias("value"))
    with rig.topic(topic, partitions):
        sink = KafkaSink(topic=topic, transactionalIdPrefix=topic, delivery=mode, **rig.kafka)
        writer = (
            df.writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(rig.directory / topic))
            .trigger(processingTime="0 seconds")
        )
        return median(batch_times(writer.start(), batches))


def batch_times(query: StreamingQuery, batches: int) -> list[int]:
    """Milliseconds of so many batches of a query, but for the first ones. It is stopped then."""
    try:
        return _times(query, batches)
    finally:
        query.stop()


def _times(query: StreamingQuery, batches: int) -> list[int]:
    end = time.monotonic() + _PATIENCE_S
    while True:
        done = [
            progress for progress in query.recentProgress if progress["batchId"] >= FIRST and progress["numInputRows"]
        ]
        if len(done) >= batches:
            return [progress["durationMs"]["triggerExecution"] for progress in done[:batches]]
        failed = query.exception()
        if failed is not None:
            raise failed
        if time.monotonic() > end:
            raise TimeoutError(f"the query did {len(done)} of {batches} batches in {_PATIENCE_S:.0f} s")
        time.sleep(_POLL_S)
