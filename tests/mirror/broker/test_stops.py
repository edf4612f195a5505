"""Where the mirror stops, or does not begin: losses, targets that are not what was written to, doubts, another
driver.
"""

from __future__ import annotations

import json
import os
import random
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from semel import cli
from semel.errors import ConfigError, DataLoss, Fenced, SemelError
from semel.mirror.config.properties import read_properties
from semel.mirror.flow import Flow
from semel.mirror.metrics import MirrorCollector
from semel.sandbox import Sandbox
from tests.mirror.support.harness import (
    IDENTITY,
    Running,
    alias_of,
    copy_once,
    mm2,
    partitions,
    produce,
    records,
    set_config,
    unique,
)
from tests.mirror.support.losses import (
    delete,
    rows_deleted,
    source_deleted,
    source_made_anew,
    target_deleted,
    target_made_anew,
)
from tests.support import topics
from tests.support.waiting import PATIENCE_S, wait_for


def new(a: Sandbox, b: Sandbox, directory: Path, name: str, **keys: str) -> tuple[Path, str, str]:
    """A file, its source topic with ten rows, and its target topic."""
    topic = topics.create(a.bootstrap_servers, unique(name), 1)
    produce(a, topic, [{"value": f"{i}"} for i in range(10)])
    file = mm2(directory, a, b, topic, **keys)
    return file, topic, f"{alias_of(file)}.{topic}"


LOSSES: list[tuple[Callable[[Sandbox, Sandbox, str, str], None], str, str]] = [
    (rows_deleted, "OFFSETS_GONE", "{topic}-0 [10, 13): the log starts at 13"),
    (source_deleted, "OFFSETS_GONE", "{topic}-0 [10, …): the topic or partition does not exist any more"),
    (source_made_anew, "OFFSETS_GONE", "{topic}-0 [10, …): the topic was deleted and created again"),
    (target_deleted, "TARGET_GONE", "topic {target} of B is not there any more"),
    (target_made_anew, "TARGET_RECREATED", "topic {target} of B was created again"),
]


@pytest.mark.parametrize(("befall", "tag", "words"), LOSSES, ids=[befall.__name__ for befall, _, _ in LOSSES])
def test_a_loss_stops_it(
    a: Sandbox,
    b: Sandbox,
    spark: SparkSession,
    tmp_path: Path,
    befall: Callable[[Sandbox, Sandbox, str, str], None],
    tag: str,
    words: str,
) -> None:
    file, topic, target = new(a, b, tmp_path, "loss")
    copy_once(spark, file)
    befall(a, b, topic, target)
    for _ in range(2):  # as before when it is started again
        with pytest.raises(DataLoss) as refused:
            copy_once(spark, file)
        assert refused.value.tag == tag
        assert words.format(topic=topic, target=target) in refused.value.message
        assert "semel mirror resolve" in refused.value.message
    assert len(records(b, target).get(0, [])) == (0 if "target" in befall.__name__ else 10)


