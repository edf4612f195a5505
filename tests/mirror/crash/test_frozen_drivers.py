"""A driver or worker is frozen in the middle of a round, another start takes over, then it thaws: it writes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from semel.steps import MirrorStep, ParticipantStep, Step
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.spark.spark_cluster import LOCAL, SparkCluster
from tests.mirror.support.harness import DRIVER, EXECUTORS, alias_of, copy_once, mm2, produce, program, records, unique
from tests.support import topics
from tests.support.waiting import PATIENCE_S

ROWS = 30


def log_end(sandbox: Sandbox, topic: str) -> int:
    """Where the log of the only partition ends, with what no transaction has ended yet."""
    at = TopicPartition(topic, 0)
    admin = AdminClient({"bootstrap.servers": sandbox.bootstrap_servers})
    return int(admin.list_offsets({at: OffsetSpec.latest()})[at].result(30).offset)


def thaws(a: Sandbox, b: Sandbox, spark: SparkSession, directory: Path, step: Step, by: str) -> None:
    topic = topics.create(a.bootstrap_servers, unique("frozen"), 1)
    produce(a, topic, [{"value": f"{i}"} for i in range(ROWS)])
    file = mm2(directory, a, b, topic, emit__checkpoints__enabled="false", driver__copy__max__offsets=by)
    target = f"{alias_of(file)}.{topic}"
    point = CrashPoint(step, 1, Action.STOP)
    plan = CrashPlan(directory / "plan", point)
    with SparkCluster(LOCAL).driver(program(file), plan) as driver:
        try:
            plan.wait(point, PATIENCE_S)
            copy_once(spark, file)
            assert records(b, target) == records(a, topic)
            produce(a, topic, [{"value": "for whom?"}])
            copy_once(spark, file)
            end = log_end(b, target)
        finally:
            plan.release(point)
        status = driver.wait(PATIENCE_S)
        assert status == 1, driver.tail()
        assert driver.said("FENCED"), driver.tail()
    assert records(b, target) == records(a, topic)
    assert len(records(b, target)[0]) == ROWS + 1
    assert log_end(b, target) == end


def test_a_driver_that_thaws_after_its_proof_writes_nothing(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    thaws(a, b, spark, tmp_path, MirrorStep.PROVEN, DRIVER)


@pytest.mark.exhaustive
@pytest.mark.parametrize("by", [DRIVER, EXECUTORS])
@pytest.mark.parametrize(
    "step",
    [
        MirrorStep.TOPICS_FOLLOWED,
        MirrorStep.PLANNED,
        MirrorStep.COPIED,
        MirrorStep.SEGMENTS_WRITTEN,
        MirrorStep.COMMITTED,
        MirrorStep.FETCHED,
        MirrorStep.WRITTEN,
        ParticipantStep.SENT,
    ],
    ids=str,
)
def test_a_driver_or_worker_that_thaws_writes_nothing(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, step: Step, by: str
) -> None:
    thaws(a, b, spark, tmp_path, step, by)
