"""A query with Spark's own Kafka source and sink moves to semel (``docs/migrate.md``): its offsets are carried over by
``semel progress import``.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as KafkaProducer
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import semel
from bench.connector import connector_jars
from semel import cli
from semel.errors import ConfigError, Fenced
from semel.sandbox import Sandbox
from semel.testing.crash import CrashPlan
from semel.testing.spark.spark_cluster import LOCAL, SparkCluster
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress
from tests.spark.support.copy_query import Line, cut
from tests.spark.support.topics_and_drivers import Copy, new_copy, produce, program, values

ROWS, MORE, PER_BATCH = 200, 100, 60


@pytest.fixture(scope="module")
def old(kafka: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The old query has written some batches and was stopped; rows have come since."""
    folder = tmp_path_factory.mktemp("old")
    copy = new_copy(kafka, folder, "old", rows=ROWS, per_batch=PER_BATCH)
    spark = SparkCluster(LOCAL, {"spark.jars": ",".join(map(str, connector_jars(progress=False)))})
    with spark.driver(program("kafka_copy", copy), CrashPlan(folder / "plan")) as driver:
        assert driver.wait(300) == 0, driver.tail()
    produce(kafka, copy.source, range(ROWS, ROWS + MORE))
    return copy


def carry(copy: Copy, checkpoint: Path | str, prefix: str, *arguments: str) -> dict[str, Any]:
    command = [
        "progress",
        "import",
        prefix,
        "--checkpoint",
        str(checkpoint),
        "--bootstrap-server",
        copy.servers,
        "--json",
        *arguments,
    ]
    done = CliRunner().invoke(cli.app, command)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return dict(json.loads(done.output))


def go_on(copy: Copy, kafka: Sandbox, spark: SparkSession, tmp_path: Path, prefix: str) -> list[int]:
    """semel's query under this prefix, with a new checkpoint, into a topic of its own.

    Returns the numbers of the rows that it wrote.
    """
    line = Line.new(spark, kafka, tmp_path, prefix)
    line.source, line.prefix = copy.source, prefix
    line.run(reading={"startingOffsets": "committed", "transactionalIdPrefix": prefix})
    return numbers(copy.servers, line.target)


def numbers(servers: str, topic: str) -> list[int]:
    return [json.loads(value)["id"] for value in values(servers, topic)]


