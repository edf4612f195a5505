"""A broker's worker beside Kafka Streams' answers, and the order of rows between the inputs of a task."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from semel.config import ClientConfig
from semel.errors import DataLoss
from semel.streams import App
from semel.streams.topology.node import Sink
from semel.streams.worker.inputs import WorkerInputs
from semel.streams.worker.worker import Worker
from semel.transaction.session import reader
from semel.transaction.session.inputs import each_for_itself
from semel.wire.api.offsets import committed
from semel.wire.client import Client
from tests.streams.oracle.answers import FILE, TABLES, judged, kept, text
from tests.streams.oracle.cases import Case
from tests.streams.oracle.topologies import add, build
from tests.support.topics import create
from tests.support.waiting import wait_for

CASES = 50
Rows = dict[str, list[list[Any]]]


@pytest.fixture
def conf(servers: str, tmp_path: Path) -> dict[str, object]:
    return {"bootstrap.servers": servers, "state.dir": str(tmp_path / "state")}


def by_time(case: Case) -> bool:
    """Return whether a worker takes the records of each task as they were piped: by time, and not beside a topic that
    it writes itself. For the producer a time of 0 is the present.
    """
    if not all(row[3] for row in case["records"]):
        return False
    for part in build(case["steps"]).topology.sub_topologies():
        topics = {source.topic for source in part.sources}
        times = [row[3] for row in case["records"] if row[0] in topics]
        if len(topics) > 1 and (any(source.internal for source in part.sources) or times != sorted(set(times))):
            return False
    return True


def make_topics(servers: str, names: Sequence[str]) -> None:
    topics = [NewTopic(name, 1, 1, config={"retention.ms": "-1"}) for name in names]
    admin = AdminClient({"bootstrap.servers": servers})  # its answers end with it
    for answer in admin.create_topics(topics, request_timeout=120).values():
        answer.result(120)


def fill(servers: str, rows: Sequence[Sequence[Any]]) -> None:
    """Write records: topic, key, value and time of each."""
    producer = Producer({"bootstrap.servers": servers})
    for topic, key, value, time in rows:
        producer.produce(topic, None if value is None else str(value), key=key, timestamp=time)
        producer.poll(0)
    assert producer.flush(60) == 0


def read(servers: str, topics: Sequence[str]) -> Rows:
    """Return the committed rows of topics of one partition, up to their end: key, value and time of each."""
    found: Rows = {name: [] for name in topics}
    consumer = Consumer({"bootstrap.servers": servers, "group.id": str(uuid.uuid4()), "enable.partition.eof": True})
    consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING) for name in topics])
    left = set(topics)
    while left:
        message = consumer.poll(30)
        assert message is not None, f"no end of {left}"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            left.discard(message.topic())
        else:
            row = [text(message.key()), text(message.value()), message.timestamp()[1]]
            found[message.topic()].append(row)
    consumer.close()
    return found


def work(app: App, servers: str, topics: Sequence[str], rows: int) -> None:
    """Run a worker until there are so many rows in these topics, and everything is committed."""
    with Worker(app) as worker:

        def done() -> bool:
            return not worker.step() and sum(map(len, read(servers, topics).values())) >= rows

        wait_for(done, "the output", 120)


@pytest.mark.parametrize("count", [16, pytest.param(CASES, marks=pytest.mark.exhaustive)])
def test_topologies_answer_on_a_broker_as_kafka_streams_does(servers: str, conf: dict[str, object], count: int) -> None:
    """All are parts of one application, so that they share a start."""
    fitting, tables = (
        [one for one in kept(file) if len(one["topics"]) + len(one["changelogs"]) < 4 and by_time(one)]
        for file in (FILE, TABLES)
    )
    joined = [one for one in fitting if any(part.joined for part in build(one["steps"]).topology.sub_topologies())]
    of_tables = [one for one in tables if not re.search("session|sliding|meet", str(one["steps"]))]
    cases = [*joined[: count // 2], *fitting[: count // 2], *of_tables[: count // 5]]
    app = App(f"answers{count}", **{**conf, "statestore.cache.max.bytes": 0})
    expected: Rows = {}
    newest: Rows = {}
    for number, one in enumerate(cases):
        prefix = f"c{count}-{number}-"
        add(app, one["steps"], prefix)
        answers = judged(one)
        expected |= {prefix + name: rows for name, rows in answers["topics"].items()}
        newest |= {
            name.replace("app-", f"answers{count}-{prefix}", 1): rows for name, rows in answers["changelogs"].items()
        }
    outside = [node for node in app.topology.nodes if isinstance(node, Sink) and not node.internal]
    inputs = {source.topic for part in app.topology.sub_topologies() for source in part.sources if not source.internal}
    make_topics(servers, sorted(inputs | {sink.topic for sink in outside}))
    rows = [(f"c{count}-{number}-{row[0]}", *row[1:]) for number, one in enumerate(cases) for row in one["records"]]
    fill(servers, rows)
    work(app, servers, sorted(expected), sum(map(len, expected.values())))
    assert read(servers, sorted(expected)) == expected
    for name, changes in read(servers, sorted(newest)).items():
        there = {key: [key, value, time] for key, value, time in changes}
        assert sorted(row for row in there.values() if row[1] is not None) == sorted(newest[name]), name


def joining(name: str, conf: dict[str, object], **more: object) -> tuple[App, str, str, str]:
    app = App(name, **{**conf, **more})
    table = app.table(f"{name}-table", key="string", value="json", name="table")
    stream = app.stream(f"{name}-stream", key="string", value="json")
    stream.left_join(table, lambda value, partner: partner).to(f"{name}-out")
    return app, f"{name}-stream", f"{name}-table", f"{name}-out"


@pytest.mark.parametrize("control", [False, True])
def test_a_table_that_is_older_than_the_stream_is_read_first(
    servers: str, conf: dict[str, object], monkeypatch: pytest.MonkeyPatch, control: bool
) -> None:
    """In the control each partition is handed out by itself."""
    if control:
        monkeypatch.setattr(WorkerInputs, "task", lambda _, partition: each_for_itself(partition))
    app, stream, table, out = joining(f"older-{control}", conf)
    for name in (stream, table, out):
        create(servers, name, 1, retention_ms="-1")
    fill(servers, [(stream, f"k{number % 500}", number, 200_000 + number) for number in range(5_000)])
    fill(servers, [(table, f"k{number}", 1, 100_000) for number in range(500)])
    work(app, servers, [out], 5_000)
    partners = [value for _, value, _ in read(servers, [out])[out]]
    assert (partners.count("1") == 5_000) is not control


def test_an_idle_input_is_waited_for_as_long_as_it_is_asked(servers: str, conf: dict[str, object]) -> None:
    app, stream, table, out = joining("idle-input", conf, **{"max.task.idle.ms": "600000"})
    for name in (stream, table, out):
        create(servers, name, 1, retention_ms="-1")
    fill(servers, [(stream, "k", 1, 20)])
    with Worker(app) as worker:
        assert not any(worker.step() for _ in range(20))
        fill(servers, [(table, "k", 7, 10), (table, "other", 7, 30)])
        wait_for(worker.step, "the row of the table", 60)
        wait_for(lambda: not worker.step() and read(servers, [out])[out], "the join", 60)
    assert read(servers, [out])[out] == [["k", "7", 20]]


def test_a_topic_that_is_made_again_while_its_rows_wait_is_no_place_to_commit_to(
    servers: str, conf: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the old topic wait for the other input. Their position in the new topic would pass over its rows."""
    monkeypatch.setattr(reader, "_HELD_S", 0.0)
    waits = {"max.task.idle.ms": 600_000, "max.poll.records": 5, "commit.interval.ms": 1}
    app = App("again", **{**conf, **waits})
    app.stream("again-a", key="string", value="string").merge(app.stream("again-b", key="string", value="string")).to(
        "again-out"
    )
    for name in ("again-a", "again-b", "again-out"):
        create(servers, name, 1, retention_ms="-1")
    fill(servers, [("again-a", "k", f"old {number}", 1_000 + number) for number in range(40)])
    admin = AdminClient({"bootstrap.servers": servers})
    with Worker(app) as worker:
        session = worker._session

        def held_back() -> bool:
            worker.step()
            return session._reader is not None and bool(session._reader.held)

        wait_for(held_back, "rows that wait", 60)
        admin.delete_topics(["again-a"])["again-a"].result(60)
        wait_for(lambda: "again-a" not in admin.list_topics(timeout=30).topics, "that it is gone", 60)
        create(servers, "again-a", 1, retention_ms="-1")
        fill(servers, [("again-a", "k", f"new {number}", 9_000 + number) for number in range(500)])
        fill(servers, [("again-b", "k", "other", 5_000)])
        with pytest.raises(DataLoss, match="deleted and created again"):
            wait_for(lambda: worker.step() and False, "that it stops", 60)
    assert read(servers, ["again-out"])["again-out"] == []
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        assert committed(client, "again", [("again-a", 0)], require_stable=True) == {}
