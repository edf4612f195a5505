"""The mirror killed while the source is written to: each record is there once, in its order, and nothing is left open.

The driver at each step of a round, in one loop, and what copies at each step of a task; then executors, under one
driver. The control copies at least once, is killed once, and doubles.
"""

from __future__ import annotations

import re
import signal
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from model.possible_states import Allowed
from model.replay import replay
from semel.sandbox import Sandbox
from semel.steps import MirrorStep, ParticipantStep, Step
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.history import check
from semel.testing.program import Program
from semel.testing.spark.spark_cluster import LOCAL, LOCAL_CLUSTER, SparkCluster
from tests.mirror.support.groups import commit
from tests.mirror.support.harness import DRIVER, EXECUTORS, alias_of, mm2, program, records, unique
from tests.mirror.support.load import PARTITIONS, assert_the_same, written
from tests.support import topics
from tests.support.waiting import PATIENCE_S, wait_for

#: Passings are counted over all starts.
IN_THE_DRIVER: dict[Step, int] = {
    MirrorStep.TOPICS_FOLLOWED: 1,
    MirrorStep.BEGINNINGS_COMMITTED: 1,
    MirrorStep.PLANNED: 2,
    MirrorStep.COPIED: 3,
    MirrorStep.PROVEN: 4,
    MirrorStep.SEGMENTS_WRITTEN: 5,
    MirrorStep.COMMITTED: 6,
}
IN_A_TASK: dict[Step, int] = {
    MirrorStep.FETCHED: 7,
    MirrorStep.WRITTEN: 8,
    ParticipantStep.STARTED: 9,
    ParticipantStep.SENT: 10,
    ParticipantStep.ACKNOWLEDGED: 11,
    ParticipantStep.RECEIPT: 12,
}
ALL: list[Step] = [*IN_THE_DRIVER, *IN_A_TASK]
#: Behind the commit of a round, and in the middle of a task.
SAMPLE: list[Step] = [MirrorStep.COMMITTED, MirrorStep.WRITTEN]


#: Where there are groups, and heartbeats.
BESIDE_THE_ROUNDS: dict[Step, int] = {
    MirrorStep.CHECKPOINTS_WRITTEN: 1,
    MirrorStep.GROUP_SYNCED: 1,
    MirrorStep.HEARTBEAT_WRITTEN: 2,
    MirrorStep.OFFSET_SYNCS_WRITTEN: 1,
}


def new(a: Sandbox, b: Sandbox, directory: Path, name: str, **keys: str) -> tuple[Path, str, str]:
    """A file, its source topic and its target topic."""
    topic = topics.create(a.bootstrap_servers, unique(name), PARTITIONS)
    file = mm2(directory, a, b, topic, **keys)
    return file, topic, f"{alias_of(file)}.{topic}"


def run(cluster: SparkCluster, a: Sandbox, b: Sandbox, file: Path, topic: str, target: str, plan: CrashPlan) -> None:
    """Run the mirror under a plan, with a writer at work until all points have struck; then until all is copied."""
    with written(a, topic) as writer:

        def caught_up() -> bool:
            if not all(plan.struck(point) for point in plan.points):
                return False
            writer.stop()
            return sum(map(len, records(b, target).values())) >= writer.rows

        print(cluster.run_until(program(file), plan, caught_up, len(plan.points) + 1), "restarts,", writer.rows, "rows")


def test_every_step_is_struck() -> None:
    # access rights need clusters with an authorizer: test_beside_the_rounds.py
    assert {*IN_THE_DRIVER, *IN_A_TASK, *BESIDE_THE_ROUNDS, MirrorStep.ACLS_SYNCED} == {*MirrorStep, *ParticipantStep}


@pytest.mark.parametrize(
    ("steps", "by"),
    [
        pytest.param(SAMPLE, DRIVER, id="sample"),
        pytest.param(SAMPLE, EXECUTORS, id="sample-executors", marks=pytest.mark.exhaustive),
        pytest.param(ALL, DRIVER, id="all", marks=pytest.mark.exhaustive),
        pytest.param(ALL, EXECUTORS, id="all-executors", marks=pytest.mark.exhaustive),
    ],
)
def test_the_driver_is_killed_at_each_step(a: Sandbox, b: Sandbox, tmp_path: Path, steps: list[Step], by: str) -> None:
    """The driver copies the rounds itself, or tasks on executors do."""
    file, topic, target = new(
        a, b, tmp_path, "driver", refresh__topics__interval__seconds="1", driver__copy__max__offsets=by
    )
    points = [CrashPoint(step, n, Action.DRIVER) for step, n in IN_THE_DRIVER.items() if step in steps]
    in_a_task = Action.DRIVER if by == DRIVER else Action.KILL
    copying = [CrashPoint(step, n, in_a_task) for step, n in IN_A_TASK.items() if step in steps]
    plan = CrashPlan(tmp_path / "plan", *points, *copying)
    run(SparkCluster(LOCAL), a, b, file, topic, target, plan)
    assert_the_same(a, b, topic, target)
    # each step that was logged is one that the protocol allows there
    told = replay(plan.passed(), allowed=Allowed(offsets_at_times=True))
    assert (told.ids, told.owners >= len(points)) == (1, True)


