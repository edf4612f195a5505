"""A group moves to the other cluster and comes back, and the mirror is killed in each of the two rounds that carry its
offsets: the group reads each record once. Offsets that are not translated, and a mirror at least once, are the control.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from semel.errors import Retriable
from semel.sandbox import Sandbox
from semel.steps import MirrorStep, OwnerStep, Step
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.spark.spark_cluster import LOCAL, SparkCluster
from tests.mirror.support.groups import consume, offsets, translate
from tests.mirror.support.harness import alias_of, copy_once, mm2, produce, program, records, transactions, unique
from tests.support import topics
from tests.support.waiting import PATIENCE_S

IN_A_ROUND: list[Step] = [
    MirrorStep.PLANNED,
    MirrorStep.COPIED,
    MirrorStep.PROVEN,
    MirrorStep.SEGMENTS_WRITTEN,
    OwnerStep.PROGRESS_WRITTEN,
    OwnerStep.OFFSETS_ADDED,
    OwnerStep.COMMIT_SENT,
    OwnerStep.COMMIT_ANSWERED,
    MirrorStep.COMMITTED,
    MirrorStep.CHECKPOINTS_WRITTEN,
]
WAYS = ("translated", "synced")


class Move:
    """A topic of one partition on both clusters, a group, and all that it has read."""

    def __init__(self, a: Sandbox, b: Sandbox, spark: SparkSession, directory: Path, **keys: str) -> None:
        self.a, self.b, self.spark, self.directory = a, b, spark, directory
        self.topic, self.group = topics.create(a.bootstrap_servers, unique("moved"), 1), unique("group")
        keys = {"groups": self.group, "checkpoints__topic__replication__factor": "1", **keys}
        self.file = mm2(directory, a, b, self.topic, **keys)
        # for a look while a dead mirror's transaction is open
        self.impatient = directory / "impatient.properties"
        self.impatient.write_text(self.file.read_text() + "B.admin.default.api.timeout.ms = 1000\n")
        self.alias = alias_of(self.file)
        self.target = f"{self.alias}.{self.topic}"
        self.read: list[bytes] = []

    def write(self, outcomes: str) -> None:
        """Ten records, if two transactions are committed, and gaps between them."""
        transactions(self.a, self.topic, outcomes)
        produce(self.a, self.topic, [{"value": unique("plain")} for _ in range(4)], **{"batch.num.messages": 2})

    def consume(self, where: Sandbox, count: int) -> None:
        self.read += consume(where, self.group, self.topic if where is self.a else self.target, count)

    def carried(self, step: Step | None, source: str, target: str) -> None:
        """Run a round that is killed at the step, and let another start copy the rest.

        In between, the translation is not there yet, or is none that would pass over records.
        """
        asked = (source, target, "--group", self.group, "--json")
        before = None
        if step is not None:
            plan = CrashPlan(self.directory / unique("plan"), CrashPoint(step, 1, Action.DRIVER))
            with SparkCluster(LOCAL).driver(program(self.file, "--once"), plan) as driver:
                assert driver.wait(PATIENCE_S) == -signal.SIGKILL, driver.tail()
            with suppress(Retriable):  # the dead mirror's transaction is open
                (before,) = translate(self.impatient, *asked)
        copy_once(self.spark, self.file)
        (now,) = translate(self.file, *asked)
        assert before is None or before["offset"] <= now["offset"]

    def there(self) -> None:
        """Move the offsets to the target."""
        translate(self.file, self.alias, "B", "--group", self.group, "--apply")

    def back(self) -> None:
        """Move the offsets to the source."""
        translate(self.file, "B", self.alias, "--group", self.group, "--apply")

    def all_of_it(self) -> list[bytes | None]:
        return [value for _, value, _, _ in records(self.a, self.topic)[0]]


def go(move: Move, step: Step | None = None, *, way: str = "translated", on_a: int = 10) -> None:
    """Read on the source, then on the target."""
    move.write("cac")
    move.consume(move.a, 5)
    copy_once(move.spark, move.file)
    move.write("acca")
    move.consume(move.a, on_a)
    move.carried(step, move.alias, "B")
    if way == "translated":
        move.there()
    move.consume(move.b, 3)


def come_back(move: Move, step: Step | None) -> None:
    """Read on, and on the source again."""
    move.write("caca")
    move.carried(step, "B", move.alias)
    move.consume(move.b, 7)
    move.back()
    move.consume(move.a, 5)


def test_a_group_moves_while_the_mirror_is_killed(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    move = Move(a, b, spark, tmp_path)
    go(move, MirrorStep.SEGMENTS_WRITTEN)
    come_back(move, None)
    assert move.read == move.all_of_it()


@pytest.mark.exhaustive
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("step", IN_A_ROUND, ids=lambda step: step.value)
def test_a_group_moves_and_comes_back_while_the_mirror_is_killed(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, step: Step, way: str
) -> None:
    move = Move(a, b, spark, tmp_path, sync__group__offsets__enabled="true" if way == "synced" else "false")
    go(move, step, way=way)
    come_back(move, step)
    assert move.read == move.all_of_it()


@pytest.mark.exhaustive
def test_a_group_follows_and_the_mirror_is_killed_behind_it(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    """The step is passed on the way there alone: a group that has read further on the target is left alone."""
    move = Move(a, b, spark, tmp_path, sync__group__offsets__enabled="true")
    go(move, MirrorStep.GROUP_SYNCED, way="synced")
    come_back(move, MirrorStep.CHECKPOINTS_WRITTEN)
    assert move.read == move.all_of_it()


def test_control_offsets_that_are_not_translated(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    class AsTheyAre(Move):
        def there(self) -> None:
            at = TopicPartition(self.target, 0, offsets(self.a, self.group)[self.topic, 0])
            admin = AdminClient({"bootstrap.servers": self.b.bootstrap_servers})
            asked = [ConsumerGroupTopicPartitions(self.group, [at])]
            admin.alter_consumer_group_offsets(asked)[self.group].result(30)

    move = AsTheyAre(a, b, spark, tmp_path)
    go(move, on_a=5)
    assert move.read[:10] == move.all_of_it()[:10]
    assert move.read[10:] != move.all_of_it()[10:13]


@pytest.mark.exhaustive
def test_control_a_mirror_that_copies_at_least_once(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    move = Move(a, b, spark, tmp_path, B__exactly__once__source__support="disabled")
    go(move)
    move.write("caca")
    move.carried(MirrorStep.COPIED, "B", move.alias)
    move.consume(move.b, 12)
    assert move.read == move.all_of_it()
    move.consume(move.b, 10)
    assert move.read[30:] == move.all_of_it()[20:]
