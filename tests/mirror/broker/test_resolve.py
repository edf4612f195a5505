"""After a loss: what ``semel mirror resolve`` carries out, and what is copied then."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from semel import cli
from semel.errors import ConfigError, DataLoss
from semel.sandbox import Sandbox
from tests.mirror.support.harness import alias_of, copy_once, mm2, partitions, produce, records, unique
from tests.mirror.support.losses import (
    delete,
    rows_deleted,
    source_deleted,
    source_made_anew,
    target_deleted,
    target_made_anew,
)
from tests.support import topics
from tests.support.truncate_log import cut_log


def new(a: Sandbox, b: Sandbox, directory: Path, **keys: str) -> tuple[Path, str, str]:
    """A file, its source topic with ten rows, and its target topic."""
    topic = topics.create(a.bootstrap_servers, unique("resolve"), 1)
    produce(a, topic, [{"value": f"{i}"} for i in range(10)])
    file = mm2(directory, a, b, topic, **keys)
    return file, topic, f"{alias_of(file)}.{topic}"


def resolve(file: Path, topic: str, *options: str) -> str:
    where = ["--source", alias_of(file), "--target", "B", "--topic", topic, "--yes"]
    shown = CliRunner().invoke(cli.app, ["mirror", "resolve", str(file), *where, *options])
    if shown.exception is not None:
        raise shown.exception
    return " ".join(shown.output.split())


def values(sandbox: Sandbox, topic: str) -> list[str]:
    return [(value or b"").decode() for _, value, _, _ in records(sandbox, topic)[0]]


def stopped(spark: SparkSession, file: Path, tag: str) -> None:
    with pytest.raises(DataLoss) as refused:
        copy_once(spark, file)
    assert refused.value.tag == tag


def test_deleted_rows_are_skipped(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    file, topic, target = new(a, b, tmp_path)
    copy_once(spark, file)
    rows_deleted(a, b, topic, target)
    stopped(spark, file, "OFFSETS_GONE")
    assert f"{topic}-0 resumes at offset 13; {topic}-0 [10, 13): the log starts at 13" in resolve(file, topic, "--skip")
    copy_once(spark, file)
    assert values(b, target) == [f"{i}" for i in range(10)] + ["more"] * 2


def test_a_new_source_topic_is_copied_after_the_old_one(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    file, topic, target = new(a, b, tmp_path)
    copy_once(spark, file)
    source_made_anew(a, b, topic, target)
    stopped(spark, file, "OFFSETS_GONE")
    with pytest.raises(ConfigError, match=r"TARGET_HAS_ROWS"):
        resolve(file, topic, "--restart")
    stopped(spark, file, "OFFSETS_GONE")
    assert "is copied from its earliest offset, 0" in resolve(file, topic, "--skip")
    copy_once(spark, file)
    found = [(value or b"").decode() for _, value, _, _ in records(b, target)[0]]
    assert found[:10] == [f"{i}" for i in range(10)]
    assert sum(map(len, records(b, target).values())) == 60


def test_a_source_topic_that_is_gone_is_forgotten(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    file, topic, target = new(a, b, tmp_path)
    copy_once(spark, file)
    source_deleted(a, b, topic, target)
    with pytest.raises(ConfigError, match="SOURCE_GONE"):
        resolve(file, topic, "--restart")
    assert "its positions are forgotten" in resolve(file, topic, "--skip")
    copy_once(spark, file)
    assert len(values(b, target)) == 10
    with pytest.raises(ConfigError, match="NOT_MIRRORED"):
        resolve(file, topic, "--skip")


@pytest.mark.parametrize("befall", [target_deleted, pytest.param(target_made_anew, marks=pytest.mark.exhaustive)])
def test_a_target_topic_is_written_again(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, befall: object
) -> None:
    file, topic, target = new(a, b, tmp_path)
    copy_once(spark, file)
    befall(a, b, topic, target)  # type: ignore[operator]
    stopped(spark, file, "TARGET_GONE" if befall is target_deleted else "TARGET_RECREATED")
    resolve(file, topic, "--skip")
    produce(a, topic, [{"value": "new"}])
    copy_once(spark, file)
    assert values(b, target) == ["new"]
    delete(b, target)
    resolve(file, topic, "--restart")
    copy_once(spark, file)
    assert values(b, target) == [*(f"{i}" for i in range(10)), "new"]
    assert partitions(b, target) == [0]


@pytest.mark.parametrize(
    ("filled", "reason"),
    [
        pytest.param(0, "the log ends at 10", marks=pytest.mark.exhaustive),
        (30, "the log was cut at 10 and written again"),
    ],
)
def test_a_log_that_was_cut(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path, filled: int, reason: str
) -> None:
    """As by an election that was not clean: rows that were copied are not there, and others may be in their place."""
    file, topic, target = new(a, b, tmp_path)
    produce(a, topic, [{"value": f"{i}"} for i in range(10, 15)])
    copy_once(spark, file)
    cut_log(a, (topic, 0), batches=1)
    if filled:
        produce(a, topic, [{"value": "other"}] * filled)
    with pytest.raises(DataLoss, match=r"OFFSETS_GONE.*\[10, 15\): the log (ends|was cut)"):
        copy_once(spark, file)
    assert f"resumes at offset 10; {topic}-0 [10, 15): {reason}" in resolve(file, topic, "--skip")
    produce(a, topic, [{"value": "new"}])
    copy_once(spark, file)
    assert values(b, target) == [f"{i}" for i in range(15)] + ["other"] * filled + ["new"]


def test_the_file_may_let_retention_pass(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    file, topic, target = new(a, b, tmp_path, on__data__loss="skip")
    copy_once(spark, file)
    rows_deleted(a, b, topic, target)
    copy_once(spark, file)
    assert values(b, target) == [f"{i}" for i in range(10)] + ["more"] * 2
    source_made_anew(a, b, topic, target)
    stopped(spark, file, "OFFSETS_GONE")  # retention alone passes


def test_a_question_that_is_not_answered_changes_nothing(
    a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path
) -> None:
    file, topic, target = new(a, b, tmp_path)
    copy_once(spark, file)
    admin, at = AdminClient({"bootstrap.servers": a.bootstrap_servers}), TopicPartition(topic, 0, 5)
    admin.delete_records([at])[at].result(30)
    where = ["--source", alias_of(file), "--target", "B", "--topic", topic]
    shown = CliRunner().invoke(cli.app, ["mirror", "resolve", str(file), *where, "--skip"], input="n\n")
    assert shown.exit_code == 1
    assert f"nothing is lost of {topic}: it resumes where it is" in shown.output
    for options in ([], ["--skip", "--restart"]):
        assert CliRunner().invoke(cli.app, ["mirror", "resolve", str(file), *where, *options]).exit_code == 2
    assert len(values(b, target)) == 10
