"""Objection 25: the sink is called twice in one callback, two sinks have one prefix, one sink serves two queries:
refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from semel.errors import ConfigError, DataLoss
from semel.sandbox import Sandbox
from semel.spark import KafkaSink, error
from tests.spark.support.copy_query import Callback, Line
from tests.spark.support.topics_and_drivers import create, everything, produce, values
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def line(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Line:
    made = Line.new(spark, kafka, tmp_path, "twice")
    produce(kafka, made.source, range(100))
    return made


def test_twice_in_one_callback(line: Line) -> None:
    def twice(sink: KafkaSink) -> Callback:
        def callback(df: DataFrame, number: int) -> None:
            sink(df, number)
            sink(df, number)

        return callback

    with pytest.raises(ConfigError) as refused:
        line.run(around=twice)
    assert refused.value.tag == "SECOND_CALL"
    assert len(everything(line.kafka.bootstrap_servers, line.target)) == 100
    line.run()
    line.assert_exact()


def test_a_second_try_after_a_call_that_failed(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing of the batch is there and a restart runs it: that is what is said, also to whoever swallows the error."""

    def again(sink: KafkaSink) -> Callback:
        def callback(df: DataFrame, number: int) -> None:
            with suppress(ConfigError):
                sink(df.withColumnRenamed("value", "valeu"), number)
            sink(df, number)

        return callback

    with pytest.raises(ConfigError, match=r"after its first call failed.*next start runs the batch again") as refused:
        line.run(around=again)
    assert refused.value.tag == "SECOND_CALL"
    assert everything(line.kafka.bootstrap_servers, line.target) == []
    said = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert any(re.search(rf"batch 0 of '{line.prefix}' ended with an error: .*valeu", text) for text in said), said
    line.run()
    line.assert_exact()


@pytest.mark.parametrize(
    ("versioned", "threads"),
    [
        pytest.param(True, True, id="with the batch's number as version, in a thread"),
        pytest.param(False, False, id="without a version, in the function's own"),
        pytest.param(True, False, marks=pytest.mark.exhaustive),
        pytest.param(False, True, marks=pytest.mark.exhaustive),
    ],
)
def test_write_in_the_function_of_a_query(line: Line, versioned: bool, threads: bool) -> None:
    """It would skip by a number that a new checkpoint begins anew with, and without one write a batch again that is run
    again.
    """

    def writing(sink: KafkaSink) -> Callback:
        def callback(df: DataFrame, number: int) -> None:
            write = partial(sink.write, df, version=number if versioned else None)
            if threads:
                with ThreadPoolExecutor() as pool:
                    pool.submit(write).result()
            else:
                write()

        return callback

    with pytest.raises(
        ConfigError, match=r"the function of a streaming query.*Call the sink itself there: sink\(df, batch_id\)"
    ) as refused:
        line.run(around=writing)
    assert refused.value.tag == "WRITE_IN_QUERY"
    assert everything(line.kafka.bootstrap_servers, line.target) == []
    line.run()
    line.assert_exact()


def test_what_the_second_call_was_to_write_comes_by_a_sink_of_its_own(line: Line) -> None:
    """The first call has committed the batch, so it is skipped from then on: the refusal says so, and its way out is
    gone.
    """
    rest = create(line.kafka, "rest", 2)
    own = KafkaSink(topic=rest, transactionalIdPrefix=rest, **{"kafka.bootstrap.servers": line.kafka.bootstrap_servers})

    def with_second(second: KafkaSink | None) -> Callable[[KafkaSink], Callback]:
        def around(sink: KafkaSink) -> Callback:
            def callback(df: DataFrame, number: int) -> None:
                sink(df, number)
                (second or sink)(df, number)

            return callback

        return around

    with pytest.raises(
        ConfigError,
        match=r"a restart skips this batch\. Rows that only the second call would write are missing: give them a sink",
    ):
        line.run(around=with_second(None))
    line.run(around=with_second(own))
    line.assert_exact()
    assert len(values(line.kafka.bootstrap_servers, rest)) == 100


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_two_sinks_with_one_prefix_in_one_callback(line: Line, host: str) -> None:
    """However the cluster is named: the second one would take over from the first, find the batch committed, and skip
    it.
    """
    servers = line.kafka.bootstrap_servers.replace("127.0.0.1", host)

    def both(sink: KafkaSink) -> Callback:
        other = KafkaSink(topic=line.target, transactionalIdPrefix=line.prefix, **{"kafka.bootstrap.servers": servers})

        def callback(df: DataFrame, number: int) -> None:
            sink(df, number)
            other(df, number)

        return callback

    with pytest.raises(ConfigError) as refused:
        line.run(around=both)
    assert refused.value.tag == "PREFIX_IN_USE"
    assert len(everything(line.kafka.bootstrap_servers, line.target)) == 100
    line.run()
    line.assert_exact()


def test_a_sink_that_is_made_in_the_function_of_each_batch(line: Line) -> None:
    """The usual mistake: the second batch is refused, and told what to do."""
    produce(line.kafka, line.source, range(100, 400))
    rows = line.rows().select("key", "value").writeStream.foreachBatch(lambda df, batch: line.sink()(df, batch))
    query = rows.option("checkpointLocation", str(line.checkpoint)).trigger(availableNow=True).start()
    with pytest.raises(Exception, match=r"SEMEL_PREFIX_IN_USE.*Make the sink once, outside"):
        query.awaitTermination(PATIENCE_S)


def test_a_sink_that_is_new_in_the_query_does_not_take_over_the_other_one(line: Line) -> None:
    """Its first batch is refused where the query has run before, with a token.

    The other's progress is not its own: all would be skipped.
    """
    audit = create(line.kafka, "audit", 2)
    line.run()
    produce(line.kafka, line.source, range(100, 200))

    def beside(**options: str) -> Callable[[KafkaSink], Callback]:
        own = KafkaSink(
            topic=audit,
            transactionalIdPrefix=audit,
            **{"kafka.bootstrap.servers": line.kafka.bootstrap_servers},
            **options,
        )

        def around(sink: KafkaSink) -> Callback:
            def callback(df: DataFrame, number: int) -> None:
                sink(df, number)
                own(df, number)

            return callback

        return around

    with pytest.raises(DataLoss, match="The sink may be new in this query") as refused:
        line.run(around=beside())
    found = re.search(r"onProgressMismatch=(checkpoint:[0-9a-f]+)", str(refused.value))
    assert found is not None
    line.run(around=beside(onProgressMismatch=found[1]))
    line.assert_exact()
    assert len(values(line.kafka.bootstrap_servers, audit)) == 100


@pytest.mark.parametrize("shared", [True, False])
def test_two_queries_with_one_prefix(line: Line, shared: bool) -> None:
    """The second one is refused, and the first goes on undisturbed."""
    sink = line.sink()
    rows = line.rows().select("key", "value")
    first = (
        rows.writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(line.checkpoint))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        first.processAllAvailable()
        second = rows.writeStream.foreachBatch(sink if shared else line.sink())
        other = second.option("checkpointLocation", str(line.directory / "second")).trigger(availableNow=True).start()
        with pytest.raises(Exception, match="SEMEL_PREFIX_IN_USE") as refused:
            other.awaitTermination(PATIENCE_S)
        assert isinstance(error(refused.value), ConfigError)
        produce(line.kafka, line.source, range(100, 200))
        first.processAllAvailable()
        assert first.isActive
    finally:
        first.stop()
    line.assert_exact()
    assert len(values(line.kafka.bootstrap_servers, line.target)) == 200
