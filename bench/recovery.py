"""From SIGKILL of a driver to the first new rows that a reader gets, beside the same query at-least-once, and by
Spark's own connector.

Rows arrive all the time. A driver program copies them, is killed in the middle of it, with its Java, and started again
at once. For semel the time is split by the steps that the second program passes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.figures import Figure, differences
from bench.pipeline import JVM, Pipeline
from bench.rig import PARTITIONS, Incomplete, Rig
from bench.rounds import Contender, interleave
from semel.steps import OwnerStep, SinkStep
from semel.testing.crash import CrashPlan
from semel.testing.program import Program
from semel.testing.step_log import Passed, step_name
from semel.wire.api.offsets import LATEST, list_offsets

__all__ = ["Recovery"]

_WORK = "SIGKILL of the driver to new rows"
_OURS = "exactly_once"
_PEERS = {"at_least_once": "same query, at-least-once", JVM: "Spark's JVM source and sink, at-least-once"}
#: The driver is killed when so many rows have come out, which are some seconds of rows that arrive.
_BEFORE = 3_000
_LOT, _PAUSE_S = 100, 0.1
_PATIENCE_S = 300.0
_POLL_S = 0.05
_QUIET_S = 1.0
#: What ends each part of the way to the first commit.
_PARTS = (
    ("Spark's start", SinkStep.CALLED),
    ("taking over", OwnerStep.MARKERS_CHECKED),
    ("the first batch", OwnerStep.COMMIT_ANSWERED),
)


class Recovery:
    """The measured recovery. As text, semel's way to its first new commit, part by part."""

    def __init__(self) -> None:
        self._parts: dict[str, list[float]] = {name: [] for name, _ in _PARTS}

    def __str__(self) -> str:
        # taking over is some 50 ms: with one digit it would be printed as nothing at all
        parts = ", ".join(
            f"{name} {median(values):.2f} s ({min(values):.2f} to {max(values):.2f})"
            for name, values in self._parts.items()
        )
        return f"{sum(self.split().values()):.1f} s: {parts}"

    def split(self) -> dict[str, float]:
        """Seconds of each part, the median of all kills."""
        return {name: median(values) for name, values in self._parts.items()}

    def measure(self, rig: Rig, rounds: range) -> list[Figure]:
        """Milliseconds, one kill each."""
        contenders = [Contender(way, partial(self.kill, rig, way)) for way in (_OURS, *_PEERS)]
        times = interleave(_WORK, contenders, rounds, unit="ms", console=rig.console)
        return [differences(_WORK, name, times[_OURS], times[way]) for way, name in _PEERS.items()]

    def kill(self, rig: Rig, way: str, number: int) -> float:
        """Kill the driver of one query, of the delivery that ``way`` names, and return the milliseconds until new rows
        are read.
        """
        name = f"recovery-{way.replace('_', '-')}-{number}"
        plan = CrashPlan(rig.directory / name)
        with rig.topic(f"{name}-in") as source, rig.topic(f"{name}-out") as target, _feeding(rig.servers, source):
            pipeline = Pipeline(source, target, way, rig.kafka, str(plan.directory))
            with _driver(pipeline, plan) as first:
                _read(rig.servers, [TopicPartition(target, index, 0) for index in range(PARTITIONS)], _BEFORE, first)
            killed = time.monotonic()
            with _driver(pipeline, plan) as second:
                _read(rig.servers, _quiet_ends(rig, target), 1, second)
                seen = time.monotonic()
                while way == _OURS and not _answered(
                    plan, killed
                ):  # a reader may have the rows before the driver has its answer
                    _refuse_ended(second, seen + _PATIENCE_S)
                    time.sleep(_POLL_S)
            if way == _OURS and number:
                self._split(killed, plan.passed())
        return (seen - killed) * 1000

    def _split(self, killed: float, passed: Sequence[Passed]) -> None:
        before = killed
        for name, step in _PARTS:
            after = min(each.time for each in passed if each.time > before and each.step == step_name(step))
            self._parts[name].append(after - before)
            before = after


def _quiet_ends(rig: Rig, topic: str) -> list[TopicPartition]:
    """Return the ends once nothing is written any more: Python workers outlive the first driver's Java a little.

    The second one's rows are seconds away.
    """
    partitions = {(topic, index): LATEST for index in range(PARTITIONS)}
    before: object = None
    ends = list_offsets(rig.client, partitions, read_committed=False)
    while ends != before:
        time.sleep(_QUIET_S)
        before, ends = ends, list_offsets(rig.client, partitions, read_committed=False)
    return [TopicPartition(topic, index, found.offset) for (topic, index), found in ends.items()]


def _driver(pipeline: Pipeline, plan: CrashPlan) -> Program:
    return Program(
        [sys.executable, "-m", "bench.pipeline", str(pipeline)],
        {**os.environ, **plan.environment()},
        plan.directory / "driver.log",
    )


def _read(servers: str, begin: list[TopicPartition], rows: int, program: Program) -> None:
    """Return as soon as a reader that begins there has got so many committed rows."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign(begin)
    end = time.monotonic() + _PATIENCE_S
    try:
        while rows > 0:
            rows -= len(consumer.consume(_BEFORE, timeout=0.01))
            _refuse_ended(program, end)
    finally:
        consumer.close()


def _answered(plan: CrashPlan, killed: float) -> bool:
    return any(each.time > killed and each.step == step_name(OwnerStep.COMMIT_ANSWERED) for each in plan.passed())


def _refuse_ended(program: Program, end: float) -> None:
    if program.process.poll() is not None or time.monotonic() > end:
        raise Incomplete(
            f"the driver has ended, or nothing new came from it within {_PATIENCE_S:.0f} s:\n{program.tail()}"
        )


@contextmanager
def _feeding(servers: str, topic: str) -> Iterator[None]:
    """Rows arrive, as long as the block runs."""
    over = threading.Event()
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})

    def feed() -> None:
        while not over.wait(_PAUSE_S):
            for number in range(_LOT):
                producer.produce(topic, key=str(number), value=str(number))
            producer.poll(0)

    thread = threading.Thread(target=feed, name="bench-feeder")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        producer.flush(10)