@pytest.mark.exhaustive
def test_the_driver_is_killed_while_groups_follow(a: Sandbox, b: Sandbox, tmp_path: Path) -> None:
    often = {"emit.checkpoints.interval.seconds": "1", "sync.group.offsets.interval.seconds": "1"}
    group = unique("group")
    keys = {"sync.group.offsets.enabled": "true", "checkpoints.topic.replication.factor": "1", "groups": group}
    keys["emit.heartbeats.enabled"] = "true"
    file, topic, target = new(a, b, tmp_path, "groups", **keys, **often)
    for index in range(PARTITIONS):
        commit(a, group, TopicPartition(topic, index, 0))
    points = [CrashPoint(step, n, Action.DRIVER) for step, n in BESIDE_THE_ROUNDS.items()]
    run(SparkCluster(LOCAL), a, b, file, topic, target, CrashPlan(tmp_path / "plan", *points))
    assert_the_same(a, b, topic, target)
    there = AdminClient({"bootstrap.servers": b.bootstrap_servers})
    found = there.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(30).topic_partitions
    assert {(one.topic, one.partition): one.offset for one in found} == {(target, i): 0 for i in range(PARTITIONS)}


@pytest.mark.exhaustive  # its sample are the workers of the driver's test
def test_executors_are_killed_at_each_step_of_a_task(a: Sandbox, b: Sandbox, tmp_path: Path) -> None:
    """The driver lives on, until a signal ends it behind its round."""
    file, topic, target = new(a, b, tmp_path, "executors", driver__copy__max__offsets=EXECUTORS)
    # the driver is a participant too, of the segments: these two steps are the tasks' own
    steps = (MirrorStep.FETCHED, MirrorStep.WRITTEN)
    points = [CrashPoint(step, n, Action.EXECUTOR) for step, n in zip(steps, (2, 6), strict=True)]
    plan = CrashPlan(tmp_path / "plan", *points)
    with SparkCluster(LOCAL_CLUSTER).driver(program(file, "--metrics-port", "0"), plan) as driver:
        with written(a, topic) as writer:
            for point in points:
                wait_for(partial(plan.struck, point), driver.tail)
        wait_for(lambda: sum(map(len, records(b, target).values())) >= writer.rows, driver.tail)
        # each record is counted once, whatever was run again
        wait_for(lambda: sum(copied(driver)) == writer.rows, lambda: f"{writer.rows} to be counted: {copied(driver)}")
        driver.process.send_signal(signal.SIGTERM)
        assert driver.wait(PATIENCE_S) == 0, driver.tail()
        assert driver.said("tried again in") >= len(points)
        assert driver.said("these properties of the mirror's file change nothing here: tasks.max") == 1
        assert "\x1b" not in driver.log.read_text()  # no figures without a terminal
    assert_the_same(a, b, topic, target)


def copied(driver: Program) -> list[float]:
    """What the metrics say of each partition."""
    (address,) = re.findall(r"metrics: (http://\S+)", driver.log.read_text())
    with urlopen(address, timeout=60) as answer:
        text = answer.read().decode()
    return [
        float(n) for n in re.findall(r"^kafka_connect_mirror_mirrorsourceconnector_record_count{.*} (\S+)", text, re.M)
    ]


@pytest.mark.exhaustive
def test_control_at_least_once_doubles(a: Sandbox, b: Sandbox, tmp_path: Path) -> None:
    """The same file but for the guarantee, and one kill, between the rows and their positions."""
    file, topic, target = new(a, b, tmp_path, "control", B__exactly__once__source__support="disabled")
    plan = CrashPlan(tmp_path / "plan", CrashPoint(MirrorStep.COPIED, 2, Action.DRIVER))
    run(SparkCluster(LOCAL), a, b, file, topic, target, plan)
    found = check(b.bootstrap_servers, target, source=topic, source_cluster=a.bootstrap_servers, id="json:$.id")
    print(found)
    assert found.lost == 0
    assert found.duplicated > 0
