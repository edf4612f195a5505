"""Streaming queries that start at the committed progress of a prefix, or at a group's offsets."""

from __future__ import annotations

import pytest

import semel
from semel.errors import ConfigError, DataLoss, Retriable
from semel.spark.source_offset import TopicOffset, parse
from semel.transaction.producer import Producer
from semel.transaction.progress.record import KafkaSource, Progress, TopicEnd
from semel.transaction.progress.topic import ProgressTopic
from semel.wire.client import Client
from tests.read.support.source_readers import Start, topic_numbers
from tests.read.support.source_runs import add, numbers, texts
from tests.support.other_client import (
    Transactional,
    delete,
    topic_id,
)
from tests.support.topics import create


@pytest.fixture
def topic() -> str:
    return f"source-{next(topic_numbers)}"


# ---- startingOffsets=committed


def committed_run(
    servers: str, client: Client, prefix: str, topic: str, end: dict[int, int], *, named: str | None = None
) -> None:
    """What a sink leaves behind: progress of a query that has read so far."""
    committed_source(client, prefix, {topic: TopicEnd(named or topic_id(client, topic), end)})


def committed_source(client: Client, prefix: str, *topics: dict[str, TopicEnd]) -> None:
    sources = tuple(KafkaSource(client.cluster, ends) for ends in topics)
    progress = Progress(query="q", run="r", batch=3, sources=sources)
    producer = Producer(client, prefix, scope="query")
    producer.take_over()
    with producer.transaction() as txn:
        txn.commit(progress)
    producer.close()


def test_committed_is_the_progress_of_the_prefix(servers: str, client: Client, topic: str, run: Start) -> None:
    create(servers, topic, 2)
    add(servers, topic, 0, 20, partitions=2)
    committed_run(servers, client, topic, topic, {0: 4})
    query = run([], subscribe=topic, startingOffsets="committed", transactionalIdPrefix=topic)
    assert sorted((p, o) for _, p, o, _ in query.rest()) == [
        *((0, i) for i in range(4, 10)),
        *((1, i) for i in range(10)),
    ]


@pytest.mark.parametrize("is_there", [True, False])
def test_committed_of_a_progress_with_a_topic_that_the_options_leave_out(
    servers: str, client: Client, topic: str, other: str, run: Start, is_there: bool
) -> None:
    """The first batch must have all that the progress has, be it there or not: the sink compares it. The next one has
    it no more.
    """
    committed_source(client, topic, {name: TopicEnd(topic_id(client, name), {0: 4}) for name in (topic, other)})
    if not is_there:
        delete(servers, other)
    options = {"subscribe": topic, "startingOffsets": "committed", "transactionalIdPrefix": topic}
    with pytest.raises(DataLoss, match=rf"\[SEMEL_LEFT_OUT\].*{other}-0 at 4"):
        run([], **options).plan()
    query = run([], **options, failOnDataLoss="false")
    assert numbers(query.batch()) == texts(4, 10)
    left_out = parse(query.log[0]).topics[other]
    assert left_out == TopicOffset(left_out.id, {0: 4}, {0: 4})
    assert query.batch() == []
    assert parse(query.log[-1]).topics.keys() == {topic}


def test_committed_goes_by_the_lowest_of_two_sources(servers: str, client: Client, topic: str, run: Start) -> None:
    create(servers, topic)
    add(servers, topic, 0, 20)
    topic_is = topic_id(client, topic)
    committed_source(client, topic, {topic: TopicEnd(topic_is, {0: 4})}, {topic: TopicEnd(topic_is, {0: 15})})
    query = run([], subscribe=topic, startingOffsets="committed", transactionalIdPrefix=topic)
    assert numbers(query.rest()) == texts(4, 20)


def test_committed_falls_back_to_the_group_and_then_refuses(
    servers: str, client: Client, topic: str, run: Start
) -> None:
    create(servers, topic)
    add(servers, topic, 0, 20)
    options = {"subscribe": topic, "startingOffsets": "committed", "transactionalIdPrefix": topic}
    with pytest.raises(ConfigError, match=r"\[SEMEL_NOTHING_COMMITTED\] transactionalIdPrefix"):
        run([], **options).plan()
    with pytest.raises(ConfigError, match=r"\[SEMEL_NOTHING_COMMITTED\] group"):
        run([], **options, **{"kafka.group.id": topic}).plan()
    with (
        semel.Cluster({"bootstrap.servers": servers}) as cluster,
        cluster.producer(f"{topic}-p") as producer,
        producer.transaction() as txn,
    ):
        txn.send_offsets({(topic, 0): 15}, topic)
    assert numbers(run([], **options, **{"kafka.group.id": topic}).rest()) == texts(15, 20)
    committed_run(servers, client, topic, topic, {0: 17})
    assert numbers(run([], **options, **{"kafka.group.id": topic}).rest()) == texts(17, 20), (
        "progress goes before the group"
    )


def test_committed_progress_of_a_topic_that_was_created_anew(
    servers: str, client: Client, topic: str, run: Start
) -> None:
    create(servers, topic)
    add(servers, topic, 0, 20)
    committed_run(servers, client, topic, topic, {0: 4}, named="AAAAAAAAAAAAAAAAAAAAAA")
    options = {"subscribe": topic, "startingOffsets": "committed", "transactionalIdPrefix": topic}
    with pytest.raises(DataLoss, match="created again"):
        run([], **options).plan()
    assert numbers(run([], **options, failOnDataLoss=False).rest()) == texts(0, 20)


def test_committed_waits_until_every_record_of_the_prefix_is_settled(
    servers: str, client: Client, topic: str, run: Start
) -> None:
    create(servers, topic)
    add(servers, topic, 0, 20)
    committed_run(servers, client, topic, topic, {0: 4})
    at = TopicEnd(topic_id(client, topic), {0: 9})
    newer = Progress(query="q", run="r", batch=4, sources=(KafkaSource(client.cluster, {topic: at}),))
    where = ProgressTopic(client, topic, "query")
    writer = Transactional(servers, topic)
    writer.write(where.name, [{"key": where.key, "value": newer.encode(), "partition": where.partition[1]}])
    options = {"subscribe": topic, "startingOffsets": "committed", "transactionalIdPrefix": topic}
    with pytest.raises(Retriable, match=r"\[SEMEL_PROGRESS_OPEN\]"):
        run([], **options, **{"kafka.default.api.timeout.ms": 1_000}).plan()
    writer.end(commit=True)
    assert numbers(run([], **options).rest()) == texts(9, 20)


def test_committed_under_a_prefix_that_was_taken_over_is_refused(
    servers: str, client: Client, topic: str, run: Start
) -> None:
    create(servers, topic)
    with Producer(client, topic, scope="query") as producer, producer.transaction() as txn:
        txn.commit(Progress(moved="successor"))
    with pytest.raises(ConfigError, match=r"\[SEMEL_PREFIX_MOVED\].*successor"):
        run([], subscribe=topic, startingOffsets="committed", transactionalIdPrefix=topic).plan()
