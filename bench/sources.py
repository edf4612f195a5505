"""The source beside Spark's Kafka source for the JVM: the same topic, read_committed, one task for each of its
partitions.

The topic is written by Kafka's own producer with its default settings, so its record batches are as small as most
topics have them. What is read is summed up by Spark, which touches every row and tells whether all of them came.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import functions as f

from bench import perf_tool, rows
from bench.figures import Figure, ratios
from bench.rig import Incomplete, Rig
from bench.rounds import Contender, interleave

__all__ = ["JVM_SOURCE", "measure", "measure_many", "measure_tls"]

JVM_SOURCE = "Spark's JVM source"
_TUNED = f"{JVM_SOURCE}, large fetches"
_TUNING = {"kafka.max.poll.records": "10000", "kafka.max.partition.fetch.bytes": "8388608"}
_OURS = "semel"
_PLAIN = "the same without TLS"
_WORK = "source"
#: Rows and partitions.
_FEW, _MANY = 6_000, 600


def measure(rig: Rig, count: int, rounds: range) -> list[Figure]:
    """Rows per second of a batch query over a whole topic."""
    with _written(rig, count) as topic:
        contenders = [
            Contender(_OURS, lambda _: _read(rig, "semel", topic, count, {})),
            Contender(JVM_SOURCE, lambda _: _read(rig, "kafka", topic, count, {})),
            Contender(_TUNED, lambda _: _read(rig, "kafka", topic, count, _TUNING)),
        ]
        rates = interleave(_WORK, contenders, rounds, unit="rows/s", console=rig.console)
    return [
        ratios(_WORK, JVM_SOURCE, rates[_OURS], rates[JVM_SOURCE], target=2.0, aim=4.0),
        ratios(_WORK, _TUNED, rates[_OURS], rates[_TUNED]),
    ]


def measure_tls(rig: Rig, count: int, rounds: range) -> list[Figure]:
    """Measure the same over TLS, and the cost of TLS itself."""
    work, tls = f"{_WORK}, TLS", rig.over_tls()
    with _written(rig, count) as topic:
        contenders = [
            Contender(_OURS, lambda _: _read(tls, "semel", topic, count, {})),
            Contender(JVM_SOURCE, lambda _: _read(tls, "kafka", topic, count, {})),
            Contender(_PLAIN, lambda _: _read(rig, "semel", topic, count, {})),
        ]
        rates = interleave(work, contenders, rounds, unit="rows/s", console=rig.console)
    return [
        ratios(work, JVM_SOURCE, rates[_OURS], rates[JVM_SOURCE], target=2.0, aim=4.0),
        ratios(work, _PLAIN, rates[_OURS], rates[_PLAIN]),
    ]


def measure_many(rig: Rig, rounds: range) -> list[Figure]:
    """Few rows over many partitions."""
    work = f"read, {_FEW:,} rows over {_MANY} partitions"
    with rig.topic("source-many", _MANY) as topic:
        rows.keyed(rig.spark, _FEW, 2).write.format("kafka").options(topic=topic, **rig.kafka).save()
        rig.check(topic, _FEW, partitions=_MANY)
        contenders = [
            Contender(_OURS, lambda _: _read(rig, "semel", topic, _FEW, {})),
            Contender(JVM_SOURCE, lambda _: _read(rig, "kafka", topic, _FEW, {})),
        ]
        rates = interleave(work, contenders, rounds, unit="rows/s", console=rig.console)
    return [ratios(work, JVM_SOURCE, rates[_OURS], rates[JVM_SOURCE], target=10.0)]


@contextmanager
def _written(rig: Rig, count: int) -> Iterator[str]:
    with rig.topic("source-input") as topic:
        rig.console.print(f"writing {count:,} rows to read", style="dim")
        perf_tool.produce(rig.servers, topic, count, rows.SIZE)
        rig.check(topic, count)
        yield topic


def _read(rig: Rig, name: str, topic: str, count: int, settings: Mapping[str, str]) -> float:
    options = {
        **rig.kafka,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }
    began = time.perf_counter()
    df = rig.spark.read.format(name).options(**options, **settings).load()
    sums = df.agg(f.count("offset").alias("rows"), f.sum(f.length("value")).alias("size")).first()
    seconds = time.perf_counter() - began
    if sums is None or (sums["rows"], sums["size"]) != (count, count * rows.SIZE):
        raise Incomplete(f"{name} read {sums} of {count} rows of {rows.SIZE} bytes")
    return count / seconds
