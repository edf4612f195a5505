"""Access rights of topics, between clusters that have an authorizer, and one that has none."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, AclPermissionType, ResourcePatternType
from pyspark.sql import SparkSession

from semel.sandbox import Sandbox
from tests.mirror.support.acls import allow, rights
from tests.mirror.support.harness import Running, copy_once, mm2, produce, records, unique
from tests.support import topics
from tests.support.waiting import wait_for


def test_rights_on_topics_follow(
    guarded: Sandbox, guarded_target: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create(guarded.bootstrap_servers, "guarded", 1)
    produce(guarded, topic, [{"value": "for ann"}])
    for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE):
        allow(guarded, topic, operation)
    allow(guarded, topic, AclOperation.ALL, host="10.0.0.1")
    allow(guarded, topic, AclOperation.WRITE, AclPermissionType.DENY, host="10.0.0.2")
    allow(guarded, topic, AclOperation.READ, pattern=ResourcePatternType.PREFIXED)
    allow(guarded, "not-mirrored", AclOperation.READ)
    allow(guarded, "*", AclOperation.READ)
    file = mm2(tmp_path, guarded, guarded_target, f"{topic}, [*]", alias="G")
    copy_once(spark, file)
    assert records(guarded_target, "G.guarded") == records(guarded, topic)
    wanted = {
        ("G.guarded", "*", "READ", "ALLOW"),
        ("G.guarded", "*", "DESCRIBE", "ALLOW"),
        ("G.guarded", "10.0.0.1", "READ", "ALLOW"),
        ("G.guarded", "10.0.0.2", "WRITE", "DENY"),
    }
    assert rights(guarded_target) == wanted

    # without a restart, and what is there stays
    file = mm2(tmp_path, guarded, guarded_target, topic, alias="G", sync__topic__acls__interval__seconds="1")
    with Running(spark, file) as running:
        allow(guarded, topic, AclOperation.DESCRIBE_CONFIGS)
        wanted.add(("G.guarded", "*", "DESCRIBE_CONFIGS", "ALLOW"))
        wait_for(lambda: rights(guarded_target) == wanted, running.said)
    assert running.failed == []


def test_switched_off_it_writes_none(
    guarded: Sandbox, guarded_target: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create(guarded.bootstrap_servers, unique("off"), 1)
    allow(guarded, topic, AclOperation.READ)
    copy_once(spark, mm2(tmp_path, guarded, guarded_target, topic, sync__topic__acls__enabled="false"))
    assert not any(topic in name for name, *_ in rights(guarded_target))


@pytest.mark.parametrize(
    ("guards_source", "words"), [(False, "has no authorizer"), (True, "access rights are not synced")]
)
def test_without_an_authorizer_there_is_nothing_to_do(
    request: pytest.FixtureRequest, b: Sandbox, spark: SparkSession, tmp_path: Path, guards_source: bool, words: str
) -> None:
    """On the source it is quiet. On the target it is said once, and all is copied."""
    source: Sandbox = request.getfixturevalue("guarded" if guards_source else "a")
    topic = topics.create(source.bootstrap_servers, unique("open"), 1)
    if guards_source:
        allow(source, topic, AclOperation.READ)
    produce(source, topic, [{"value": "arrives"}])
    file = mm2(tmp_path, source, b, topic, sync__topic__acls__interval__seconds="1")
    with Running(spark, file) as running:
        wait_for(lambda: words in running.said(), running.said)
        wait_for(lambda: any(records(b, f"{file.stem}.{topic}").values()), running.said)
    assert running.failed == []
    assert running.said().count("authorizer") + running.said().count("access rights are not") == 1
