"""The latency of a record through the count, at 1,000 a second.

Both commit each 100 ms. A count has the time of the newest record in it, so that the reader needs no more than its own
clock, which is the producer's.
"""

from __future__ import annotations

from functools import partial

from bench.figures import Figure
from bench.latency import compared, percentiles, writing
from bench.rig import Incomplete, Rig
from bench.streams_apps import KAFKA_STREAMS, OURS, running

__all__ = ["measure"]

_PER_SECOND = 1_000


def measure(rig: Rig, rounds: range) -> list[Figure]:
    """Milliseconds at the median and at the 99th percentile."""
    who = {one: partial(_latencies, rig, one) for one in (OURS, KAFKA_STREAMS)}
    return compared(rig, "streams, end to end", KAFKA_STREAMS, who, rounds)


def _latencies(rig: Rig, who: str, run: str) -> tuple[float, float]:
    name = f"latency-{run}"
    with (
        rig.topic(f"{name}-in") as source,
        rig.topic(f"{name}-out") as target,
        running(rig, who, name, source, target) as process,
        writing(rig.servers, source, _PER_SECOND),
    ):
        found = percentiles(rig.servers, target, _PER_SECOND)
        if process.poll() is not None:
            raise Incomplete(f"{name} ended by itself")
    return found
