"""Rows that the driver has fetched, and holds, when their round does not end as it should: each is copied once.

The control keeps the rows that a committed round has written, and writes them again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.errors import AbortAndRetry
from semel.mirror.driver_copy import StandingFetch
from semel.mirror.rounds import Rounds
from semel.sandbox import Sandbox
from semel.steps import MirrorStep
from tests.mirror.support.harness import Running, alias_of, mm2, produce, records, unique
from tests.mirror.support.losses import source_made_anew
from tests.support import topics
from tests.support.broker_faults import striking
from tests.support.waiting import wait_for


class Mirror:
    """A topic of one partition with three rows, and its mirror."""

    def __init__(self, a: Sandbox, b: Sandbox, directory: Path) -> None:
        self.a, self.b = a, b
        self.topic = topics.create(a.bootstrap_servers, unique("waiting"), 1)
        self.file = mm2(directory, a, b, self.topic, emit__checkpoints__enabled="false")
        self.target = f"{alias_of(self.file)}.{self.topic}"

    def write(self, text: str) -> None:
        produce(self.a, self.topic, [{"value": f"{text} {number}"} for number in range(3)])

    def copied(self) -> list[bytes | None]:
        return [value for _, value, _, _ in records(self.b, self.target)[0]]


def fails() -> None:
    raise AbortAndRetry("struck by a test. Nothing is visible.")


def struck(mirror: Mirror, spark: SparkSession, step: MirrorStep, strike: Callable[[], object]) -> list[bytes | None]:
    """Copy three rows, then strike at a step of the round of three more. Return what the target has after three more
    were copied.
    """
    with Running(spark, mirror.file) as running:
        mirror.write("before")
        wait_for(lambda: ": 3 records" in running.said(), running.said)
        with striking(step, strike) as happened:
            mirror.write("held")
            wait_for(happened.is_set, running.said)
            wait_for(lambda: "tried again in" in running.said(), running.said)
        mirror.write("after")
        wait_for(lambda: b"after 2" in mirror.copied(), running.said)
    assert running.failed == []
    return mirror.copied()


ALL = [f"{text} {number}".encode() for text in ("before", "held", "after") for number in range(3)]


@pytest.mark.parametrize("step", [MirrorStep.PROVEN, MirrorStep.COMMITTED], ids=str)
def test_a_round_that_fails_before_or_after_its_commit(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, step: MirrorStep
) -> None:
    assert struck(Mirror(a, b, tmp_path), spark, step, fails) == ALL


def test_control_rows_that_are_kept_after_a_commit_come_twice(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rounds, "stop_waiting", lambda _: None)
    monkeypatch.setattr(StandingFetch, "follows", lambda *_: True)
    copied = struck(Mirror(a, b, tmp_path), spark, MirrorStep.COMMITTED, fails)
    assert copied.count(b"held 0") == 2


def test_a_topic_that_is_made_again_while_its_rows_are_held(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    """The rows of the first topic are copied, which were there. The topic stops before those of the second."""
    mirror = Mirror(a, b, tmp_path)
    with Running(spark, mirror.file) as running:
        mirror.write("before")
        wait_for(lambda: ": 3 records" in running.said(), running.said)
        with striking(MirrorStep.PLANNED, lambda: source_made_anew(a, b, mirror.topic, mirror.target)) as happened:
            mirror.write("held")
            wait_for(happened.is_set, running.said)
            wait_for(lambda: "is stopped" in running.said(), running.said)
    assert running.failed == []
    assert "was deleted and created again" in running.said()
    assert mirror.copied() == ALL[:6]
