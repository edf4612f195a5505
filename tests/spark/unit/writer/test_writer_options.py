from __future__ import annotations

import pytest
from pyspark.sql import types as t

from semel.errors import ConfigError, SemelError, Unsupported
from semel.spark.data_source import SemelDataSource
from semel.spark.writer.options import WriterOptions

GIVEN = {"kafka.bootstrap.servers": "localhost:9092", "topic": "out", "transactionalIdPrefix": "p"}
ROWS = t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.StringType())])


def test_spark_lowers_names_and_adds_its_own() -> None:
    given = {name.lower(): value for name, value in GIVEN.items()}
    options = WriterOptions.parse({**given, "checkpointlocation": "/cp", "queryname": "orders"})
    assert (options.sink.topic, options.sink.prefix, options.for_stream()) == ("out", "p", "/cp")


@pytest.mark.parametrize(("text", "two_phase"), [(None, None), ("true", True), ("false", False)])
def test_two_phase_commit_is_asked_for_or_left_to_the_cluster(text: str | None, two_phase: bool | None) -> None:
    given = {} if text is None else {"kafka.transaction.two.phase.commit.enable": text}
    assert WriterOptions.parse({**GIVEN, **given}).two_phase is two_phase


#: What a user of format("kafka") gives who changes the word alone, and what the refusal names.
MISTAKES: list[tuple[dict[str, str], t.StructType, str]] = [
    ({"transactionalIdPrefix": ""}, ROWS, "transactionalIdPrefix"),
    ({"checkpointLocation": ""}, ROWS, "checkpointLocation"),
    ({"topic": ""}, ROWS, "topic"),
    ({"delivery": "at_least_once"}, ROWS, "KafkaSink"),
    ({"version": "3"}, ROWS, "version"),
    ({"kafka.transaction.two.phase.commit.enable": "yes"}, ROWS, "two.phase"),
    ({"asyncProgressTrackingEnabled": "true"}, ROWS, "asyncprogresstrackingenabled"),
    ({}, t.StructType([t.StructField("id", t.LongType())]), "value"),
    ({}, t.StructType([*ROWS, t.StructField("id", t.LongType())]), "id"),
    ({}, t.StructType([t.StructField("value", ROWS)]), "to_json(value)"),
]


@pytest.mark.parametrize(("given", "schema", "named"), MISTAKES, ids=lambda one: one if isinstance(one, str) else "")
def test_a_mistake_is_refused_before_anything_is_written(
    given: dict[str, str], schema: t.StructType, named: str
) -> None:
    options = {**GIVEN, "checkpointLocation": "/cp", **given}
    with pytest.raises(SemelError) as raised:
        SemelDataSource({name: value for name, value in options.items() if value}).streamWriter(schema, False)
    assert isinstance(raised.value, ConfigError | Unsupported)
    assert named in raised.value.message
    assert "Nothing was" in raised.value.message


def test_a_missing_prefix_names_no_way_that_this_sink_refuses() -> None:
    with pytest.raises(ConfigError) as raised:
        WriterOptions.parse({**GIVEN, "transactionalIdPrefix": ""})
    assert "at_least_once" not in raised.value.message


def test_options_of_the_source_change_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Users of format("kafka") give both ends the same options, and Spark's sink passes over those of its source."""
    shared = {"subscribe": "in", "startingoffsets": "earliest", "failondataloss": "false", "includeheaders": "true"}
    assert WriterOptions.parse({**GIVEN, **shared}) == WriterOptions.parse(GIVEN)
    assert "Spark's Kafka source change nothing here: failOnDataLoss, includeHeaders, startingOffsets, subscribe" in (
        caplog.text
    )


def test_a_topic_is_not_overwritten() -> None:
    with pytest.raises(Unsupported, match="Kafka only appends"):
        SemelDataSource(GIVEN).writer(ROWS, True)


def test_a_column_may_name_any_topic() -> None:
    options = {name: value for name, value in GIVEN.items() if name != "topic"}
    SemelDataSource({**options, "checkpointLocation": "/cp"}).streamWriter(
        t.StructType([*ROWS, t.StructField("topic", t.StringType())]), False
    )
