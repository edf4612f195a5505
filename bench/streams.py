"""Streams beside Kafka Streams: a count over 1,000 keys, exactly-once, one process and one thread each.

Both do the same work, Kafka Streams with its cache and without: read the same topic, go through a repartition topic,
keep counts in RocksDB and a changelog, and write them. What is measured is the time between the first and the last
commit of offsets, so that the start of Java or Python does not count.
"""

from __future__ import annotations

import time
from functools import partial

import numpy as np
import pyarrow as pa

import semel
from bench.figures import Figure, ratios
from bench.rig import PARTITIONS, Incomplete, Rig
from bench.rounds import Contender, interleave
from bench.streams_apps import CACHED, KAFKA_STREAMS, OURS, REPARTITION, running
from semel.testing.records import read
from semel.wire.api.offsets import committed

__all__ = ["measure"]

_WORK = "streams, count"
_KEYS = 1_000
_CHUNK = 500_000
_IN = "streams-in"
_POLL_S = 0.02
#: So long without another commit is the end.
_QUIET_S = 3.0
_PATIENCE_S = 600.0


def measure(rig: Rig, count: int, rounds: range) -> list[Figure]:
    """Measure how many records of the input are counted in a second."""
    with rig.topic(_IN):
        _fill(rig, count)
        names = {OURS: "ours", KAFKA_STREAMS: "theirs", CACHED: "cached"}

        def run(who: str, number: int) -> float:
            return _count(rig, who, f"streams-{names[who]}-{number}", count)

        contenders = [Contender(who, partial(run, who)) for who in names]
        rates = interleave(_WORK, contenders, rounds, unit="records/s", console=rig.console)
    return [ratios(_WORK, peer, rates[OURS], rates[peer], target=0.7, aim=2.0) for peer in (KAFKA_STREAMS, CACHED)]


def _fill(rig: Rig, count: int) -> None:
    chance = np.random.default_rng(1)
    with (
        semel.Cluster({"bootstrap.servers": rig.servers}) as cluster,
        cluster.producer("streams-bench") as producer,
    ):
        for first in range(0, count, _CHUNK):
            keys = chance.integers(0, _KEYS, min(_CHUNK, count - first))
            words = pa.array([f"key{number}" for number in range(_KEYS)]).take(pa.array(keys))
            with producer.transaction() as txn:
                txn.send(_IN, pa.table({"value": words, "partition": pa.array(keys % PARTITIONS, pa.int32())}))


def _count(rig: Rig, who: str, name: str, count: int) -> float:
    with rig.topic(f"{name}-out") as target:
        rate = _rate(rig, who, name, target, count)
        found = read(rig.servers, [target], {"key": "key", "value": "value"})
        last = dict(zip(found["key"].to_pylist(), map(int, found["value"].to_pylist()), strict=True))
        if sum(last.values()) != count:
            raise Incomplete(f"{who} counted {sum(last.values())} of {count} records")
    return rate


def _rate(rig: Rig, who: str, name: str, target: str, count: int) -> float:
    with running(rig, who, name, _IN, target) as process:
        places = [(topic, at) for topic in (_IN, f"{name}-{REPARTITION}") for at in range(PARTITIONS)]
        began, first, last, changed, began_at = time.monotonic(), -1, 0, 0.0, 0.0
        while True:
            now = time.monotonic()
            stands = committed(rig.client, name, places, require_stable=False)
            read_in = sum(at for (topic, _), at in stands.items() if topic == _IN)
            total = sum(stands.values())
            if first < 0 and total:
                first, began_at = read_in, now
            if total != last:
                last, changed = total, now
            if read_in >= count and now - changed > _QUIET_S:
                return (count - first) / (changed - began_at)
            if process.poll() is not None or now - began > _PATIENCE_S:
                raise Incomplete(f"{name} read {read_in} of {count} records")
            time.sleep(_POLL_S)
