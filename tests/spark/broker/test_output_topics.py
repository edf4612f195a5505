"""An output topic that was deleted and created again between two batches: the rows of the batches before are gone with
it, so the query stops, and names two ways to go on.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.admin.progress_rename import rename
from semel.admin.progress_reset import at_offsets, set_to
from semel.config import ClientConfig
from semel.errors import DataLoss
from semel.sandbox import Sandbox
from semel.transaction.producer import Producer
from semel.wire.client import Client
from tests.spark.support.copy_query import Crashed, Line, crash_behind
from tests.spark.support.topics_and_drivers import create, produce, progress, values
from tests.support import topics
from tests.support.other_client import delete


@pytest.fixture
def line(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Line:
    return Line.new(spark, kafka, tmp_path, "outputs")


def create_again(kafka: Sandbox, topic: str, partitions: int = 3) -> None:
    delete(kafka.bootstrap_servers, topic)
    topics.create(kafka.bootstrap_servers, topic, partitions)


def ids(line: Line, topic: str) -> list[int]:
    return sorted(json.loads(value)["id"] for value in values(line.kafka.bootstrap_servers, topic))


def recorded(line: Line, scope: str = "query") -> dict[str, str]:
    found: dict[str, str] = progress(line.kafka.bootstrap_servers, line.prefix, scope)["outputs"]
    return found


def test_it_is_refused_until_somebody_says_to_go_on(line: Line) -> None:
    produce(line.kafka, line.source, range(20))
    line.run()
    before = recorded(line)
    create_again(line.kafka, line.target)
    produce(line.kafka, line.source, range(20, 30))
    with pytest.raises(DataLoss, match=f"'{line.target}' .* was deleted and created again") as refused:
        line.run()
    assert refused.value.tag == "OUTPUT_RECREATED"
    assert recorded(line) == before
    assert ids(line, line.target) == []
    token = refused.value.message.partition("checkpoint:")[2][:16]
    line.run(onProgressMismatch=f"checkpoint:{token}")
    assert ids(line, line.target) == list(range(20, 30))
    assert recorded(line).keys() == before.keys()
    assert recorded(line) != before
    create_again(line.kafka, line.target)
    produce(line.kafka, line.source, range(30, 40))
    with pytest.raises(DataLoss, match="created again"):  # the token was for that one time
        line.run(onProgressMismatch=f"checkpoint:{token}")


def test_progress_that_was_renamed_keeps_the_ids(line: Line) -> None:
    produce(line.kafka, line.source, range(20))
    line.run()
    before, new = recorded(line), f"{line.prefix}-new"
    with Client(ClientConfig.parse({"bootstrap.servers": line.kafka.bootstrap_servers})) as client:
        assert rename(client, line.prefix, new, scope="query").outputs == before
    create_again(line.kafka, line.target)
    produce(line.kafka, line.source, range(20, 30))
    with pytest.raises(DataLoss, match=f"since the last batch of '{new}'"):
        line.run(transactionalIdPrefix=new)


def test_a_batch_that_would_be_skipped_is_refused_too(line: Line) -> None:
    produce(line.kafka, line.source, range(20))
    with pytest.raises(Crashed):
        line.run(around=crash_behind(0))
    create_again(line.kafka, line.target)
    with pytest.raises(DataLoss, match="created again") as refused:
        line.run()
    assert refused.value.tag == "OUTPUT_RECREATED"
    token = refused.value.message.partition("checkpoint:")[2][:16]
    line.run(onProgressMismatch=f"checkpoint:{token}")  # it is skipped
    produce(line.kafka, line.source, range(20, 30))
    line.run(onProgressMismatch=f"checkpoint:{token}")  # and the same word holds for the next batch
    assert ids(line, line.target) == list(range(20, 30))


def test_two_refusals_want_two_tokens(line: Line) -> None:
    produce(line.kafka, line.source, range(20))
    line.run()
    create_again(line.kafka, line.target)
    begun_anew = line.directory / "begun-anew"
    with pytest.raises(DataLoss, match="onProgressMismatch") as refused:
        line.run(checkpoint=begun_anew)
    assert refused.value.tag == "PROGRESS_MISMATCH"
    token = refused.value.message.partition("checkpoint:")[2][:16]
    with pytest.raises(DataLoss, match="created again") as refused:
        line.run(checkpoint=begun_anew, onProgressMismatch=f"checkpoint:{token}")
    assert ids(line, line.target) == []
    both = refused.value.message.partition("checkpoint:")[2].partition(". (2)")[0]
    line.run(checkpoint=begun_anew, onProgressMismatch=f"checkpoint:{both}")
    assert ids(line, line.target) == list(range(20))


def test_what_stops_no_query(line: Line) -> None:
    """Topics that are new or left out, batches without rows, and progress that an operator has set."""
    left, new = (create(line.kafka, f"{line.prefix}-{name}", 1) for name in ("left", "new"))

    def run(second: str) -> None:
        rows = line.rows().selectExpr("key", "cast(value as string) value", f"'{line.target}' as topic")
        rows = rows.where("cast(get_json_object(value, '$.id') as int) >= 20")
        line.run(rows=rows, topic=None, topics=f"{line.target},{second}")

    produce(line.kafka, line.source, range(20))
    run(left)  # all of its rows are filtered away
    assert recorded(line).keys() == {line.target, left}
    create_again(line.kafka, left, 1)
    produce(line.kafka, line.source, range(20, 30))
    run(new)
    produce(line.kafka, line.source, range(30, 40))
    run(left)
    assert ids(line, line.target) == list(range(20, 40))
    create_again(line.kafka, line.target)
    client = Client(ClientConfig.parse({"bootstrap.servers": line.kafka.bootstrap_servers}))
    with client, Producer(client, line.prefix, scope="query") as owner:
        set_to(owner, at_offsets(client, owner.take_over(), {line.source: {0: 0, 1: 0}}))
    line.run(checkpoint=line.directory / "empty")
    assert ids(line, line.target) == list(range(40))


def test_a_batch_job_is_not_skipped_over_rows_that_are_gone(line: Line) -> None:
    rows = line.spark.createDataFrame([("k", '{"id": 1}')], "key string, value string")
    line.sink().write(rows, version=1)
    assert line.sink().write(rows, version=1) is None
    create_again(line.kafka, line.target)
    with pytest.raises(DataLoss, match=f"version 1 of '{line.prefix}' is committed, but output topic") as refused:
        line.sink().write(rows, version=1)
    assert refused.value.tag == "OUTPUT_RECREATED"
    line.sink().write(rows, version=2)
    assert ids(line, line.target) == [1]
