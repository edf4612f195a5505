"""Every row of PROTOCOL 6 with real queries: checkpoints cut, copied, restored, deleted, batch 0 included.

Exact, or refused with the right tag.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from semel import cli
from semel.admin.progress_rename import rename
from semel.config import ClientConfig
from semel.errors import ConfigError, DataLoss
from semel.sandbox import Sandbox
from semel.wire.client import Client
from tests.spark.support.copy_query import Crashed, Line, backup, crash_before, crash_behind, cut, restore
from tests.spark.support.topics_and_drivers import create, everything, produce, values
from tests.support import topics
from tests.support.other_client import delete
from tests.support.truncate_log import cut_log


@pytest.fixture
def line(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Line:
    return Line.new(spark, kafka, tmp_path, "rows")


def token(refused: DataLoss) -> str:
    found = re.search(r"onProgressMismatch=(checkpoint:\w+)", refused.message)
    assert found
    return found.group(1)


@pytest.mark.parametrize("newest", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_committed_batches_are_skipped_when_the_commit_log_lacks_them(line: Line, newest: int) -> None:
    produce(line.kafka, line.source, range(300))
    line.run()
    assert len(cut(line.checkpoint, "commits", newest)) == newest
    line.run()
    produce(line.kafka, line.source, range(300, 400))
    line.run()
    line.assert_exact()


def test_batch_whose_offsets_are_lost_too_is_planned_anew(line: Line) -> None:
    """What is planned anew under its number holds the same rows, and is skipped; with other rows it is refused."""
    produce(line.kafka, line.source, range(300))
    line.run()
    saved = backup(line.checkpoint)
    for log in ("commits", "offsets"):
        cut(line.checkpoint, log, 1)
    line.run()
    line.assert_exact()
    restore(line.checkpoint, saved)
    for log in ("commits", "offsets"):
        cut(line.checkpoint, log, 1)
    produce(line.kafka, line.source, range(300, 450))
    with pytest.raises(DataLoss) as refused:
        line.run(reading={"maxOffsetsPerTrigger": 150})
    assert refused.value.tag == "PROGRESS_MISMATCH"
    restore(line.checkpoint, saved)
    line.run()
    line.assert_exact()


def test_offset_log_is_lost_and_the_query_begins_earlier(line: Line) -> None:
    """What lies in front of its first beginning was never read: it must not be taken for done."""
    produce(line.kafka, line.source, range(200))
    later = json.dumps({line.source: {"0": 60, "1": 60}})
    line.run(reading={"startingOffsets": later})
    for log in ("commits", "offsets"):
        cut(line.checkpoint, log, 100)
    before = everything(line.kafka.bootstrap_servers, line.target)
    with pytest.raises(DataLoss, match="begins at 0 now and began at 60") as refused:
        line.run(reading={"maxOffsetsPerTrigger": 1_000})
    assert refused.value.tag == "PROGRESS_MISMATCH"
    assert everything(line.kafka.bootstrap_servers, line.target) == before
    for log in ("commits", "offsets"):
        cut(line.checkpoint, log, 100)
    line.run(reading={"startingOffsets": later})
    assert len(values(line.kafka.bootstrap_servers, line.target)) == 80


def test_older_backup_is_skipped_forward_where_its_batches_end_alike(line: Line) -> None:
    produce(line.kafka, line.source, range(200))
    line.run()
    saved = backup(line.checkpoint)
    produce(line.kafka, line.source, range(200, 400))
    line.run()
    restore(line.checkpoint, saved)
    produce(line.kafka, line.source, range(400, 500))
    line.run()
    line.assert_exact()


def test_older_backup_that_plans_other_rows_is_refused_and_a_new_checkpoint_goes_on(line: Line) -> None:
    produce(line.kafka, line.source, range(200))
    line.run()
    saved = backup(line.checkpoint)
    produce(line.kafka, line.source, range(200, 300))
    line.run()
    restore(line.checkpoint, saved)
    produce(line.kafka, line.source, range(300, 400))
    before = everything(line.kafka.bootstrap_servers, line.target)
    with pytest.raises(DataLoss) as refused:
        line.run(reading={"maxOffsetsPerTrigger": 200})
    assert refused.value.tag == "PROGRESS_MISMATCH"
    assert "would repeat rows" in refused.value.message
    assert everything(line.kafka.bootstrap_servers, line.target) == before
    shutil.rmtree(line.checkpoint)
    line.run(reading={"startingOffsets": "committed", "transactionalIdPrefix": line.prefix})
    line.assert_exact()


def test_token_runs_the_batch_once(line: Line) -> None:
    """A person may say that the checkpoint is right: the rows that the refusal named come twice, and the token is
    spent.
    """
    produce(line.kafka, line.source, range(100))
    line.run()
    saved = backup(line.checkpoint)
    produce(line.kafka, line.source, range(100, 150))
    line.run()
    restore(line.checkpoint, saved)
    produce(line.kafka, line.source, range(150, 200))
    with pytest.raises(DataLoss) as refused:
        line.run()
    said = token(refused.value)
    with pytest.raises(DataLoss, match="is for another batch or another progress record"):
        line.run(onProgressMismatch="checkpoint:0123456789abcdef")
    line.run(onProgressMismatch=said)
    seen = values(line.kafka.bootstrap_servers, line.target)
    assert (len(seen), len(set(seen))) == (250, 200)
    restore(line.checkpoint, saved)
    produce(line.kafka, line.source, range(200, 250))
    with pytest.raises(DataLoss, match="is for another batch or another progress record"):
        line.run(onProgressMismatch=said, reading={"maxOffsetsPerTrigger": 150})


def test_checkpoint_is_deleted(line: Line) -> None:
    """From the earliest offset it would begin again, which is refused; from the committed one it goes on."""
    produce(line.kafka, line.source, range(200))
    line.run()
    shutil.rmtree(line.checkpoint)
    with pytest.raises(DataLoss) as refused:
        line.run()
    assert refused.value.tag == "PROGRESS_MISMATCH"
    shutil.rmtree(line.checkpoint)
    produce(line.kafka, line.source, range(200, 300))
    line.run(reading={"startingOffsets": "committed", "transactionalIdPrefix": line.prefix})
    line.assert_exact()


@pytest.mark.parametrize("way", ["reset", pytest.param("token", marks=pytest.mark.exhaustive)])
def test_source_topic_is_created_again(line: Line, way: str) -> None:
    """Nothing is taken for read that is another topic's, and both ways out lead on. So does the checkpoint from before
    that: of the same query its batch counts as written; of another one it is told what it would repeat.
    """
    servers = line.kafka.bootstrap_servers
    committed = {"startingOffsets": "committed", "transactionalIdPrefix": line.prefix}
    produce(line.kafka, line.source, range(100))
    line.run()
    saved = backup(line.checkpoint)
    delete(servers, line.source)
    topics.create(servers, line.source, 2)
    produce(line.kafka, line.source, range(100, 250))
    with pytest.raises(
        DataLoss, match=r"OFFSETS_GONE.*created again.*semel progress reset.*--to-offsets.*startingOffsets=committed"
    ):
        line.run()
    if way == "reset":
        offsets = json.dumps({line.source: {"0": -2, "1": -2}})
        reset = ["progress", "reset", line.prefix, "--to-offsets", offsets, "--yes", "--bootstrap-server", servers]
        assert CliRunner().invoke(cli.app, reset).exit_code == 0
        shutil.rmtree(line.checkpoint)
        line.run(reading=committed)
    else:
        reading = {"failOnDataLoss": "false"}
        with pytest.raises(DataLoss, match="created again") as refused:
            line.run(reading=reading)
        assert "startingOffsets=committed" not in refused.value.message
        line.run(reading=reading, onProgressMismatch=token(refused.value))
    produce(line.kafka, line.source, range(250, 300))
    line.run()
    restore(line.checkpoint, saved)
    if way == "token":
        line.run(reading={"failOnDataLoss": "false"})
    else:
        with pytest.raises(
            DataLoss, match=r"(?s)the progress is of the new one: this checkpoint is older.*would repeat rows"
        ) as refused:
            line.run(reading={"failOnDataLoss": "false"})
        assert "with nothing repeated or missed" in refused.value.message
        shutil.rmtree(line.checkpoint)
        line.run(reading=committed)
    seen = sorted(json.loads(value)["id"] for value in values(servers, line.target))
    assert seen == list(range(300))


@pytest.mark.exhaustive  # a broker of its own
def test_input_is_cut_and_written_anew(spark: SparkSession, tmp_path: Path) -> None:
    """What was read is in the output already.

    Going on from where the log was cut is one empty batch backwards, which the sink goes along with.
    """
    with Sandbox.start() as fragile:
        line = Line.new(spark, fragile, tmp_path, "cut")
        for first in (0, 100):
            produce(fragile, line.source, range(first, first + 100))
            line.run()
        cut_log(fragile, (line.source, 0), batches=1)
        left = len(values(fragile.bootstrap_servers, line.source))
        assert left < 200
        produce(fragile, line.source, range(200, 500))
        for _ in range(2):
            with pytest.raises(
                DataLoss, match=r"OFFSETS_GONE.*-0 \[\d+, 100\): the log was cut at \d+ and written again"
            ):
                line.run()
        line.run(reading={"failOnDataLoss": "false"})
        produce(fragile, line.source, range(500, 600))
        line.run()
        seen = sorted(json.loads(value)["id"] for value in values(fragile.bootstrap_servers, line.target))
        assert seen == list(range(600))


def test_query_is_renamed(line: Line) -> None:
    produce(line.kafka, line.source, range(100))
    line.run(name="before")
    produce(line.kafka, line.source, range(100, 200))
    line.run(name="after")
    line.assert_exact()


def test_other_prefix_is_refused_until_it_is_renamed(line: Line) -> None:
    produce(line.kafka, line.source, range(100))
    line.run()
    produce(line.kafka, line.source, range(100, 200))
    other = f"{line.prefix}-other"
    with pytest.raises(DataLoss, match="the sink has no progress") as refused:
        line.run(transactionalIdPrefix=other)
    assert refused.value.tag == "PROGRESS_MISMATCH"
    with Client(ClientConfig.parse({"bootstrap.servers": line.kafka.bootstrap_servers})) as client:
        rename(client, line.prefix, other, scope="query")
    line.run(transactionalIdPrefix=other)
    line.assert_exact()
    produce(line.kafka, line.source, range(200, 300))
    with pytest.raises(ConfigError) as moved:
        line.run()
    assert moved.value.tag == "PREFIX_MOVED"
    line.run(transactionalIdPrefix=other)
    line.assert_exact()


def test_at_least_once_past_is_refused(line: Line) -> None:
    produce(line.kafka, line.source, range(100))
    line.run(delivery="at_least_once")
    produce(line.kafka, line.source, range(100, 200))
    with pytest.raises(DataLoss, match="the sink has no progress"):
        line.run()


def test_progress_that_is_lost_is_refused(line: Line) -> None:
    """Its topic is another one now, as after a deletion."""
    produce(line.kafka, line.source, range(100))
    line.run()
    produce(line.kafka, line.source, range(100, 200))
    with pytest.raises(DataLoss, match="PROGRESS_LOST"):
        line.run(progressTopic=f"{line.prefix}-progress")


@pytest.mark.parametrize("crash", [pytest.param(crash_before, marks=pytest.mark.exhaustive), crash_behind])
def test_crash_in_a_later_batch(line: Line, crash: type) -> None:
    produce(line.kafka, line.source, range(300))
    with pytest.raises(Crashed):
        line.run(around=crash(1))
    produce(line.kafka, line.source, range(300, 350))
    line.run()
    line.assert_exact()


def test_topic_is_added_to_the_source(line: Line) -> None:
    """A topic that the pattern finds later starts at its earliest offset, in the batch that finds it."""
    name = f"{line.prefix}-more"
    first = create(line.kafka, name, 2)
    produce(line.kafka, first, range(100))
    options: dict[str, Any] = {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": 100,
        "subscribePattern": f"{re.escape(name)}.*",
    }

    def rows() -> DataFrame:
        return (
            line.spark.readStream.format("semel").options(**line.kafka_options, **options).load().select("key", "value")
        )

    line.run(rows=rows())
    second = create(line.kafka, name, 2)
    produce(line.kafka, second, range(100, 200))
    line.run(rows=rows())
    cut(line.checkpoint, "commits", 1)
    line.run(rows=rows())
    seen = values(line.kafka.bootstrap_servers, line.target)
    assert len(seen) == len(set(seen)) == 200


@pytest.mark.spark_4_3
def test_source_is_added_by_its_name(line: Line) -> None:
    """It starts where it began, and the others go on; sources are known by name where the query names them."""
    line.spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
    try:
        second = create(line.kafka, f"{line.prefix}-second", 1)
        options: dict[str, Any] = {"startingOffsets": "earliest", **line.kafka_options}

        def named(name: str, topic: str) -> DataFrame:
            return (
                line.spark.readStream.format("semel")
                .name(name)
                .options(**options, subscribe=topic)
                .load()
                .select("key", "value")
            )

        produce(line.kafka, line.source, range(100))
        line.run(rows=named("first", line.source))
        produce(line.kafka, line.source, range(100, 200))
        produce(line.kafka, second, range(200, 300), partitions=1)
        with pytest.raises(Crashed):
            line.run(rows=named("second", second).unionAll(named("first", line.source)), around=crash_behind(1))
        line.run(rows=named("second", second).unionAll(named("first", line.source)))
    finally:
        line.spark.conf.unset("spark.sql.streaming.queryEvolution.enableSourceEvolution")
    seen = values(line.kafka.bootstrap_servers, line.target)
    assert len(seen) == len(set(seen)) == 300
