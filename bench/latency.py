"""How long records take: from the producer's clock to a read_committed reader, on one machine with one clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.figures import Figure, differences
from bench.programs import working
from bench.rig import PARTITIONS, Incomplete, Rig
from bench.rounds import Contender, interleave

__all__ = ["compared", "percentiles", "writing"]

_KEYS = 1_000
_TICK_S = 0.01
#: The first seconds behind the first record are for Java to compile.
_WARM_S, _MEASURED_S, _PATIENCE_S = 8.0, 15.0, 120.0


def compared(
    rig: Rig, work: str, peer: str, who: Mapping[str, Callable[[str], tuple[float, float]]], rounds: range
) -> list[Figure]:
    """Compare ours, which is the other one of two, with its peer: at the median and at the 99th percentile.

    Each of the two returns both, in milliseconds, of a run that is given a name of its own.
    """
    tails: dict[str, list[float]] = {one: [] for one in who}

    def run(one: str, number: int) -> float:
        p50, p99 = who[one](f"{list(who).index(one)}-{number}")
        if number:
            tails[one].append(p99)
        rig.console.print(f"{work}: {one}: p99 {p99:.1f} ms", style="dim", highlight=False)
        return p50

    contenders = [Contender(one, partial(run, one)) for one in who]
    medians = interleave(f"{work}, p50", contenders, rounds, unit="ms", console=rig.console)
    (ours,) = who.keys() - {peer}
    return [
        differences(f"{work}, {name}", peer, found[ours], found[peer])
        for name, found in (("p50", medians), ("p99", tails))
    ]


def writing(servers: str, topic: str, per_second: int) -> AbstractContextManager[None]:
    """Write records of a thousand keys at this rate, each with the time of its send, until the block is left."""
    return working(partial(_write, servers, topic, per_second))


def _write(servers: str, topic: str, per_second: int, ended: threading.Event) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 0})
    per_tick = int(per_second * _TICK_S)
    first, at = 0, time.monotonic()
    while not ended.is_set():
        for number in range(first, first + per_tick):
            producer.produce(topic, f"key{number % _KEYS}", partition=number % PARTITIONS)
        first += per_tick
        producer.poll(0)
        at += _TICK_S
        time.sleep(max(at - time.monotonic(), 0))
    producer.flush(30)


def percentiles(servers: str, topic: str, per_second: int) -> tuple[float, float]:
    """Return the median and the 99th percentile of the milliseconds from a record's timestamp to its arrival.

    Raises :class:`Incomplete` where not even half of the records arrive.
    """
    found = _read(servers, topic)
    if len(found) < _MEASURED_S * per_second / 2:
        raise Incomplete(f"{len(found)} records of {topic} arrived in {_MEASURED_S} s")
    p50, p99 = np.percentile(found, (50, 99))
    return float(p50), float(p99)


def _read(servers: str, topic: str) -> list[float]:
    settings = {"bootstrap.servers": servers, "group.id": "latency", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
    found: list[float] = []
    began, first = time.monotonic(), 0.0
    while not first or time.monotonic() - first < _WARM_S + _MEASURED_S:
        for message in consumer.consume(1_000, 0.05):
            if message.error():  # the topic is not there yet
                continue
            now = time.time()
            first = first or time.monotonic()
            if time.monotonic() - first >= _WARM_S:
                found.append(1_000 * now - message.timestamp()[1])
        if not first and time.monotonic() - began > _PATIENCE_S:
            break
    consumer.close()
    return found