def test_lost_positions_name_the_way_out(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """From ``b`` to ``a``, which keeps the progress of these tests alone."""
    file, topic, target = new(b, a, tmp_path, "unknown")
    copy_once(spark, file)
    delete(a, "semel-progress")
    for _ in range(2):
        with pytest.raises(DataLoss) as refused:
            copy_once(spark, file)
        assert refused.value.tag == "PROGRESS_LOST"
        assert f"Its target topics end: {target}-0 at 11." in refused.value.message
        assert "progressTopic" not in refused.value.message
    (command,) = re.findall(r"`semel (progress reset [^`]+)`", refused.value.message)
    delete(a, target)
    done = CliRunner().invoke(cli.app, [*command.split(), "--yes"])
    assert done.exit_code == 0, done.output
    copy_once(spark, file)
    assert records(a, target) == records(b, topic)


def test_rows_without_a_position_are_refused(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    file, _, target = new(a, b, tmp_path, "filled")
    topics.create(b.bootstrap_servers, target, 1)
    produce(b, target, [{"value": "by whom?"}])
    with pytest.raises(ConfigError, match=f"TARGET_HAS_ROWS. {target}-0 of B has rows"):
        copy_once(spark, file)
    assert len(records(b, target)[0]) == 1


def test_another_policy_is_refused(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    file, topic, target = new(a, b, tmp_path, "policy")
    copy_once(spark, file)
    other = mm2(tmp_path, a, b, topic, alias=alias_of(file), replication__policy__class=IDENTITY)
    with pytest.raises(ConfigError, match=r"OTHER_POLICY.*with default\. until now, and the file says identity"):
        copy_once(spark, other)
    assert partitions(b, topic) == []
    copy_once(spark, mm2(tmp_path, a, b, topic, alias=alias_of(file)))
    assert len(records(b, target)[0]) == 10


def test_one_cluster_behind_both_aliases_is_refused(b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ONE_CLUSTER"):
        copy_once(spark, mm2(tmp_path, b, b, "any"))


def test_the_same_names_in_both_directions_are_refused(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    topic = topics.create(a.bootstrap_servers, unique("both"), 1)
    alias = unique("A")
    back = {f"B->{alias}.enabled": "true", f"B->{alias}.topics": "both.*"}
    file = mm2(tmp_path, a, b, topic, alias=alias, replication__policy__class=IDENTITY, **back)
    (flow,) = read_properties(file, ["B"]).flows
    with pytest.raises(ConfigError, match=f"IDENTITY_BOTH_WAYS. {topic} would be copied from {alias} to B and back"):
        Flow(spark, flow, threading.Event()).run(once=True)
    assert partitions(b, topic) == []


def test_a_record_that_the_target_does_not_take_is_named(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    """The limit of its topic is read again then: the sync of settings may have raised it at this start."""
    file, topic, target = new(a, b, tmp_path, "large", sync__topic__configs__enabled="false")
    topics.create(b.bootstrap_servers, target, 1, max_message_bytes="1000")
    produce(a, topic, [{"value": "x" * 5_000}])
    with pytest.raises(
        ConfigError, match=rf"RECORD_TOO_LARGE. the record at offset 10 of {topic}-0 cannot be written to {target}-0"
    ):
        copy_once(spark, file)
    assert records(b, target) == {0: []}
    copy_once(spark, mm2(tmp_path, a, b, topic, alias=alias_of(file)))
    assert records(b, target) == records(a, topic)


def test_a_limit_that_is_changed_meanwhile(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """Topics are looked for once, so that only the refusal of a record has the limit read again: by the target's broker
    where it is lower now, and here where it is higher.
    """
    once = {"refresh__topics__enabled": "false", "sync__topic__configs__enabled": "false"}
    file, topic, target = new(a, b, tmp_path, "limit", **once)
    with Running(spark, file) as running:

        def all_there() -> bool:
            return bool(partitions(b, target)) and records(b, target) == records(a, topic)

        wait_for(all_there, running.said)
        for limit, size in (("2000", 500), ("50000", 20_000)):
            set_config(b, target, {"max.message.bytes": limit})
            produce(a, topic, [{"value": random.randbytes(size)} for _ in range(8)])
            wait_for(all_there, running.said)
        assert "is stopped" not in running.said()
    assert running.failed == []


def test_a_damaged_batch_stops_it(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """A byte of the source's log on its disk: whole batches and merged ones would both get a new checksum."""
    file, topic, target = new(a, b, tmp_path, "damaged")
    for _ in range(3):
        produce(a, topic, [{"value": "small"}], **{"batch.num.messages": 1})
    (segment,) = (a.nodes[0].directory / "data" / f"{topic}-0").glob("*.log")
    with segment.open("r+b") as log:
        log.seek(-1, os.SEEK_END)
        last = log.read(1)
        log.seek(-1, os.SEEK_END)
        log.write(bytes([last[0] ^ 1]))
    for _ in range(2):
        with pytest.raises(DataLoss, match=rf"CORRUPT_RECORDS.*offset 12 of {topic}-0 is damaged: its CRC is"):
            copy_once(spark, file)
        assert records(b, target) == {0: []}


# ---- one topic of several


def status_of(file: Path) -> dict[str, str]:
    """What `semel mirror status` says is wrong, by partition."""
    shown = CliRunner().invoke(cli.app, ["mirror", "status", str(file), "--json"])
    rows = json.loads(shown.output)
    assert shown.exit_code == int(any(row["problem"] for row in rows)), shown.output
    return {f"{row['topic']}-{row['partition']}": row["problem"] + row["way_out"] for row in rows if row["problem"]}


def metrics() -> str:
    registry = CollectorRegistry()
    registry.register(MirrorCollector())
    return generate_latest(registry).decode()


def test_what_is_wrong_with_one_topic_stops_that_one(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    """Mended, each is copied from where it was, after a restart."""
    name = unique("one-of")
    file = mm2(tmp_path, a, b, f"{name}-.*", sync__topic__configs__enabled="false")
    alias = alias_of(file)
    good, large, keyless, filled = (
        topics.create(a.bootstrap_servers, f"{name}-{kind}", 2) for kind in ("good", "large", "keyless", "filled")
    )
    # with the alias it is too long
    nameless = topics.create(a.bootstrap_servers, f"{name}-{'x' * (247 - len(name))}", 1)
    topics.create(b.bootstrap_servers, f"{alias}.{large}", 2, max_message_bytes="1000")
    topics.create(b.bootstrap_servers, f"{alias}.{keyless}", 2, cleanup_policy="compact")
    topics.create(b.bootstrap_servers, f"{alias}.{filled}", 2)
    produce(b, f"{alias}.{filled}", [{"value": "by whom?", "partition": 1}])
    for topic in (good, large, keyless, filled, nameless):
        produce(a, topic, [{"key": "k", "value": f"{i}", "partition": 0} for i in range(10)])
    produce(a, large, [{"value": "x" * 5_000, "partition": 0}])
    produce(a, keyless, [{"value": "no key", "partition": 0}])
    for topic in (good, large, keyless):
        produce(a, topic, [{"key": "k", "value": f"{i}", "partition": 1} for i in range(10)])
    for _ in range(2):
        with pytest.raises(ConfigError, match=f"TARGET_HAS_ROWS. {alias}.{filled}-1 of B has rows"):
            copy_once(spark, file)
        assert records(b, f"{alias}.{good}") == records(a, good)
        for topic in (large, keyless):
            assert records(b, f"{alias}.{topic}")[0] == []
            assert records(b, f"{alias}.{topic}")[1] == records(a, topic)[1]
        assert records(b, f"{alias}.{filled}")[0] == records(a, filled)[0]
        wrong = status_of(file)
        assert wrong.keys() == {f"{large}-0", f"{keyless}-0", f"{filled}-1", f"{nameless}-0"}
        assert f"RECORD_TOO_LARGE] the record at offset 10 of {large}-0 cannot be written" in wrong[f"{large}-0"]
        assert "raise max.message.bytes of" in wrong[f"{large}-0"]
        assert re.search(rf"INVALID_RECORD.*{keyless}-0 at or after offset 0\..*cleanup.policy", wrong[f"{keyless}-0"])
        assert "TARGET_HAS_ROWS" in wrong[f"{filled}-1"]
        assert f"has no place on B. creating topic '{alias}.{nameless}'" in wrong[f"{nameless}-0"]
        assert f'semel_mirror_stopped{{partition="0",reason="INVALID_RECORD",source="{alias}",target="B",topic="' in (
            metrics()
        )
        produce(a, good, [{"value": "more", "partition": 1}])
    set_config(b, f"{alias}.{large}", {"max.message.bytes": "100000"})
    set_config(b, f"{alias}.{keyless}", {"cleanup.policy": "delete"})
    file.write_text(f"{file.read_text()}topics.exclude = {nameless}, {filled}\n")
    copy_once(spark, file)
    for topic in (good, large, keyless):
        assert records(b, f"{alias}.{topic}") == records(a, topic)
    assert status_of(file) == {}
    assert f'source="{alias}",target="B",topic="{large}"}} 1.0' not in metrics()


@pytest.mark.exhaustive  # its sample is test_what_is_wrong_with_one_topic_stops_that_one
def test_a_stopped_topic_resumes_by_itself(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """The mirror runs on. A topic that is deleted when all of it was copied leaves it; one that was not is named."""
    name = unique("resumes")
    often = {"refresh__topics__interval__seconds": "1", "sync__topic__configs__enabled": "false"}
    file = mm2(tmp_path, a, b, f"{name}-.*", **often)
    alias = alias_of(file)
    good, large, done, lost = (
        topics.create(a.bootstrap_servers, f"{name}-{kind}", 1) for kind in ("good", "large", "done", "lost")
    )
    topics.create(b.bootstrap_servers, f"{alias}.{large}", 1, max_message_bytes="1000")
    for topic in (good, large, done, lost):
        produce(a, topic, [{"value": f"{i}"} for i in range(10)])
    large_ones = [{"value": "x" * 5_000}]
    with Running(spark, file) as running:

        def all_there(topic: str) -> bool:
            return bool(partitions(b, f"{alias}.{topic}")) and records(b, f"{alias}.{topic}") == records(a, topic)

        wait_for(lambda: all(map(all_there, (good, large, done, lost))), running.said)
        produce(a, large, large_ones)
        wait_for(lambda: f"{large}-0 is stopped, the others are copied" in running.said(), running.said)
        wait_for(lambda: f"{large}-0" in status_of(file), "status")
        delete(a, done)
        wait_for(lambda: f"{done} was deleted on the source, and leaves the flow" in running.said(), running.said)
        delete(b, f"{alias}.{lost}")
        wait_for(
            lambda: f"{lost} is stopped, the others are copied: [SEMEL_TARGET_GONE]" in running.said(), running.said
        )
        assert status_of(file).keys() == {f"{large}-0", f"{lost}-0"}
        wait_for(lambda: f"{large}-0 is still stopped" in running.said(), running.said)
        produce(a, good, [{"value": "the others go on"}])
        wait_for(lambda: all_there(good), running.said)
        set_config(b, f"{alias}.{large}", {"max.message.bytes": "100000"})
        wait_for(lambda: all_there(large), running.said)
        wait_for(lambda: status_of(file).keys() == {f"{lost}-0"}, "status")
        assert len(records(b, f"{alias}.{done}")[0]) == 10
        assert running.failed == []
    with pytest.raises(DataLoss, match=rf"TARGET_GONE. topic {alias}.{lost} of B"):
        copy_once(spark, file)
    # it comes back as another topic: that is named, and the rest of the flow goes on
    topics.create(a.bootstrap_servers, done, 1)
    produce(a, good, [{"value": "and on"}])
    with pytest.raises(DataLoss):
        copy_once(spark, file)
    assert all(one in status_of(file) for one in (f"{lost}-0", f"{done}-0"))
    assert records(b, f"{alias}.{good}") == records(a, good)


# ---- drivers


def has(sandbox: Sandbox, topic: str, count: int) -> bool:
    return len(records(sandbox, topic)[0]) == count


@pytest.mark.exhaustive
def test_a_cluster_that_goes_away_is_waited_for(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    file, topic, target = new(a, b, tmp_path, "away")
    (flow,) = read_properties(file).flows
    stop = threading.Event()
    thread = threading.Thread(target=Flow(spark, flow, stop).run)
    thread.start()
    wait_for(lambda: len(records(b, target).get(0, [])) == 10, "all to be copied")
    for count, sandbox in ((20, a), (30, b)):
        sandbox.nodes[0].kill()
        sandbox.nodes[0].start()
        sandbox.wait_ready()
        produce(a, topic, [{"value": "behind its return"}] * 10)
        wait_for(partial(has, b, target, count), "all to be copied")
    stop.set()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert records(b, target) == records(a, topic)


def test_a_second_driver_takes_over(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    file, topic, target = new(a, b, tmp_path, "two")
    (flow,) = read_properties(file).flows
    ended: list[SemelError] = []

    def first() -> None:
        try:
            Flow(spark, flow, threading.Event()).run()
        except SemelError as error:
            ended.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    wait_for(lambda: len(records(b, target).get(0, [])) == 10, "the first one to have copied")
    copy_once(spark, file)
    produce(a, topic, [{"value": "for whom?"}])
    thread.join(PATIENCE_S)
    assert [type(error) for error in ended] == [Fenced]
    copy_once(spark, file)
    assert records(b, target) == records(a, topic)
