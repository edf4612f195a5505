"""What a refusal and the page promise of ``semel progress reset``, with real queries."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from semel import cli
from semel.errors import ConfigError, DataLoss
from semel.sandbox import Sandbox
from tests.spark.support.copy_query import Line
from tests.spark.support.topics_and_drivers import produce, values


def reset(line: Line, *arguments: str) -> None:
    command = [
        "progress",
        "reset",
        line.prefix,
        "--yes",
        "--bootstrap-server",
        line.kafka.bootstrap_servers,
        *arguments,
    ]
    done = CliRunner().invoke(cli.app, command)
    assert done.exit_code == 0, done.output


def test_a_checkpoint_whose_first_batch_was_planned_before_the_reset(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path
) -> None:
    """Spark keeps what it has planned, and asks no startingOffsets again: those in front of it would be in no batch."""
    line = Line.new(spark, kafka, tmp_path, "planned")
    produce(kafka, line.source, range(300))
    line.run()
    in_the_middle = json.dumps({line.source: {"0": 100, "1": 75}})
    with pytest.raises(DataLoss, match="`semel progress reset"):
        line.run(checkpoint=tmp_path / "refused", reading={"startingOffsets": in_the_middle})
    reset(line)
    with pytest.raises(ConfigError, match="start at 0 now: 175 offsets in between would be in no batch") as caught:
        line.run(checkpoint=tmp_path / "refused", reading={"startingOffsets": "earliest"})
    assert caught.value.tag == "BEGUN_LATER"
    assert len(values(kafka.bootstrap_servers, line.target)) == 300
    # the two ways out
    line.run(checkpoint=tmp_path / "refused", reading={"startingOffsets": in_the_middle})
    assert len(values(kafka.bootstrap_servers, line.target)) == 425
    reset(line)
    line.run(checkpoint=tmp_path / "empty", reading={"startingOffsets": "earliest"})
    assert len(values(kafka.bootstrap_servers, line.target)) == 725


def test_forgotten_and_set_to_other_offsets(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    line = Line.new(spark, kafka, tmp_path, "reset")
    produce(kafka, line.source, range(300))
    line.run()
    with pytest.raises(DataLoss, match=f"`semel progress reset {line.prefix}` forgets the progress"):
        line.run(checkpoint=tmp_path / "new")
    reset(line)
    produce(kafka, line.source, range(300, 350))
    with pytest.raises(
        DataLoss,
        match=r"the sink has no progress.*The sink may be new in this query.*lost, reset, or under another prefix",
    ):
        line.run()
    assert len(values(kafka.bootstrap_servers, line.target)) == 300
    at_the_end = json.dumps({line.source: {"0": 150, "1": 150}})
    line.run(checkpoint=tmp_path / "newer", reading={"startingOffsets": at_the_end})
    line.assert_exact()

    reset(line, "--to-offsets", json.dumps({line.source: {"0": 170, "1": 165}}))
    with pytest.raises(DataLoss, match="was set by hand"):
        line.run(checkpoint=tmp_path / "another")
    reading = {"startingOffsets": "committed", "transactionalIdPrefix": line.prefix}
    line.run(checkpoint=tmp_path / "from there", reading=reading)
    seen = [json.loads(value)["id"] for value in values(kafka.bootstrap_servers, line.target)]
    assert sorted(seen) == sorted([*range(350), *range(340, 350, 2), *range(331, 350, 2)])
