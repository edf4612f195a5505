"""The driver is killed after it has written access rights, which are outside of the rounds' transactions."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from semel.sandbox import Sandbox
from semel.steps import MirrorStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.spark.spark_cluster import LOCAL, SparkCluster
from tests.mirror.support.acls import allow, rights
from tests.mirror.support.harness import alias_of, mm2, produce, program, records, unique
from tests.support import topics


@pytest.mark.exhaustive
def test_rights_are_written_again(guarded: Sandbox, guarded_target: Sandbox, tmp_path: Path) -> None:
    topic = topics.create(guarded.bootstrap_servers, unique("killed"), 1)
    produce(guarded, topic, [{"value": f"{number}"} for number in range(10)])
    allow(guarded, topic, AclOperation.READ)
    file = mm2(tmp_path, guarded, guarded_target, topic, sync__topic__acls__interval__seconds="1")
    target = f"{alias_of(file)}.{topic}"
    point = CrashPoint(MirrorStep.ACLS_SYNCED, 2, Action.DRIVER)
    plan = CrashPlan(tmp_path / "plan", point)

    def caught_up() -> bool:
        return plan.struck(point) and sum(map(len, records(guarded_target, target).values())) >= 10

    SparkCluster(LOCAL).run_until(program(file), plan, caught_up, 2)
    assert records(guarded_target, target) == records(guarded, topic)
    assert rights(guarded_target) == {(target, "*", "READ", "ALLOW")}
