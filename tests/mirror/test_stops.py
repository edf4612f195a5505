"""Where the mirror stops, or does not begin: losses, targets that are not what was written to, doubts, another
driver.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from semel import cli
from semel.errors import ConfigError, DataLoss, Fenced, SemelError
from semel.mirror.config.properties import read_properties
from semel.mirror.flow import Flow
from semel.sandbox import Sandbox
from tests import topics
from tests.mirror.support.harness import IDENTITY, alias_of, copy_once, mm2, partitions, produce, records, unique
from tests.mirror.support.losses import (
    delete,
    rows_deleted,
    source_deleted,
    source_made_anew,
    target_deleted,
    target_made_anew,
)
from tests.waiting import PATIENCE_S, wait_for


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
    file, topic, target = new(a, b, tmp_path, "large")
    topics.create(b.bootstrap_servers, target, 1, max_message_bytes="1000")
    produce(a, topic, [{"value": "x" * 5_000}])
    with pytest.raises(
        ConfigError, match=rf"RECORD_TOO_LARGE. the record at offset 10 of {topic}-0 cannot be written to {target}-0"
    ):
        copy_once(spark, file)
    assert records(b, target) == {0: []}


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
