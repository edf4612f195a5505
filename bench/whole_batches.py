"""A whole micro-batch, source and sink, beside the same query of Spark's own: keyed rows from topic to topic.

Spark's own is at-least-once. The time is the one that Spark itself reports of each batch (``triggerExecution``),
without the first ones, which take over and warm up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from bench import rows
from bench.figures import WHOLE, Figure, ratios
from bench.micro_batches import FIRST, batch_times
from bench.rig import Rig
from bench.rounds import Contender, interleave
from bench.sinks import TASK_SCOPE
from semel.spark import KafkaSink

__all__ = ["SHAPES", "measure", "start"]

#: Rows of a batch, partitions of both topics, and minRecordsPerPartition where it is not the default.
SHAPES: tuple[tuple[int, int, int | None], ...] = (
    (1_000, 1, None),
    (1_000, 4, None),
    (1_000, 100, None),
    (50_000, 4, None),
    (50_000, 4, 50_000),
)
_PEER = "Spark's own source and sink"
#: The form of a query whose sink is ``format("semel")``.
_BY_FORMAT = "semel-format"
_OURS = "semel, exactly-once"
#: At most 1.5 times as long.
_TARGET = 1 / 1.5
_MORE = 20


def measure(rig: Rig, shapes: Sequence[tuple[int, int, int | None]], batches: int, rounds: range) -> list[Figure]:
    """Batches a second that one query could make, of each shape."""
    return [figure for shape in shapes for figure in _measure(rig, *shape, batches, rounds)]


def _measure(rig: Rig, size: int, partitions: int, least: int | None, batches: int, rounds: range) -> list[Figure]:
    work = f"{WHOLE}, {size:,} rows, {partitions} partition{'s' if partitions > 1 else ''}"
    options = {} if least is None else {"minRecordsPerPartition": str(least)}
    if options:
        work += ", in one task"
    source = f"whole-{size}-{partitions}-{least or 'default'}"

    def contender(name: str, form: str) -> Contender:
        def run(number: int) -> float:
            with rig.topic(f"{source}-{form}-{number}", partitions) as target:
                return median(
                    batch_times(start(rig, form, source, target, size, {} if form == "kafka" else options), batches)
                )

        return Contender(name, run)

    with rig.topic(source, partitions):
        # with those that are not counted, and some that may be made before the query is stopped
        count = size * (FIRST + batches + _MORE)
        rows.keyed(rig.spark, count, 2).write.format("kafka").options(topic=source, **rig.kafka).save()
        rig.check(source, count, partitions=partitions)
        contenders = [contender(_OURS, "semel"), contender(TASK_SCOPE, _BY_FORMAT), contender(_PEER, "kafka")]
        times = interleave(work, contenders, rounds, unit="ms a batch", console=rig.console)
    ours, scope, theirs = ([1000 / each for each in times[name]] for name in (_OURS, TASK_SCOPE, _PEER))
    return [
        ratios(work, _PEER, ours, theirs, target=_TARGET if size == SHAPES[0][0] else None),
        ratios(f"{work}, {TASK_SCOPE}", _PEER, scope, theirs),
    ]


def start(rig: Rig, form: str, source: str, target: str, size: int, options: Mapping[str, str]) -> StreamingQuery:
    """Start a query from topic to topic with batches of this size. ``form`` is ``semel``, ``kafka``, or
    ``semel-format``: semel's source, and ``format("semel")`` as the sink.
    """
    reading = {"subscribe": source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": str(size), **options}
    df = (
        rig.spark.readStream.format("kafka" if form == "kafka" else "semel")
        .options(**rig.kafka, **reading)
        .load()
        .select("key", "value")
    )
    writer = {"semel": _semels, _BY_FORMAT: _by_format, "kafka": _sparks}[form](rig, df.writeStream, target)
    return writer.option("checkpointLocation", str(rig.directory / target)).trigger(processingTime="0 seconds").start()


def _semels(rig: Rig, writer: DataStreamWriter, topic: str) -> DataStreamWriter:
    return writer.foreachBatch(KafkaSink(topic=topic, transactionalIdPrefix=topic, **rig.kafka))


def _by_format(rig: Rig, writer: DataStreamWriter, topic: str) -> DataStreamWriter:
    return writer.format("semel").options(topic=topic, transactionalIdPrefix=topic, **rig.kafka)


def _sparks(rig: Rig, writer: DataStreamWriter, topic: str) -> DataStreamWriter:
    return writer.format("kafka").options(topic=topic, **rig.kafka, **{"kafka.acks": "all"})