def test_it_goes_on_exactly_where_the_old_one_stood(
    old: Copy, spark: SparkSession, kafka: Sandbox, tmp_path: Path
) -> None:
    said = carry(old, old.checkpoint, "moved", "--yes")
    assert (said["may_be_written_already"], said["startingOffsets"]) == (
        [],
        {old.source: {"0": ROWS // 2, "1": ROWS // 2}},
    )
    both = numbers(old.servers, old.target) + go_on(old, kafka, spark, tmp_path, "moved")
    assert sorted(both) == list(range(ROWS + MORE))

    with pytest.raises(ConfigError, match="has progress already") as refused:
        carry(old, old.checkpoint, "moved", "--yes")
    assert refused.value.tag == "HAS_PROGRESS"


def test_a_batch_that_was_written_and_not_committed_is_written_again(
    old: Copy, spark: SparkSession, kafka: Sandbox, tmp_path: Path
) -> None:
    """The old driver died between its write and Spark's commit log: its sink has these rows, and nobody knows it."""
    checkpoint = Path(shutil.copytree(old.checkpoint, tmp_path / "killed"))
    (batch,) = cut(checkpoint, "commits", 1)
    said = carry(old, checkpoint, "after-a-kill", "--yes")
    assert said["committed"] == batch - 1
    twice = {row["partition"]: (row["first_offset"], row["last_offset"]) for row in said["may_be_written_already"]}
    again = {
        number
        for number in range(ROWS)
        if number % 2 in twice and twice[number % 2][0] <= number // 2 <= twice[number % 2][1]
    }
    assert 0 < len(again) <= PER_BATCH
    counted = Counter(numbers(old.servers, old.target) + go_on(old, kafka, spark, tmp_path, "after-a-kill"))
    assert counted.keys() == set(range(ROWS + MORE)), "rows were skipped"
    assert {number for number, times in counted.items() if times > 1} == again, (
        "other rows are there twice than those that were said"
    )


def test_a_dry_run_gives_the_options_and_changes_nothing(
    old: Copy, spark: SparkSession, kafka: Sandbox, tmp_path: Path
) -> None:
    said = carry(old, old.checkpoint, "dry", "--dry-run")
    assert said["written"] is False
    line = Line.new(spark, kafka, tmp_path, "dry")
    line.source, line.prefix = old.source, "dry"
    line.run(reading={"startingOffsets": json.dumps(said["startingOffsets"])})
    assert sorted(numbers(old.servers, old.target) + numbers(old.servers, line.target)) == list(range(ROWS + MORE))


def test_what_is_refused(old: Copy, tmp_path: Path) -> None:
    """State, and offsets that the topic has not: it was created again, or they were deleted."""
    checkpoint = Path(shutil.copytree(old.checkpoint, tmp_path / "state"))
    (checkpoint / "state").mkdir()
    with pytest.raises(ConfigError, match="state cannot be imported") as refused:
        carry(old, checkpoint, "refused", "--yes")
    assert refused.value.tag == "STATEFUL"

    checkpoint = Path(shutil.copytree(old.checkpoint, tmp_path / "gone"))
    newest = max(
        (path for path in (checkpoint / "offsets").iterdir() if path.name.isdecimal()), key=lambda path: int(path.name)
    )
    for ends, tag in (({"0": 100_000, "1": 0}, "NO_SUCH_OFFSET"), ({"7": 0}, "UNKNOWN_PARTITION")):
        newest.write_text("\n".join([*newest.read_text().splitlines()[:2], json.dumps({old.source: ends})]))
        with pytest.raises(ConfigError) as refused:
            carry(old, checkpoint, "refused", "--yes")
        assert refused.value.tag == tag


@pytest.mark.exhaustive
def test_an_old_query_that_still_runs_is_noticed(old: Copy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of it between the question and the writing."""
    checkpoint = Path(shutil.copytree(old.checkpoint, tmp_path / "running"))
    (batch,) = cut(checkpoint, "commits", 1)

    def answer(_: str, *, abort: bool) -> bool:
        assert abort
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")
        return True

    monkeypatch.setattr("typer.confirm", answer)
    command = ["progress", "import", "running", "--checkpoint", str(checkpoint), "--bootstrap-server", old.servers]
    with pytest.raises(ConfigError, match="the old query still runs"):
        CliRunner().invoke(cli.app, command, catch_exceptions=False)
    assert carry(old, checkpoint, "running", "--yes")["committed"] == batch, "nothing was changed"


def test_progress_that_came_while_it_asked_is_not_overwritten(old: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a query that runs on, and is fenced by it: that is said, since somebody has to start it again."""
    cluster = semel.Cluster({"bootstrap.servers": old.servers})
    with cluster, Producer(cluster._client, "meanwhile", scope="query") as running:
        running.take_over()

        def answer(_: str, *, abort: bool) -> bool:
            assert abort
            with running.transaction() as txn:
                txn.commit(Progress(batch=0))
            return True

        monkeypatch.setattr("typer.confirm", answer)
        command = [
            "progress",
            "import",
            "meanwhile",
            "--checkpoint",
            str(old.checkpoint),
            "--bootstrap-server",
            old.servers,
        ]
        with pytest.raises(
            ConfigError,
            match=r"HAS_PROGRESS.*Nothing was changed; who ran under this prefix was fenced: start it again",
        ):
            CliRunner().invoke(cli.app, command, catch_exceptions=False)
        with pytest.raises(Fenced), running.transaction() as txn:
            txn.commit(Progress(batch=1))


@pytest.mark.exhaustive
def test_partitions_that_the_old_query_never_saw_are_read_from_their_beginning(
    old: Copy, spark: SparkSession, kafka: Sandbox, tmp_path: Path
) -> None:
    admin = AdminClient({"bootstrap.servers": old.servers})
    admin.create_partitions([NewPartitions(old.source, 3)])[old.source].result(60)
    producer = KafkaProducer({"bootstrap.servers": old.servers})
    for number in range(1_000, 1_010):
        producer.produce(old.source, json.dumps({"id": number, "lot": 10}), key=str(number), partition=2)
    assert producer.flush(60) == 0
    said = carry(old, old.checkpoint, "grown", "--yes")
    assert said["startingOffsets"][old.source]["2"] == -2
    both = numbers(old.servers, old.target) + go_on(old, kafka, spark, tmp_path, "grown")
    assert sorted(both) == [*range(ROWS + MORE), *range(1_000, 1_010)]
