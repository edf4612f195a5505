"""The offsets that a group shows beside an owner's progress: topics that grow, and topics that are gone."""

from __future__ import annotations

import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewPartitions

import semel
import semel.transaction.transaction
from semel.transaction.progress.record import KafkaSource, Progress, TopicEnd
from tests.support.other_client import delete, produce, topic_id
from tests.support.raw_producer import Raw
from tests.support.topics import create
from tests.support.waiting import wait_for

ROWS = pa.table({"value": ["x", "y"], "partition": [0, 0]})


def test_a_topic_that_grows_between_two_transactions(raw: Raw) -> None:
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(raw.id) as producer:
        with producer.transaction() as txn:
            txn.send(raw.topic, ROWS)
        admin = AdminClient({"bootstrap.servers": raw.servers})
        admin.create_partitions([NewPartitions(raw.topic, 6)])[raw.topic].result(30)
        wait_for(lambda: len(raw.client.refresh({raw.topic}).topics[raw.topic].partitions) == 6, "6 partitions")
        with producer.transaction() as txn:
            txn.send(raw.topic, pa.table({"key": [f"k{i}" for i in range(100)], "value": ["grown"] * 100}))
        assert sum(wrote.records for wrote in txn.wrote.values()) == 100
        assert len(txn.wrote) > 1


def test_a_group_shows_what_there_is_though_a_source_topic_is_gone(raw: Raw) -> None:
    gone = create(raw.servers, f"{raw.topic}-gone")
    for topic in (raw.topic, gone):
        produce(raw.servers, topic, [{"value": b"v"}])
    read = {name: TopicEnd(topic_id(raw.client, name), {0: 1}) for name in (raw.topic, gone)}
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster:
        with cluster.producer(raw.id) as producer, producer.transaction() as txn:
            txn.commit(Progress(batch=0, sources=(KafkaSource(raw.client.cluster, read),)))
        delete(raw.servers, gone)
        with cluster.producer(raw.id) as producer:
            producer.take_over([], raw.group)
    assert raw.group_offset() == 1


def test_offsets_of_a_topic_that_is_gone_hold_nobody_up(raw: Raw) -> None:
    """The record before names it: where the next owner looks for what may be pending, there is nothing any more."""
    gone = create(raw.servers, f"{raw.topic}-gone")
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster:
        with cluster.producer(raw.id) as producer, producer.transaction() as txn:
            txn.send_offsets({(gone, 0): 1}, raw.group)
        delete(raw.servers, gone)
        with cluster.producer(raw.id) as producer:
            for offset in (1, 2):
                with producer.transaction() as txn:
                    txn.send_offsets({(raw.topic, 0): offset}, raw.group)
            progress = producer.progress
    assert progress is not None
    assert progress.groups == {raw.group: {raw.topic: (0,)}}, "what has been looked at is not handed on"
    assert raw.group_offset() == 2


def test_of_several_sources_that_read_one_partition_the_group_shows_the_lowest(raw: Raw) -> None:
    produce(raw.servers, raw.topic, [{"value": b"v"}] * 9)
    ident = topic_id(raw.client, raw.topic)
    ends = (
        TopicEnd(ident, {0: 7}),
        TopicEnd(ident, {0: 4}),
        TopicEnd(ident, {0: 9}),
    )
    sources = tuple(KafkaSource(raw.client.cluster, {raw.topic: end}) for end in ends)
    with semel.Cluster({"bootstrap.servers": raw.servers}) as cluster:
        with cluster.producer(raw.id) as producer, producer.transaction() as txn:
            txn.commit(Progress(batch=0, sources=sources))
        with cluster.producer(raw.id) as producer:
            producer.take_over([], raw.group)
    assert raw.group_offset() == 4
