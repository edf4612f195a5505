"""The sink beside Spark's Kafka sink for the JVM: the same DataFrame, acks=all, as many output partitions.

Each run is a batch job of its own, from its call to its return: for semel that is with taking over, the transaction and
the wait for its markers. The JVM's sink is at-least-once, and runs with its defaults (batches of 16 KiB); how it does
when its batches are made large is one more line. Each run writes to a fresh topic, in which all rows must have arrived.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame

from bench import perf_tool, rows
from bench.figures import Figure, ratios
from bench.rig import PARTITIONS, Rig
from bench.rounds import Contender, interleave
from semel.spark import KafkaSink

__all__ = ["JVM_SINK", "SIZES", "TASK_SCOPE", "measure_free", "measure_keyed", "measure_sizes", "measure_tls"]

JVM_SINK = "Spark's JVM sink, at-least-once"
_TUNED = f"{JVM_SINK}, large batches"
_TUNING = {"kafka.batch.size": "1048576", "kafka.linger.ms": "20"}
_TOOL = "kafka-producer-perf-test"
#: Rows of jobs beside the large ones.
SIZES = (20_000, 200_000, 2_000_000)
_NOOP = "making the rows alone"
_OURS = "semel, exactly-once"
#: Each task writes a transaction of its own, and nothing is shuffled.
TASK_SCOPE = 'format("semel"), exactly-once'
_PLAIN = "the same without TLS"


def measure_free(rig: Rig, count: int, rounds: range) -> list[Figure]:
    """Rows without a key, and Kafka's own tool beside them."""
    df = rows.free(rig.spark, count, PARTITIONS)
    tool = Contender(_TOOL, lambda number: _with_tool(rig, f"tool-{number}", count))
    return _measure(rig, "sink, free rows", df, count, rounds, [tool], target=1.0, aim=1.5)


def measure_keyed(rig: Rig, count: int, rounds: range) -> list[Figure]:
    """Rows with a key, which semel shuffles to the one writer of their partition."""
    df = rows.keyed(rig.spark, count, PARTITIONS)
    return _measure(rig, "sink, keyed rows", df, count, rounds, [], target=0.75, aim=1.0)


def measure_sizes(rig: Rig, sizes: Sequence[int], rounds: range) -> list[Figure]:
    """Jobs of other sizes, with four kinds of keys: none, null, few and all different."""
    return [
        figure
        for count in sizes
        for kind, df in rows.kinds(rig.spark, count, PARTITIONS).items()
        for figure in _size(rig, f"write, {count:,} rows, {kind}", df, count, rounds, _target(count, kind))
    ]


def _size(rig: Rig, work: str, df: DataFrame, count: int, rounds: range, target: float | None) -> list[Figure]:
    short = work.replace(",", "").replace(" ", "-")
    contenders = [
        Contender(_OURS, lambda number: _with_semel(rig, f"{short}-semel-{number}", df, count)),
        Contender(TASK_SCOPE, lambda number: _with_format(rig, f"{short}-format-{number}", df, count)),
        Contender(JVM_SINK, lambda number: _with_jvm(rig, f"{short}-jvm-{number}", df, count, {})),
    ]
    rates = interleave(work, contenders, rounds, unit="rows/s", console=rig.console)
    return [
        ratios(work, JVM_SINK, rates[_OURS], rates[JVM_SINK], target=target),
        ratios(f"{work}, {TASK_SCOPE}", JVM_SINK, rates[TASK_SCOPE], rates[JVM_SINK]),
    ]


def _target(count: int, kind: str) -> float | None:
    if count < SIZES[1]:
        return None
    return 1.3 if count >= SIZES[2] and kind in rows.KEYLESS else 1.0


def measure_tls(rig: Rig, count: int, rounds: range) -> list[Figure]:
    """Rows without a key, by TLS; and beside that what TLS takes."""
    work, df, tls = "sink, free rows, TLS", rows.free(rig.spark, count, PARTITIONS), rig.over_tls()
    contenders = [
        Contender(_OURS, lambda number: _with_semel(tls, f"tls-semel-{number}", df, count)),
        Contender(JVM_SINK, lambda number: _with_jvm(tls, f"tls-jvm-{number}", df, count, {})),
        Contender(_PLAIN, lambda number: _with_semel(rig, f"tls-plain-{number}", df, count)),
    ]
    rates = interleave(work, contenders, rounds, unit="rows/s", console=rig.console)
    return [
        ratios(work, JVM_SINK, rates[_OURS], rates[JVM_SINK], target=1.0, aim=1.5),
        ratios(work, _PLAIN, rates[_OURS], rates[_PLAIN]),
    ]


def _measure(
    rig: Rig, work: str, df: DataFrame, count: int, rounds: range, more: list[Contender], *, target: float, aim: float
) -> list[Figure]:
    short = work.replace(", ", "-").replace(" ", "-")
    contenders = [
        Contender(_OURS, lambda number: _with_semel(rig, f"{short}-semel-{number}", df, count)),
        Contender(JVM_SINK, lambda number: _with_jvm(rig, f"{short}-jvm-{number}", df, count, {})),
        Contender(_TUNED, lambda number: _with_jvm(rig, f"{short}-large-{number}", df, count, _TUNING)),
        *more,
        Contender(_NOOP, lambda _: count / _seconds(lambda: df.write.format("noop").mode("overwrite").save())),
    ]
    rates = interleave(work, contenders, rounds, unit="rows/s", console=rig.console)
    figures = [ratios(work, JVM_SINK, rates[_OURS], rates[JVM_SINK], target=target, aim=aim)]
    return figures + [ratios(work, contender.name, rates[_OURS], rates[contender.name]) for contender in contenders[2:]]


def _with_semel(rig: Rig, topic: str, df: DataFrame, count: int) -> float:
    with rig.topic(topic):
        sink = KafkaSink(topic=topic, transactionalIdPrefix=topic, **rig.kafka)
        seconds = _seconds(lambda: sink.write(df, version=1))
        rig.check(topic, count, markers=PARTITIONS)
    return count / seconds


def _with_format(rig: Rig, topic: str, df: DataFrame, count: int) -> float:
    with rig.topic(topic):
        options = {"topic": topic, "transactionalIdPrefix": topic, "version": "1", **rig.kafka}
        seconds = _seconds(lambda: df.write.format("semel").options(**options).mode("append").save())
        rig.check(topic, count, markers=PARTITIONS * df.rdd.getNumPartitions())
    return count / seconds


def _with_jvm(rig: Rig, topic: str, df: DataFrame, count: int, settings: Mapping[str, str]) -> float:
    with rig.topic(topic):
        options = {"topic": topic, **rig.kafka, "kafka.acks": "all", **settings}
        seconds = _seconds(lambda: df.write.format("kafka").options(**options).save())
        rig.check(topic, count)
    return count / seconds


def _with_tool(rig: Rig, topic: str, count: int) -> float:
    with rig.topic(topic):
        rate = perf_tool.produce(rig.servers, topic, count, rows.SIZE)
        rig.check(topic, count)
    return rate


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
