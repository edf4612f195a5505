"""The latency of a record through the count, at 1,000 a second.

Both commit each 100 ms. A count has the time of the newest record in it, so that the reader needs no more than its own
clock, which is the producer's.
"""

from __future__ import annotations

from functools import partial

from bench.figures import Figure, differences
from bench.latency import percentiles, writing
from bench.rig import Incomplete, Rig
from bench.rounds import Contender, interleave
from bench.streams_apps import KAFKA_STREAMS, OURS, running

__all__ = ["measure"]

_WORK = "streams, end to end"
_PER_SECOND = 1_000


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
