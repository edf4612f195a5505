"""What `semel mirror adopt` takes over, and what it refuses. MirrorMaker 2 itself is in test_adopt_mirror_maker.py."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from semel.config import ClientConfig
from semel.errors import ConfigError, DataLoss
from semel.mirror.background.internal_topics import ensure_compacted, write
from semel.mirror.formats import Checkpoint
from semel.sandbox import Sandbox
from semel.serdes.connect_offsets import encode_key
from semel.wire.client import Client
from tests.mirror.support.adopting import adopt
from tests.mirror.support.groups import commit, offsets, translate
from tests.mirror.support.harness import IDENTITY, alias_of, copy_once, mm2, partitions, produce, records, unique
from tests.mirror.support.losses import delete
from tests.support import topics

#: Of the first record; the others follow in steps of a second.
TIME_MS = 1_764_000_000_000


def rows(first: int, last: int, *, alike: bool = False) -> list[dict[str, object]]:
    return [
        {
            "value": "same" if alike else f"row {i}",
            "timestamp": TIME_MS + (0 if alike else 1000 * i),
            "partition": i % 2,
        }
        for i in range(first, last)
    ]


class Copied:
    """Two source partitions with a hundred records, of which another program has copied ``copied``."""

    def __init__(self, a: Sandbox, b: Sandbox, directory: Path, copied: int, *, alike: bool = False) -> None:
        self.topic = topics.create(a.bootstrap_servers, unique("left"), 2)
        self.file = mm2(directory, a, b, self.topic, checkpoints__topic__replication__factor="1")
        self.target = topics.create(b.bootstrap_servers, f"{alias_of(self.file)}.{self.topic}", 2)
        self.a, self.b, self.directory = a, b, directory
        produce(a, self.topic, rows(0, 100, alike=alike))
        produce(b, self.target, rows(0, copied, alike=alike))

    def group(self, *at: int) -> str:
        group = unique("copier")
        for index, offset in enumerate(at):
            commit(self.a, group, TopicPartition(self.topic, index, offset))
        return f"group:{group}"

    def offsets(self, *at: int) -> str:
        file = self.directory / "offsets.json"
        found = [{"topic": self.topic, "partition": i, "offset": offset} for i, offset in enumerate(at)]
        file.write_text(json.dumps(found))
        return f"file:{file}"

    def refused(self, origin: str, *options: str) -> ConfigError:
        with pytest.raises(ConfigError) as refused:
            adopt(self.file, origin, *options)
        return refused.value


@pytest.fixture
def sixty(a: Sandbox, b: Sandbox, tmp_path: Path) -> Copied:
    return Copied(a, b, tmp_path, 60)


def test_a_group_that_trails_the_records(sixty: Copied, a: Sandbox, b: Sandbox, spark: SparkSession) -> None:
    shown = adopt(sixty.file, sixty.group(20, 25)).split()
    assert [shown[shown.index(f"{sixty.target}-{index}") + 1] for index in (0, 1)] == ["30", "30"]
    copy_once(spark, sixty.file)
    assert records(b, sixty.target) == records(a, sixty.topic)
    reader = unique("reader")
    for index, offset in enumerate((7, 33)):
        commit(a, reader, TopicPartition(sixty.topic, index, offset))
    translate(sixty.file, alias_of(sixty.file), "B", "--group", reader, "--apply")
    assert offsets(b, reader) == {(sixty.target, 0): 7, (sixty.target, 1): 33}
    assert offsets(b, f"mirror.{alias_of(sixty.file)}.B") == {(sixty.target, 0): 50, (sixty.target, 1): 50}


def test_a_time_and_a_file_count_as_they_are(sixty: Copied, a: Sandbox, b: Sandbox, spark: SparkSession) -> None:
    time = datetime.fromtimestamp(TIME_MS / 1000 + 60, UTC)
    shown = adopt(sixty.file, f"time:{time.isoformat()}", "--dry-run").split()
    assert [shown[shown.index(f"{sixty.target}-{index}") + 1] for index in (0, 1)] == ["30", "30"]
    adopt(sixty.file, sixty.offsets(28, 32))  # two records again, and two left out: you have said so
    copy_once(spark, sixty.file)
    wanted, found = records(a, sixty.topic), records(b, sixty.target)
    assert found == {0: wanted[0][:30] + wanted[0][28:], 1: wanted[1][:30] + wanted[1][32:]}


def test_a_flow_that_is_adopted_is_not_adopted_again_by_chance(sixty: Copied) -> None:
    adopt(sixty.file, sixty.offsets(30, 30))
    assert "adopted already" in adopt(sixty.file, sixty.offsets(30, 30))
    assert sixty.refused(sixty.offsets(28, 28)).tag == "HAS_PROGRESS"
    assert "continues at 28" in adopt(sixty.file, sixty.offsets(28, 28), "--replace")


def test_what_is_refused(sixty: Copied, b: Sandbox) -> None:
    assert "offset 51 is beyond the end, 50" in sixty.refused(sixty.offsets(51, 30)).message
    assert "has no offset of it" in sixty.refused(sixty.offsets(30)).message
    assert "has no offset of it" in sixty.refused(sixty.group(30)).message
    assert sixty.refused("group:nobody").tag == "NO_OFFSETS"
    assert sixty.refused("time:yesterday").tag == "WRONG_VALUE"
    other = sixty.directory / "other.json"
    other.write_text('[{"topic": "other", "partition": 0, "offset": 1}]')
    assert sixty.refused(f"file:{other}").tag == "NOT_MIRRORED"
    other.write_text("[[]]")
    assert sixty.refused(f"file:{other}").tag == "WRONG_VALUE"
    assert sixty.refused("mm2").tag == "UNKNOWN_TOPIC"
    produce(b, sixty.target, [{"value": "not from there", "partition": 1}])
    refused = sixty.refused(sixty.group(30, 30))
    assert refused.tag == "NOT_ADOPTED"
    assert f"{sixty.topic}-1 cannot be adopted: the last records of the target were not found" in refused.message
    assert offsets(b, f"mirror.{alias_of(sixty.file)}.B") == {}


def test_records_below_the_beginning(sixty: Copied, a: Sandbox) -> None:
    admin, at = AdminClient({"bootstrap.servers": a.bootstrap_servers}), TopicPartition(sixty.topic, 0, 40)
    admin.delete_records([at])[at].result(30)
    assert "offset 30 is below the beginning, 40" in sixty.refused(sixty.offsets(30, 30)).message


def test_records_that_are_alike_are_not_guessed(a: Sandbox, b: Sandbox, tmp_path: Path) -> None:
    alike = Copied(a, b, tmp_path, 60, alike=True)
    assert "several places of the source" in alike.refused(alike.group(20, 20)).message
    assert "continues at 30" in adopt(alike.file, alike.offsets(30, 30))


def test_groups_before_the_adoption_keep_their_checkpoints(
    sixty: Copied, a: Sandbox, b: Sandbox, spark: SparkSession
) -> None:
    """The target has a record of another program last: you have said where to begin, and no old offset is known."""
    produce(b, sixty.target, [{"value": "of another program", "partition": index} for index in (0, 1)])
    group, other = unique("reader"), unique("reader")
    for index in (0, 1):
        commit(a, group, TopicPartition(sixty.topic, index, 20))
        commit(a, other, TopicPartition(sixty.topic, index, 20))
    alias = alias_of(sixty.file)
    with Client(ClientConfig.parse({"bootstrap.servers": b.bootstrap_servers})) as client:
        ensure_compacted(client, f"{alias}.checkpoints.internal", 1)
        # the second one is of a later offset than the group's: it says nothing
        found = [(group, 0, 15, 14), (group, 1, 21, 20)]
        write(client, f"{alias}.checkpoints.internal", [Checkpoint(g, sixty.target, i, u, o) for g, i, u, o in found])
    adopt(sixty.file, sixty.offsets(30, 30))
    copy_once(spark, sixty.file)

    def translated(group: str) -> list[int]:
        shown = translate(sixty.file, alias, "B", "--group", group, "--json")
        assert all(row["note"].startswith("older than what is known") for row in shown)
        return [row["offset"] for row in shown]

    assert translated(group) == [14, 0]
    assert translated(other) == [0, 0]
    newest = {
        (one.group, one.partition): one.offset
        for key, value, _, _ in records(b, f"{alias}.checkpoints.internal")[0]
        for one in [Checkpoint.parse(key or b"", value or b"")]
    }
    assert newest[group, 0] == 14


def test_a_topic_that_was_not_copied_begins_by_itself(
    sixty: Copied, a: Sandbox, b: Sandbox, spark: SparkSession
) -> None:
    other = topics.create(a.bootstrap_servers, f"{sixty.topic}-more", 1)
    produce(a, other, [{"value": "first"}])
    sixty.file.write_text(sixty.file.read_text().replace(f"= {sixty.topic}", f"= {sixty.topic}.*"))
    assert "copied from its earliest offset" in adopt(sixty.file, sixty.group(30, 30))
    copy_once(spark, sixty.file)
    assert records(b, sixty.target) == records(a, sixty.topic)
    assert records(b, f"{sixty.target}-more") == records(a, other)


@pytest.mark.parametrize("trace", ["group mirror", "segments", "target's records"])
def test_lost_progress_is_found_again(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, trace: str) -> None:
    """From ``b`` to ``a``, which keeps the progress of these tests alone."""
    topic = topics.create(b.bootstrap_servers, unique("lost"), 2)
    file = mm2(tmp_path, b, a, topic)
    produce(b, topic, rows(0, 50))
    copy_once(spark, file)
    produce(b, topic, rows(50, 60))
    copy_once(spark, file)
    delete(a, "semel-progress")
    if trace != "group mirror":
        group = f"mirror.{alias_of(file)}.B"
        admin = AdminClient({"bootstrap.servers": a.bootstrap_servers})
        admin.delete_consumer_groups([group])[group].result(30)
    if trace == "target's records":
        delete(a, "semel-mirror-segments")
    produce(b, topic, rows(60, 80))
    with pytest.raises(DataLoss) as lost:
        copy_once(spark, file)
    assert lost.value.tag == "PROGRESS_LOST"
    assert trace in adopt(file, "target")
    copy_once(spark, file)
    assert records(a, f"{alias_of(file)}.{topic}") == records(b, topic)


def test_a_flow_fails_back_into_topics_that_have_records(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create(a.bootstrap_servers, unique("both"), 2)
    names = {"replication.policy.class": IDENTITY}
    there = mm2(tmp_path, a, b, topic, **names)
    alias = alias_of(there)
    back = tmp_path / "back.properties"
    back.write_text(there.read_text().replace(f"{alias}->B", f"B->{alias}"))
    produce(a, topic, rows(0, 50))
    copy_once(spark, there)
    produce(b, topic, rows(50, 80))  # the producers have moved
    adopt_back = ("--source", "B", "--target", alias)
    adopt(back, "target", *adopt_back)
    copy_once(spark, back)
    assert records(a, topic) == records(b, topic)
    produce(a, topic, rows(80, 100))  # and have moved home
    adopt(there, "target", "--replace")
    copy_once(spark, there)
    assert records(a, topic) == records(b, topic)
    assert sum(map(len, records(b, topic).values())) == 100
    assert partitions(a, topic) == [0, 1]


def test_records_that_never_left_the_source_stay_there(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create(a.bootstrap_servers, unique("only"), 1)
    there = mm2(tmp_path, a, b, topic, **{"replication.policy.class": IDENTITY})
    alias = alias_of(there)
    back = tmp_path / "back.properties"
    back.write_text(there.read_text().replace(f"{alias}->B", f"B->{alias}"))
    first, only, moved = ([{"value": f"{name} {i}"} for i in range(20)] for name in ("both", "only there", "moved"))
    produce(a, topic, first)
    copy_once(spark, there)
    produce(a, topic, only)
    produce(b, topic, moved)
    shown = adopt(back, "target", "--source", "B", "--target", alias)
    assert f"mirror.{alias}.B" in shown
    copy_once(spark, back)
    found = [(value or b"").decode() for _, value, _, _ in records(a, topic)[0]]
    assert found == [row["value"] for row in [*first, *only, *moved]]


def test_a_connect_cluster_of_another_name(
    sixty: Copied, a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    name = topics.create(b.bootstrap_servers, unique("connect-offsets"), 3)
    alias, where = alias_of(sixty.file), ("--offsets-topic", name, "--connect-group", unique("connect"))

    def write(connector: str, cluster: str, index: int, value: bytes) -> None:
        key = encode_key(connector, {"cluster": cluster, "partition": index, "topic": sixty.topic})
        produce(b, name, [{"key": key, "value": value}], partitioner="murmur2_random")

    write("other", alias, 0, b'{"offset":1}')
    assert sixty.refused("mm2", *where, "--connector", "mirror").tag == "NO_OFFSETS"
    for index in (0, 1):
        for offset in (3, 24):
            write("mirror", alias, index, f'{{"offset":{offset}}}'.encode())
        write("mirror", "another", index, b'{"offset":2}')
    adopt(sixty.file, "mm2", *where, "--connector", "mirror")
    copy_once(spark, sixty.file)
    assert records(b, sixty.target) == records(a, sixty.topic)
    write("mirror", alias, 1, b'{"offset":"x"}')
    assert sixty.refused("mm2", *where, "--connector", "mirror", "--replace").tag == "OFFSET_DAMAGED"
