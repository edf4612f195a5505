"""``semel progress``: how far a prefix has come, by what it committed and nothing else."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

import semel
from semel import cli
from semel.errors import ConfigError
from semel.read import id_text
from semel.sandbox import Sandbox
from semel.transaction.progress.record import KafkaSource, Progress, TopicEnd
from tests.support import topics
from tests.support.other_client import delete, delete_records

_numbers = count(1)


class Worker:
    """Copies by hand what it finds in one topic to another, as a sink does."""

    def __init__(self, kafka: Sandbox, cluster: semel.Cluster) -> None:
        self.servers, self.cluster = kafka.bootstrap_servers, cluster
        self.prefix = f"progress-command-{next(_numbers)}"
        self.source, self.target = (topics.create(self.servers, f"{self.prefix}-{end}", 2) for end in ("in", "out"))
        other = Producer({"bootstrap.servers": self.servers})
        for number in range(10):
            other.produce(self.source, str(number), partition=number % 2)
        assert other.flush(30) == 0

    def read_to(self, offset: int, batch: int, *, commit: bool = True) -> None:
        client = self.cluster._client
        topic = client.topics({self.source})[self.source]
        at = TopicEnd(id_text(topic.id), {0: offset, 1: 5})
        progress = Progress(
            query="the-query", run="the-run", batch=batch, sources=(KafkaSource(client.cluster, {self.source: at}),)
        )
        with self.cluster.producer(self.prefix) as producer, producer.transaction() as txn:
            txn.send(self.target, pa.table({"value": ["one"], "partition": pa.array([1], pa.int32())}))
            if commit:
                txn.commit(progress)
            else:
                txn.abort()

    def shown(self, *command: str) -> str:
        done = CliRunner().invoke(cli.app, ["progress", *command, "--bootstrap-server", self.servers])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return done.output

    def value(self) -> dict[str, Any]:
        (found,) = json.loads(self.shown("describe", self.prefix, "--json"))
        return dict(found)


@pytest.fixture
def worker(kafka: Sandbox) -> Any:
    with semel.Cluster({"bootstrap.servers": kafka.bootstrap_servers}) as cluster:
        yield Worker(kafka, cluster)


def test_the_last_committed_batch_and_how_far_the_source_is_ahead(worker: Worker) -> None:
    worker.read_to(1, 6)
    began = datetime.now(UTC).replace(microsecond=0)
    worker.read_to(3, 7)
    worker.read_to(5, 8, commit=False)
    found = worker.value()
    assert (found["prefix"], found["scope"], found["query"], found["batch"], found["open"]) == (
        worker.prefix,
        "producer",
        "the-query",
        7,
        False,
    )
    assert found["lag"] == 2
    committed = datetime.fromisoformat(found["committed_at"])
    assert began <= committed <= datetime.now(UTC)
    assert found["reads"] == [
        {"topic": worker.source, "partition": 0, "next_offset": 3, "lag": 2},
        {"topic": worker.source, "partition": 1, "next_offset": 5, "lag": 0},
    ]
    (wrote,) = found["wrote"]
    assert (wrote["topic"], wrote["partition"], wrote["first_offset"] == wrote["last_offset"]) == (
        worker.target,
        1,
        True,
    )


def test_for_people(worker: Worker) -> None:
    worker.read_to(3, 7)
    (line,) = [line.split() for line in worker.shown("list").splitlines() if worker.prefix in line]
    committed = line.pop(3)
    assert committed == worker.value()["committed_at"]
    assert line == [worker.prefix, "producer", "7", worker.source, worker.target, "2"]
    described = worker.shown("describe", worker.prefix)
    for told in (
        worker.prefix,
        "the-query, the-run",
        f"{worker.source}-0",
        f"{worker.target}-1",
        "nothing of it is open",
    ):
        assert told in described


def test_what_the_log_has_no_more_is_no_lag(worker: Worker) -> None:
    """Of five offsets one was read, and four are three are gone, which leaves two."""
    worker.read_to(1, 6)
    delete_records(worker.servers, worker.source, 0, 3)
    read, other = worker.value()["reads"]
    assert (read["next_offset"], read["lag"], other["lag"]) == (1, 2, 0)
    delete_records(worker.servers, worker.source, 0, 5)
    assert worker.value()["lag"] == 0


def test_markers_and_aborted_rows_are_no_lag(worker: Worker) -> None:
    """The source ends in them: a query that has read its last record rests."""
    with worker.cluster.producer(f"{worker.prefix}-source") as producer:
        for value, ended in (("one", True), ("lost", False), ("two", True)):
            with producer.transaction() as txn:
                txn.send(worker.source, pa.table({"value": [value], "partition": pa.array([0], pa.int32())}))
                if not ended:
                    txn.abort()
    worker.read_to(5, 6)  # five plain records, then three transactions of a record and a marker
    assert [row["lag"] for row in worker.value()["reads"]] == [2, 0]
    worker.read_to(6, 7)
    assert [row["lag"] for row in worker.value()["reads"]] == [1, 0]
    worker.read_to(10, 8)  # at the marker
    assert [row["lag"] for row in worker.value()["reads"]] == [0, 0]


def test_a_source_that_is_gone_is_said(worker: Worker) -> None:
    worker.read_to(3, 7)
    delete(worker.servers, worker.source)
    assert [row["lag"] for row in worker.value()["reads"]] == [None, None]
    assert "gone" in worker.shown("describe", worker.prefix)


def test_a_source_that_was_created_again_has_no_lag(worker: Worker) -> None:
    """Its offsets are another topic's."""
    worker.read_to(3, 7)
    delete(worker.servers, worker.source)
    topics.create(worker.servers, worker.source, 2)
    assert [row["lag"] for row in worker.value()["reads"]] == [None, None]
    assert "created again" in worker.shown("describe", worker.prefix)


def test_a_prefix_that_has_written_nothing(worker: Worker) -> None:
    worker.read_to(3, 7)
    with pytest.raises(ConfigError) as refused:
        worker.shown("describe", "nobody")
    assert refused.value.tag == "UNKNOWN_PREFIX"
    with pytest.raises(ConfigError) as refused:
        worker.shown("list", "--progress-topic", "no-such-topic")
    assert refused.value.tag == "UNKNOWN_TOPIC"
    assert "do not make it by hand" in str(refused.value)
