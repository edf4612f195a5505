"""The latency of a record through the count: from the producer's clock to a read_committed reader, at 1,000 a second.

Both commit each 100 ms. A count has the time of the newest record in it, so that the reader needs no more than its own
clock, which is the producer's.
"""

from __future__ import annotations

import threading
import time
from functools import partial

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.figures import Figure, differences
from bench.rig import PARTITIONS, Incomplete, Rig
from bench.rounds import Contender, interleave
from bench.streams_apps import KAFKA_STREAMS, OURS, running

__all__ = ["measure"]

_WORK = "streams, end to end"
_KEYS = 1_000
_PER_TICK, _TICK_S = 10, 0.01
#: The first seconds behind the first count are for Java to compile.
_WARM_S, _MEASURED_S, _PATIENCE_S = 8.0, 15.0, 120.0


def measure(rig: Rig, rounds: range) -> list[Figure]:
    """Milliseconds at the median and at the 99th percentile."""
    tails: dict[str, list[float]] = {OURS: [], KAFKA_STREAMS: []}

    def run(who: str, number: int) -> float:
        p50, p99 = _latencies(rig, who, f"latency-{list(tails).index(who)}-{number}")
        if number:
            tails[who].append(p99)
        rig.console.print(f"{_WORK}: {who}: p99 {p99:.1f} ms", style="dim", highlight=False)
        return p50

    contenders = [Contender(who, partial(run, who)) for who in tails]
    medians = interleave(f"{_WORK}, p50", contenders, rounds, unit="ms", console=rig.console)
    return [
        differences(f"{_WORK}, {name}", KAFKA_STREAMS, found[OURS], found[KAFKA_STREAMS])
        for name, found in (("p50", medians), ("p99", tails))
    ]


def _latencies(rig: Rig, who: str, name: str) -> tuple[float, float]:
    ended = threading.Event()
    with (
        rig.topic(f"{name}-in") as source,
        rig.topic(f"{name}-out") as target,
        running(rig, who, name, source, target) as process,
    ):
        writer = threading.Thread(target=_write, args=(rig.servers, source, ended))
        writer.start()
        try:
            found = _read(rig.servers, target)
        finally:
            ended.set()
            writer.join()
        if process.poll() is not None:
            raise Incomplete(f"{name} ended by itself")
    if len(found) < _MEASURED_S / _TICK_S * _PER_TICK / 2:
        raise Incomplete(f"{name} wrote {len(found)} counts in {_MEASURED_S} s")
    p50, p99 = np.percentile(found, (50, 99))
    return float(p50), float(p99)


def _write(servers: str, topic: str, ended: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    first, at = 0, time.monotonic()
    while not ended.is_set():
        for number in range(first, first + _PER_TICK):
            producer.produce(topic, f"key{number % _KEYS}", partition=number % PARTITIONS)
        first += _PER_TICK
        producer.poll(0)
        at += _TICK_S
        time.sleep(max(at - time.monotonic(), 0))
    producer.flush(30)


def _read(servers: str, topic: str) -> list[float]:
    """Return how long after its record each count arrives."""
    settings = {"bootstrap.servers": servers, "group.id": "latency", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: list[float] = []
    began, first = time.monotonic(), 0.0
    while not first or time.monotonic() - first < _WARM_S + _MEASURED_S:
        for message in consumer.consume(1_000, 0.05):
            now = time.time()
            first = first or time.monotonic()
            if not message.error() and time.monotonic() - first >= _WARM_S:
                found.append(1_000 * now - message.timestamp()[1])
        if not first and time.monotonic() - began > _PATIENCE_S:
            break
    consumer.close()
    return found
