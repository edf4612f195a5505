"""``semel progress reset``: as an owner, shown before it is done, and whole or not at all, whatever strikes in
between.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from confluent_kafka import Producer
from typer.testing import CliRunner, Result

import semel
from semel import cli
from semel.config import ClientConfig
from semel.errors import ConfigError, Fenced, SemelError
from semel.read import id_text
from semel.steps import OwnerStep
from semel.transaction.progress.reader import committed_progress
from semel.transaction.progress.record import KafkaSource, Progress, TopicEnd
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.client import Client
from tests.admin.support.killed_commands import STEPS, killing
from tests.read.broker.test_read import clean_often
from tests.spark.support.topics_and_drivers import values
from tests.support import topics
from tests.support.other_client import collect, delete, ranges
from tests.support.waiting import wait_for

_numbers = count(1)
ROW = pa.table({"value": ["one"]})


def logged(servers: str, topic: str) -> list[str]:
    """The values that the log holds, tombstones left out."""
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        rows = collect(client, ranges(client, topic, read_committed=False), read_committed=False)
    return [value.decode() for _, _, _, value in rows if value is not None]


class Worker:
    """Has read a topic of two partitions with ten rows each, and written another."""

    def __init__(self, servers: str, cluster: semel.Cluster) -> None:
        self.servers, self.cluster = servers, cluster
        self.prefix = f"reset-{next(_numbers)}"
        self.source, self.target = (
            topics.create(servers, f"{self.prefix}-{end}", partitions) for end, partitions in (("in", 2), ("out", 1))
        )
        other = Producer({"bootstrap.servers": servers})
        for number in range(20):
            other.produce(self.source, str(number), partition=number % 2)
        assert other.flush(30) == 0

    def at(self, batch: int) -> Progress:
        topic = self.cluster._client.topics({self.source})[self.source]
        source = KafkaSource(self.cluster._client.cluster, {self.source: TopicEnd(id_text(topic.id), {0: 8, 1: 9})})
        return Progress(query="the-query", run="the-run", batch=batch, sources=(source,))

    def commit(self, batch: int, **options: Any) -> None:
        with self.cluster.producer(self.prefix, **options) as producer, producer.transaction() as txn:
            txn.send(self.target, ROW)
            txn.commit(self.at(batch))

    def progress(self, **options: Any) -> Progress | None:
        """As the next owner finds it."""
        kept = options.get("progress_topic", DEFAULT_TOPIC)
        with self.cluster.producer(self.prefix, progress_topic=kept) as producer:
            return producer.take_over()

    def command(self, *arguments: str) -> list[str]:
        return ["progress", "reset", self.prefix, "--bootstrap-server", self.servers, *arguments]

    def reset(self, *arguments: str, answer: str = "") -> Result:
        return CliRunner().invoke(cli.app, self.command(*arguments), input=answer)

    def refused(self, *arguments: str) -> SemelError:
        error = self.reset("--yes", *arguments).exception
        assert isinstance(error, SemelError)
        return error


@pytest.fixture
def worker(servers: str) -> Iterator[Worker]:
    with semel.Cluster({"bootstrap.servers": servers}) as cluster:
        yield Worker(servers, cluster)


def test_it_shows_asks_and_forgets(worker: Worker) -> None:
    worker.commit(7)
    done = worker.reset(answer="y\n")
    assert done.exit_code == 0
    for told in (
        worker.prefix,
        "the-query, the-run",
        f"{worker.source}-0",
        f"{worker.target}-0",
        "begins as if it had never written",
        "Forget it?",
    ):
        assert told in done.output
    assert worker.progress() is None
    with Client(ClientConfig.parse({"bootstrap.servers": worker.servers})) as client:
        assert committed_progress(client, worker.prefix, scope="producer") is None
    listed = CliRunner().invoke(cli.app, ["progress", "list", "--bootstrap-server", worker.servers]).output
    assert not [line for line in listed.splitlines() if worker.prefix in line.split()]
    refused = worker.refused()
    assert refused.tag == "UNKNOWN_PREFIX"
    assert "starts over" in refused.message
    worker.commit(0)
    assert worker.progress() == Progress(**{**_fields(worker.at(0)), "wrote": {worker.target: {0: (2, 2)}}})
    assert values(worker.servers, worker.target) == ["one", "one"], "what was written stays"


def _fields(progress: Progress) -> dict[str, Any]:
    return {name: getattr(progress, name) for name in Progress.__dataclass_fields__}


def test_whoever_runs_is_fenced_and_with_no_nothing_is_forgotten(worker: Worker) -> None:
    with worker.cluster.producer(worker.prefix) as running:
        with running.transaction() as txn:
            txn.send(worker.target, ROW)
            txn.commit(worker.at(7))
        done = worker.reset(answer="n\n")
        assert done.exit_code == 1
        assert "Nothing was changed" in done.output
        with pytest.raises(Fenced), running.transaction() as txn:
            txn.send(worker.target, ROW)
    found = worker.progress()
    assert found is not None
    assert found.batch == 7


def test_another_owner_that_comes_while_it_asks_keeps_its_progress(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.commit(7)

    def meanwhile(_: str, *, abort: bool) -> bool:
        assert abort
        worker.commit(8)
        return True

    monkeypatch.setattr(typer, "confirm", meanwhile)
    assert isinstance(worker.reset().exception, Fenced)
    found = worker.progress()
    assert found is not None
    assert found.batch == 8


def test_progress_that_somebody_else_sets_while_it_asks_is_kept_where_it_was_lost(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"progress_topic": f"{worker.prefix}-progress"}
    worker.commit(7, **own)
    delete(worker.servers, own["progress_topic"])
    lost = ("--scope", "producer", "--progress-topic", own["progress_topic"])

    def meanwhile(_: str, *, abort: bool) -> bool:
        assert abort
        subprocess.run(
            [sys.executable, "-c", "from semel.cli import main; main()", *worker.command(*lost, "--yes")],
            check=True,
            capture_output=True,
        )
        worker.commit(8, **own)
        return True

    monkeypatch.setattr(typer, "confirm", meanwhile)
    assert isinstance(error := worker.reset(*lost).exception, ConfigError)
    assert error.tag == "NO_LONGER_LOST"
    found = worker.progress(**own)
    assert found is not None
    assert found.batch == 8


def test_killed_at_every_step_it_is_forgotten_or_as_it_was(worker: Worker, tmp_path: Path) -> None:
    with killing(tmp_path) as kill:
        for batch, step in enumerate(STEPS):
            worker.commit(batch)
            kill(step, worker.command("--yes"))
            found = worker.progress()
            if STEPS.index(step) < STEPS.index(OwnerStep.COMMIT_SENT):
                assert found is not None, step
                assert found.batch == batch
            elif step is not OwnerStep.COMMIT_SENT:  # whether what was sent had arrived, nobody knows
                assert found is None, step
    assert values(worker.servers, worker.target) == ["one"] * len(STEPS)


def test_killed_at_every_step_what_was_lost_stays_refused_until_it_is_set(worker: Worker, tmp_path: Path) -> None:
    """Whoever starts behind it, or beside it, must not find in what it has left that nothing is missing."""
    prefix, to = worker.prefix, json.dumps({worker.source: {"0": 8, "1": 9}})
    with killing(tmp_path) as kill:
        for step in STEPS:
            worker.prefix = f"{prefix}-{step.name}"
            own = {"progress_topic": f"{worker.prefix}-progress"}
            worker.commit(7, **own)
            delete(worker.servers, own["progress_topic"])
            command = worker.command(
                "--yes", "--scope", "producer", "--progress-topic", own["progress_topic"], "--to-offsets", to
            )
            kill(step, command)
            if STEPS.index(step) < STEPS.index(OwnerStep.COMMIT_SENT):
                for _ in range(2):
                    with pytest.raises(semel.DataLoss, match="PROGRESS_LOST"):
                        worker.progress(**own)
            if step is not OwnerStep.COMMIT_SENT:  # whether what was sent had arrived, nobody knows
                assert CliRunner().invoke(cli.app, command).exit_code == 0, step
                found = worker.progress(**own)
                assert found is not None, step
                assert found.sources == worker.at(7).sources


def test_compaction_takes_what_was_forgotten_and_never_brings_it_back(worker: Worker) -> None:
    own = {"progress_topic": f"{worker.prefix}-progress"}
    often: dict[str, Any] = {
        "cleanup_policy": "compact",
        "segment_ms": "100",
        "min_cleanable_dirty_ratio": "0.0001",
        "delete_retention_ms": "0",
    }
    topics.create(worker.servers, own["progress_topic"], 16, **often)
    clean_often(worker.servers)
    worker.commit(7, **own)
    assert worker.reset("--yes", "--progress-topic", own["progress_topic"]).exit_code == 0

    def kept() -> list[str]:
        assert worker.progress(**own) is None  # its claim rolls the segment too
        return [text for text in logged(worker.servers, own["progress_topic"]) if "the-query" in text]

    wait_for(lambda: not kept(), "compaction")
    assert worker.progress(**own) is None


def test_it_is_set_to_other_offsets(worker: Worker) -> None:
    worker.commit(7)
    done = worker.reset("--to-offsets", json.dumps({worker.source: {"0": 3, "1": -2}}), answer="y\n")
    assert done.exit_code == 0, done.output
    assert [
        line.split()
        for line in done.output.splitlines()
        if line.startswith(f"  {worker.source}") and len(line.split()) == 3
    ][-2:] == [
        [f"{worker.source}-0", "8", "3"],
        [f"{worker.source}-1", "9", "0"],
    ]
    found = worker.progress()
    assert found is not None
    assert (found.query, found.batch, found.forgotten) == (None, None, False)
    (source,) = found.sources
    assert isinstance(source, KafkaSource)
    topic = worker.cluster._client.topics({worker.source})[worker.source]
    assert source.topics == {worker.source: TopicEnd(id_text(topic.id), {0: 3, 1: 0})}


def test_it_is_set_where_there_was_none(worker: Worker) -> None:
    """As for a query that comes from another sink, with the offsets that it had there."""
    offsets = json.dumps({worker.source: {"0": 3, "1": 4}})
    assert worker.reset("--yes", "--to-offsets", offsets, "--scope", "producer").exit_code == 0
    done = worker.reset("--yes", "--json", "--to-offsets", offsets)
    told = json.loads(done.output)
    assert (told["before"]["scope"], told["before"]["reads"]) == (
        "producer",
        [{"topic": worker.source, "partition": index, "next_offset": 3 + index, "lag": None} for index in (0, 1)],
    )


@pytest.mark.parametrize(
    ("offsets", "tag"),
    [
        ({"0": 3}, "CONFIG"),
        ({"0": 3, "1": 4, "2": 5}, "CONFIG"),
        ({"0": 3, "1": 11}, "NO_SUCH_OFFSET"),
        ({"0": 3, "1": "4"}, "POSITION"),
    ],
)
def test_offsets_that_are_not_there_are_refused(worker: Worker, offsets: dict[str, Any], tag: str) -> None:
    worker.commit(7)
    assert worker.refused("--to-offsets", json.dumps({worker.source: offsets})).tag == tag
    found = worker.progress()
    assert found is not None
    assert found.batch == 7


def test_offsets_of_what_it_does_not_read_are_refused(worker: Worker) -> None:
    worker.commit(7)
    refused = worker.refused("--to-offsets", json.dumps({worker.target: {"0": 0}}))
    assert refused.tag == "UNKNOWN_TOPIC"
    assert worker.source in refused.message


def test_of_several_scopes_one_is_named(worker: Worker) -> None:
    worker.commit(7)
    offsets = json.dumps({worker.source: {"0": 3, "1": 4}})
    assert worker.reset("--yes", "--to-offsets", offsets, "--scope", "query").exit_code == 0
    assert worker.refused().tag == "SEVERAL_SCOPES"
    assert worker.reset("--yes", "--scope", "query").exit_code == 0
    found = worker.progress()
    assert found is not None
    assert found.batch == 7


def test_nothing_to_forget_fences_nobody(worker: Worker) -> None:
    with worker.cluster.producer(worker.prefix) as running:
        running.take_over()
        assert isinstance(error := worker.refused(), ConfigError)
        assert error.tag == "UNKNOWN_PREFIX"
        with running.transaction() as txn:
            txn.send(worker.target, ROW)
    assert worker.reset("--json").exit_code == 2  # it would have to ask
