"""What cannot be done is refused by its tag, and nothing of it is in the topic: no committed record, and none of an
aborted transaction.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import StreamingQueryException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from semel.errors import ConfigError, Retriable, SemelError, Unsupported
from semel.sandbox import Sandbox
from semel.spark import KafkaSink
from semel.spark.jvm.application import application_of
from tests.spark.support.copy_query import Line
from tests.spark.support.topics_and_drivers import create, everything, produce, unique, values


@pytest.fixture(scope="module")
def topic(kafka: Sandbox) -> str:
    return create(kafka, "bad", 2)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(10).select(f.col("id").cast("string").alias("key"), f.lit("v").alias("value"))


def sink(kafka: Sandbox, **options: object) -> KafkaSink:
    given = {"transactionalIdPrefix": unique("bad"), "kafka.bootstrap.servers": kafka.bootstrap_servers, **options}
    return KafkaSink(**{name: value for name, value in given.items() if value is not None})


def assert_nothing(kafka: Sandbox, topic: str) -> None:
    assert values(kafka.bootstrap_servers, topic) == []
    assert everything(kafka.bootstrap_servers, topic) == []


@pytest.mark.parametrize(
    ("options", "tag", "says"),
    [
        ({"topics": "a", "partitoner": "any"}, "UNKNOWN_OPTION", "did you mean partitioner"),
        ({"topic": "a", "kafka.request.timeout": "1"}, "UNKNOWN_OPTION", "request.timeout.ms"),
        ({"topic": "a", "transactionalIdPrefix": None}, "MISSING_OPTION", "delivery=at_least_once"),
        ({"topic": "a", "kafka.bootstrap.servers": None}, "MISSING_OPTION", "kafka.bootstrap.servers is missing"),
        (
            {"topic": "a", "kafka.bootstrap.servers": None, "bootstrap.servers": "a:1"},
            "MISSING_OPTION",
            "did you mean kafka.bootstrap.servers",
        ),
        ({"topic": "a", "kafka.bootstrap.servers": ""}, "MISSING_OPTION", "host:port[,host:port]."),
        ({"topic": "a", "kafka.bootstrap.servers": "nowhere"}, "WRONG_VALUE", "not host:port"),
        ({"topic": "a", "delivery": "twice"}, "WRONG_VALUE", "exactly_once"),
        ({"topic": "a", "kafka.acks": "1"}, "WRONG_VALUE", "contradicts exactly-once"),
        ({"topic": "a", "topics": "b"}, "WRONG_VALUE", "both given"),
        ({"topic": "a", "onProgressMismatch": "ignore"}, "WRONG_VALUE", "checkpoint:<token>"),
        ({"topic": "a", "maxBatchRetries": "many"}, "WRONG_VALUE", "maxBatchRetries=many"),
    ],
)
def test_options(kafka: Sandbox, options: dict[str, Any], tag: str, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        sink(kafka, **options)
    assert refused.value.tag == tag
    assert says in refused.value.message


@pytest.mark.parametrize(
    ("columns", "options", "tag"),
    [
        ("*, 1 as price", {}, "EXTRA_COLUMN"),
        ("key", {}, "VALUE_MISSING"),
        ("1 as value", {}, "COLUMN_TYPE"),
        ("1 as key, value", {}, "COLUMN_TYPE"),
        ("'1' as partition, value", {}, "COLUMN_TYPE"),
        ("array('h') as headers, value", {}, "COLUMN_TYPE"),
        ("value", {"topic": None}, "TOPIC_MISSING"),
        ("value, 'a' as topic", {"topic": None}, "TOPICS_MISSING"),
    ],
)
def test_columns(kafka: Sandbox, topic: str, rows: DataFrame, columns: str, options: dict[str, Any], tag: str) -> None:
    with pytest.raises(ConfigError) as refused:
        sink(kafka, **{"topic": topic, **options}).write(rows.selectExpr(*columns.split(", ")), version=1)
    assert refused.value.tag == tag
    assert_nothing(kafka, topic)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (
            "value as vaule, key",
            "no column value among vaule, key. Nothing was written. .*; rename 'vaule', if that is it",
        ),
        ("value, 1 as partiton", "column partiton would be lost; did you mean partition: a Kafka record has"),
    ],
)
def test_columns_that_are_misspelt(kafka: Sandbox, topic: str, rows: DataFrame, columns: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        sink(kafka, topic=topic).write(rows.selectExpr(*columns.split(", ")), version=1)


def test_a_function_that_raises_is_told_in_one_line(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line = Line.new(spark, kafka, tmp_path, "raises")
    produce(kafka, line.source, range(10))

    def price(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError("no price in row 7")

    rows = line.rows().select("key", "value")
    with pytest.raises(StreamingQueryException), caplog.at_level(logging.ERROR, "semel"):
        line.run(rows=rows.mapInArrow(price, rows.schema))
    (said,) = (record.getMessage() for record in caplog.records if record.name.startswith("semel"))
    assert (
        said == f"batch 0 of '{line.prefix}' was aborted: your code raised ValueError: no price in row 7."
        " Nothing of it is visible."
    )
    assert_nothing(kafka, line.target)


def test_a_sink_stays_in_the_driver(kafka: Sandbox) -> None:
    """Spark Connect pickles the function of foreachBatch as here."""
    mine, serializer = sink(kafka, topic="a"), cast("Any", CloudPickleSerializer)
    with pytest.raises(pickle.PicklingError, match=r"\[SEMEL_SPARK_CONNECT\] a KafkaSink stays in the driver"):
        serializer().dumps(lambda df, number: mine(df, number))


def test_partition_that_is_not_there(kafka: Sandbox, topic: str, rows: DataFrame) -> None:
    with pytest.raises(ConfigError) as refused:
        sink(kafka, topic=topic).write(rows.withColumn("partition", f.lit(7)), version=1)
    assert refused.value.tag == "UNKNOWN_PARTITION"
    assert f"{topic}-7" in refused.value.message
    assert_nothing(kafka, topic)


def test_topic_of_a_row_that_was_not_listed(kafka: Sandbox, topic: str, rows: DataFrame) -> None:
    with pytest.raises(ConfigError) as refused:
        sink(kafka, topics=topic).write(rows.withColumn("topic", f.lit("elsewhere")), version=1)
    assert refused.value.tag == "UNKNOWN_TOPIC"
    assert_nothing(kafka, topic)


def test_topic_of_a_row_that_is_null(kafka: Sandbox, topic: str, rows: DataFrame) -> None:
    with pytest.raises(ConfigError, match="column topic is null") as refused:
        sink(kafka, topics=topic).write(rows.withColumn("topic", f.lit(None).cast("string")), version=1)
    assert refused.value.tag == "NO_TOPIC"
    assert_nothing(kafka, topic)


@pytest.mark.parametrize("options", [{"topic": "not-there"}, {"topics": "not-there"}])
def test_topic_that_is_not_there(kafka: Sandbox, rows: DataFrame, options: dict[str, str]) -> None:
    df = rows if "topic" in options else rows.withColumn("topic", f.lit("not-there"))
    with pytest.raises(ConfigError, match="not-there") as refused:
        sink(kafka, **options).write(df, version=1)
    assert refused.value.tag == "UNKNOWN_TOPIC"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    assert "not-there" not in admin.list_topics(timeout=30).topics


def test_broker_that_is_not_there(kafka: Sandbox, rows: DataFrame) -> None:
    address = "127.0.0.1:1"
    patience = {
        "kafka.default.api.timeout.ms": 2_000,
        "kafka.delivery.timeout.ms": 2_000,
        "kafka.request.timeout.ms": 1_000,
    }
    with pytest.raises(Retriable, match=address):
        sink(kafka, topic="a", **{"kafka.bootstrap.servers": address, **patience}).write(rows, version=1)


@pytest.mark.parametrize("keyed", [True, False])
def test_row_that_is_too_large(kafka: Sandbox, rows: DataFrame, keyed: bool) -> None:
    """The first rows of the task may have been sent by then: they are aborted, and no reader of committed rows sees
    them.
    """
    topic = create(kafka, "large", 1)
    large = rows.coalesce(1).withColumn("value", f.expr("repeat('x', if(key = '7', 1200000, 10))"))
    with pytest.raises(ConfigError, match="row with key '7'" if keyed else "row 7 ") as refused:
        sink(kafka, topic=topic).write(large if keyed else large.drop("key"), version=1)
    assert refused.value.tag == "RECORD_TOO_LARGE"
    assert "1200" in refused.value.message.replace(",", "")
    assert values(kafka.bootstrap_servers, topic) == []


@pytest.mark.parametrize("keyed", [True, False])
def test_row_that_fits_when_it_is_compressed(kafka: Sandbox, rows: DataFrame, keyed: bool) -> None:
    """5 MB of one letter, for a topic that takes batches of 1 MiB: Spark's own sink writes it with this
    max.request.size.
    """
    topic = create(kafka, "letters", 1)
    large = rows.coalesce(1).withColumn("value", f.expr("repeat('x', if(key = '7', 5000000, 10))"))
    settings = {"kafka.max.request.size": 20_000_000, "kafka.compression.type": "lz4"}
    sink(kafka, topic=topic, **settings).write(large if keyed else large.drop("key"), version=1)
    found = [len(value) for value in values(kafka.bootstrap_servers, topic)]
    assert sorted(found) == [10] * (rows.count() - 1) + [5_000_000]


def test_progress_topic_of_the_wrong_kind(kafka: Sandbox, topic: str, rows: DataFrame) -> None:
    name = unique("deleted")
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(name, 16, config={"cleanup.policy": "delete"})])[name].result(60)
    with pytest.raises(ConfigError, match=r"cleanup\.policy") as refused:
        sink(kafka, topic=topic, progressTopic=name).write(rows, version=1)
    assert name in refused.value.message
    assert_nothing(kafka, topic)


@pytest.fixture
def changed(spark: SparkSession) -> Iterator[Any]:
    """Settings of the application, as if it had been started with them."""
    conf: Any = spark.sparkContext._conf
    before: dict[str, str | None] = {}

    def forget() -> None:
        """What an application was started with is asked for once."""
        vars(application_of(spark.sparkContext)).pop("conf", None)

    def put(name: str, value: str) -> None:
        before.setdefault(name, conf.get(name))
        conf._jconf.set(name, value)
        forget()

    yield put
    for name, value in before.items():
        # the application is shared: what it was started with is what other files find
        if value is None:
            conf._jconf.remove(name)
        else:
            conf._jconf.set(name, value)
    forget()


@pytest.mark.parametrize(
    ("name", "value", "tag"),
    [
        ("spark.speculation", "true", "SPECULATION"),
        ("spark.speculation", "True", "SPECULATION"),
        ("spark.ui.retainedStages", "20", "RETAINED_STAGES"),
        ("spark.ui.retainedJobs", "20", "RETAINED_JOBS"),
    ],
)
def test_settings_of_spark(
    kafka: Sandbox, topic: str, rows: DataFrame, changed: Any, name: str, value: str, tag: str
) -> None:
    changed(name, value)
    with pytest.raises(ConfigError) as refused:
        sink(kafka, topic=topic).write(rows, version=1)
    assert refused.value.tag == tag
    assert_nothing(kafka, topic)


def test_state_with_pipelined_python_workers(spark: SparkSession, kafka: Sandbox, tmp_path: Path, changed: Any) -> None:
    """They are refused what Spark itself gets wrong then; a query without state runs."""
    changed("spark.python.udf.pipelined.enabled", "TRUE")
    line = Line.new(spark, kafka, tmp_path, "pipelined")
    produce(kafka, line.source, range(10))
    with pytest.raises(ConfigError) as refused:
        line.run(rows=line.rows().select("key", "value").dropDuplicates(["key"]))
    assert refused.value.tag == "PIPELINED"
    assert_nothing(kafka, line.target)
    line.run(checkpoint=tmp_path / "without state")
    line.assert_exact()


def test_query_that_writes_to_what_it_reads(
    spark: SparkSession, kafka: Sandbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Some do so on purpose, so it is said and not refused."""
    line = Line.new(spark, kafka, tmp_path, "circle")
    produce(kafka, line.source, range(10))
    with caplog.at_level(logging.WARNING, "semel"):
        line.run()
        assert "reads the topic it writes" not in caplog.text
        back = KafkaSink(topic=line.source, transactionalIdPrefix=line.source, **line.kafka_options)
        writer = (
            line.rows()
            .select("key", "value")
            .writeStream.foreachBatch(back)
            .option("checkpointLocation", str(tmp_path / "back"))
        )
        writer.trigger(availableNow=True).start().awaitTermination()
    assert f"the query reads the topic it writes ({line.source})" in caplog.text


