"""The least rights of a mirror on clusters that allow nothing else: with them it copies, without any of them it says
which is missing, and nothing was written.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AclOperation as Do
from confluent_kafka.admin import OffsetSpec
from confluent_kafka.admin import ResourceType as On
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from semel import cli
from semel.errors import ConfigError
from semel.mirror.offsets.segment_topic import SEGMENTS
from semel.sandbox import Sandbox
from semel.transaction.progress.topic import DEFAULT_TOPIC
from tests.mirror.support.groups import commit
from tests.mirror.support.harness import Running, copy_once, mm2, partitions, produce, records, topics_of, unique
from tests.support import topics
from tests.support.secured import PASSWORD, Right, SecuredKafka, secured_kafka
from tests.support.waiting import wait_for

OWN = "of the mirror"
TOPIC = "rights"
#: docs/mirror.md has them in words. The topics are there already.
ON_THE_TARGET: list[Right] = [
    *((On.TOPIC, f"A.{TOPIC}", do) for do in (Do.READ, Do.WRITE)),
    *((On.TOPIC, topic, do) for topic in (DEFAULT_TOPIC, SEGMENTS) for do in (Do.READ, Do.WRITE)),
    (On.GROUP, "mirror.A.B", Do.READ),
    (On.TRANSACTIONAL_ID, "mirror.A.B", Do.WRITE),
]
SAMPLE = (On.TOPIC, f"A.{TOPIC}", Do.WRITE)


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredKafka]:
    with secured_kafka() as started:
        for user in ("target", "source"):
            started.add_scram_user(user, OWN)
        started.allow("target", ON_THE_TARGET)
        yield started


def file_of(
    directory: Path, a: Sandbox, b: Sandbox, secured: SecuredKafka, *, secure: str, user: str, password: str = OWN
) -> Path:
    """A file in which one of the clusters is the secured one."""
    login = secured.login("SCRAM-SHA-256", user, password)
    keys = {f"{secure}.{name}": value.replace("\\", "\\\\") for name, value in login.items()}
    return mm2(directory, a, b, TOPIC, alias="A", **keys, emit__checkpoints__enabled="false")


@pytest.fixture(scope="module")
def into(
    a: Sandbox, secured: SecuredKafka, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Sandbox]:
    """The file of the flow into the secured cluster, which has its topics already, and rows to copy."""
    directory, b = tmp_path_factory.mktemp("rights"), secured.kafka
    topics.create(a.bootstrap_servers, TOPIC, 1)
    produce(a, TOPIC, [{"value": "first"}])
    copy_once(spark, file_of(directory, a, b, secured, secure="B", user="alice", password=PASSWORD))
    produce(a, TOPIC, [{"value": "second"}])
    return file_of(directory, a, b, secured, secure="B", user="target"), b


def ends(sandbox: Sandbox, secured: SecuredKafka) -> dict[str, int]:
    """Where the logs of the target end, open transactions included."""
    asked = {
        TopicPartition(topic, index): OffsetSpec.latest()
        for topic in (f"A.{TOPIC}", SEGMENTS, DEFAULT_TOPIC)
        for index in partitions(sandbox, topic)
    }
    return {str(at): done.result(30).offset for at, done in secured.admin.list_offsets(asked).items()}


def refused(secured: SecuredKafka, spark: SparkSession, into: tuple[Path, Sandbox], right: Right) -> None:
    file, b = into
    before = ends(b, secured)
    secured.withdraw("target", right)
    try:
        with pytest.raises(ConfigError) as told:
            copy_once(spark, file)
        checked = CliRunner().invoke(cli.app, ["mirror", "check", str(file)])
    finally:
        secured.allow("target", [right])
    assert f"A.{TOPIC} is there" in " ".join(checked.output.split())
    assert right[0] is On.TRANSACTIONAL_ID or str(checked.exception) == str(told.value)
    assert right[1] in told.value.message
    assert right[2].name.capitalize() in told.value.message
    assert (told.value.tag == "MISSING_RIGHTS") == (right[0] is On.TOPIC)  # others are named by who refuses them
    if right[0] is On.TRANSACTIONAL_ID:  # whoever uses one is told only then; the claim of taking over is written
        before = {at: end for at, end in before.items() if DEFAULT_TOPIC not in at}
    assert before.items() <= ends(b, secured).items()


def test_a_right_that_is_missing_is_named_before_anything_is_written(
    secured: SecuredKafka, spark: SparkSession, into: tuple[Path, Sandbox]
) -> None:
    refused(secured, spark, into, SAMPLE)


@pytest.mark.exhaustive
@pytest.mark.parametrize("right", [right for right in ON_THE_TARGET if right != SAMPLE], ids=str)
def test_each_right_that_is_missing_on_the_target(
    secured: SecuredKafka, spark: SparkSession, into: tuple[Path, Sandbox], right: Right
) -> None:
    refused(secured, spark, into, right)


def test_the_least_rights_are_enough(
    a: Sandbox, secured: SecuredKafka, spark: SparkSession, into: tuple[Path, Sandbox]
) -> None:
    file, b = into
    copy_once(spark, file)
    assert records(b, f"A.{TOPIC}") == records(a, TOPIC)
    assert len(records(b, f"A.{TOPIC}")[0]) == 2


def test_a_right_that_goes_while_it_runs(
    a: Sandbox, secured: SecuredKafka, spark: SparkSession, into: tuple[Path, Sandbox]
) -> None:
    """It stops one topic or one group, and the others are followed. Granted again, it is followed too."""
    b, second = into[1], f"{TOPIC}-2"
    denied, good = (f"{TOPIC}-group-{kind}" for kind in ("1-denied", "2-good"))
    topics.create(a.bootstrap_servers, second, 1)
    topics.create(b.bootstrap_servers, f"A.{second}", 1)
    write = (On.TOPIC, f"A.{second}", Do.WRITE)
    secured.allow("target", [(On.TOPIC, f"A.{second}", Do.READ), write, (On.GROUP, good, Do.READ)])
    text = into[0].read_text().replace(f"A->B.topics = {TOPIC}\n", f"A->B.topics = {TOPIC}.*\n")
    more = {"refresh.topics": "1", "sync.group.offsets": "1", "sync.topic.configs": "600"}
    text += "".join(f"{name}.interval.seconds = {seconds}\n" for name, seconds in more.items())
    file = into[0].with_name("running.properties")
    file.write_text(f"{text}groups = {TOPIC}-group-.*\nsync.group.offsets.enabled = true\n")

    def grow() -> None:
        for topic in (TOPIC, second):
            produce(a, topic, [{"value": "more"}] * 3)

    def copied(topic: str) -> bool:
        return records(b, f"A.{topic}") == records(a, topic)

    grow()
    for group in (denied, good):
        commit(a, group, TopicPartition(TOPIC, 0, 1))
    with Running(spark, file) as running:
        wait_for(lambda: copied(TOPIC) and copied(second), running.said)
        wait_for(lambda: f"group {denied} does not follow, and the others do" in running.said(), running.said)
        wait_for(lambda: (f"A.{TOPIC}", 0) in group_offsets(secured, good), running.said)
        secured.withdraw("target", write)
        grow()
        wait_for(lambda: f"{second}-0 is stopped, the others are copied" in running.said(), running.said)
        wait_for(lambda: copied(TOPIC), running.said)
        assert not copied(second)
        secured.allow("target", [write, (On.GROUP, denied, Do.READ)])
        wait_for(lambda: copied(second), running.said)
        wait_for(lambda: (f"A.{TOPIC}", 0) in group_offsets(secured, denied), running.said)
        assert running.failed == []


def group_offsets(secured: SecuredKafka, group: str) -> dict[tuple[str, int], int]:
    asked = [ConsumerGroupTopicPartitions(group)]
    found = secured.admin.list_consumer_group_offsets(asked)[group].result(30).topic_partitions
    return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}


def test_a_source_that_may_not_be_read(b: Sandbox, secured: SecuredKafka, spark: SparkSession, tmp_path: Path) -> None:
    """Describe alone shows the topic. Nothing is made on the target."""
    source = topics.create(secured.kafka.bootstrap_servers, unique("unreadable"), 1)
    produce(secured.kafka, source, [{"value": "secret"}])
    secured.allow("source", [(On.TOPIC, source, Do.DESCRIBE)])
    alias = unique("A")
    login = secured.login("SCRAM-SHA-256", "source", OWN)
    keys = {f"{alias}.{name}": value for name, value in login.items()}
    file = mm2(tmp_path, secured.kafka, b, source, alias=alias, **keys, emit__checkpoints__enabled="false")
    with pytest.raises(ConfigError, match=rf"MISSING_RIGHTS.*lack rights: Read on the topic {source} of {alias}\."):
        copy_once(spark, file)
    assert f"{alias}.{source}" not in topics_of(b)
    secured.allow("source", [(On.TOPIC, source, Do.READ)])
    copy_once(spark, file)
    assert len(records(b, f"{alias}.{source}")[0]) == 1