def test_rows_that_still_have_the_columns_of_the_source(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    """They say where a row was read. What to do is not to write it there."""
    line = Line.new(spark, kafka, tmp_path, "whole-rows")
    produce(kafka, line.source, range(10))
    rows = spark.read.format("semel").options(**line.kafka_options, subscribe=line.source).load()
    with pytest.raises(
        Exception,
        match=r"UNKNOWN_TOPIC.*If topic is the column of the source, which says where a row was read: drop it",
    ):
        sink(kafka, topics=line.target).write(rows, version=1)
    with pytest.raises(
        Exception, match=r"UNKNOWN_PARTITION.*If partition is the column of the source.*drop it, and the key decides"
    ):
        sink(kafka, topic=create(kafka, "narrow", 1)).write(rows, version=1)
    assert_nothing(kafka, line.target)


def test_query_with_a_temporary_checkpoint(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    line = Line.new(spark, kafka, tmp_path, "temporary")
    produce(kafka, line.source, range(10))
    query = line.rows().select("key", "value").writeStream.foreachBatch(line.sink()).trigger(availableNow=True).start()
    with pytest.raises(Exception, match="SEMEL_TEMPORARY_CHECKPOINT"):
        query.awaitTermination()
    assert_nothing(kafka, line.target)


def test_real_time_mode(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    """It has no micro-batches that a transaction could hold."""
    line = Line.new(spark, kafka, tmp_path, "real-time")
    produce(kafka, line.source, range(10))
    # PySpark's own types do not know this trigger
    writer: Any = (
        line.rows()
        .select("key", "value")
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(line.checkpoint))
    )
    with pytest.raises(Exception, match="REAL_TIME"):
        writer.foreachBatch(line.sink()).trigger(realTime="5 minutes").start().awaitTermination(60)
    assert_nothing(kafka, line.target)


def test_streaming_query_is_refused_with_our_error(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> None:
    """What a Python function of the plan or a task raises comes out of a query as it does out of a batch job."""
    line = Line.new(spark, kafka, tmp_path, "refused")
    produce(kafka, line.source, range(10))
    with pytest.raises(ConfigError) as refused:
        line.run(rows=line.rows().select("key", "value", f.lit(7).alias("partition")))
    assert refused.value.tag == "UNKNOWN_PARTITION"
    assert_nothing(kafka, line.target)


def test_spark_connect(kafka: Sandbox, topic: str) -> None:
    connect = type("DataFrame", (DataFrame,), {"__module__": "pyspark.sql.connect.dataframe"})
    refusing = sink(kafka, topic=topic)
    frame: Any = object.__new__(connect)
    with pytest.raises(Unsupported, match="SEMEL_SPARK_CONNECT"):
        refusing.write(frame)
    with pytest.raises(Unsupported, match="SEMEL_SPARK_CONNECT"):
        refusing(frame, 0)


def test_wrong_use(kafka: Sandbox, topic: str, rows: DataFrame, spark: SparkSession) -> None:
    used = sink(kafka, topic=topic)
    with pytest.raises(SemelError) as refused:
        used(rows, 0)
    assert refused.value.tag == "NO_CALLBACK"
    with pytest.raises(ConfigError, match="streaming"):
        used.write(spark.readStream.format("rate").load())
    assert_nothing(kafka, topic)


@pytest.mark.parametrize("version", ["20261121", 1.0, True])
def test_version_that_is_no_whole_number(kafka: Sandbox, topic: str, rows: DataFrame, version: Any) -> None:
    with pytest.raises(ConfigError, match="is no whole number") as refused:
        sink(kafka, topic=topic).write(rows, version=version)
    assert refused.value.tag == "VERSION"
    assert_nothing(kafka, topic)


def test_lower_version(kafka: Sandbox, rows: DataFrame) -> None:
    topic = create(kafka, "versions", 2)
    job = sink(kafka, topic=topic)
    job.write(rows, version=3)
    with pytest.raises(ConfigError) as refused:
        job.write(rows, version=2)
    assert refused.value.tag == "VERSION_TOO_LOW"
    assert len(everything(kafka.bootstrap_servers, topic)) == 10
