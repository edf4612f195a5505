"""The API families against a real broker: what is asked, and what comes back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Consumer

from semel.cluster import Cluster
from semel.config import ClientConfig
from semel.errors import ConfigError, Fenced, Retriable, Unsupported
from semel.sandbox import Sandbox
from semel.transaction.output_topics import describe_output_topics, non_transactional_tickets
from semel.transaction.participant import Participant
from semel.wire.api import topics
from semel.wire.api.describe_transactions import describe, list_transactions, open_transactions
from semel.wire.api.offsets import EARLIEST, LATEST, committed, end_of_epoch, list_offsets, live_members
from semel.wire.api.transactions import fence
from semel.wire.client import Client
from semel.wire.metadata import Metadata
from semel.wire.metadata_cache import newest_leaders
from semel.wire.target import ANY
from tests.support.topics import create

ROWS = pa.table({"value": ["a", "b", "c"]})


@pytest.fixture
def cluster(kafka: Sandbox) -> Iterator[Cluster]:
    with Cluster({"bootstrap.servers": kafka.bootstrap_servers}) as cluster:
        yield cluster


@pytest.fixture
def topic(kafka: Sandbox) -> str:
    return create(kafka.bootstrap_servers, f"wire-{uuid4()}", 2)


def unreachable(**properties: str) -> Client:
    return Client(
        ClientConfig.parse({"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "300", **properties})
    )


def test_an_unreachable_broker_ends_within_its_timeout_and_is_named() -> None:
    with unreachable() as client, pytest.raises(Retriable, match=r"127\.0\.0\.1:1 could not be reached"):
        client.refresh(None)


def test_metadata_names_cluster_topics_and_leaders(kafka: Sandbox, client: Client, topic: str) -> None:
    found = client.topics({topic})[topic]
    assert client.cluster == kafka.cluster_id
    assert sorted(found.partitions) == [0, 1]
    assert {p.leader for p in found.partitions.values()} == set(client.brokers())
    assert found.id.int != 0


def test_a_missing_topic_is_refused_by_name(client: Client) -> None:
    with pytest.raises(ConfigError, match="no-such-topic does not exist"):
        client.topics({"no-such-topic"})


def test_a_partition_that_is_not_there_is_refused(client: Client, topic: str) -> None:
    with pytest.raises(ConfigError, match="has no partition 7"):
        list_offsets(client, {(topic, 7): LATEST}, read_committed=False)


def test_the_newest_leader_has_the_highest_epoch(client: Client, topic: str) -> None:
    leaders = newest_leaders(client, [(topic, 0), (topic, 1)])
    assert all(node in client.brokers() and epoch >= 0 for node, epoch in leaders.values())


def test_topics_are_created_once_and_described(client: Client) -> None:
    name = f"made-{uuid4()}"
    config = {"cleanup.policy": "compact", "max.message.bytes": "12345"}
    assert topics.create(client, name, partitions=3, config=config)
    assert not topics.create(client, name, partitions=3, config=config)
    assert len(client.topics({name})[name].partitions) == 3
    assert topics.topic_config(client, name, config.keys()) == config


def test_a_setting_of_the_broker_is_read(client: Client) -> None:
    told = topics.broker_config(client, ["transaction.max.timeout.ms"])
    assert int(told["transaction.max.timeout.ms"] or 0) > 0


def test_offsets_by_position_and_time(client: Client, cluster: Cluster, topic: str) -> None:
    with cluster.producer(f"offsets-{uuid4()}") as producer, producer.transaction() as txn:
        txn.send(
            topic,
            ROWS.append_column("partition", pa.array([0, 0, 0])).append_column(
                "timestamp", pa.array([1000, 2000, 3000])
            ),
        )
    producer.wait_visible()
    at = {name: list_offsets(client, {(topic, 0): spec}, read_committed=True)[topic, 0] for name, spec in TIMES.items()}
    assert {name: found.offset for name, found in at.items()} == {"earliest": 0, "1500": 1, "2100": -1, "latest": 4}
    assert at["1500"].timestamp == 2000


TIMES = {"earliest": EARLIEST, "1500": 1500, "2100": 4_102_444_800_000, "latest": LATEST}


def test_where_a_leader_epoch_ends(client: Client, topic: str) -> None:
    epoch = newest_leaders(client, [(topic, 0)])[topic, 0][1]
    assert end_of_epoch(client, {(topic, 0): epoch})[topic, 0] == (epoch, 0)


def test_transactions_are_listed_described_and_fenced(client: Client, cluster: Cluster, topic: str) -> None:
    id = f"described-{uuid4()}"
    assert describe(client, id) is None
    producer = cluster.producer(id)
    txn = producer.transaction()
    txn.send(topic, ROWS)
    told = describe(client, id)
    assert told is not None
    assert told.state == "Ongoing"
    assert len({(topic, 0), (topic, 1)} & set(told.partitions)) == 1, "the one that the row went to"
    assert list_transactions(client, ["Ongoing"])[id] == "Ongoing"
    opened = [o for row in open_transactions(client, [(topic, 0), (topic, 1)]).values() for o in row]
    assert [(o.producer_id, o.epoch, o.start_offset) for o in opened] == [(told.producer_id, told.epoch, 0)]
    assert fence(client, id).epoch > told.epoch
    with pytest.raises(Fenced, match="not committed"):
        txn.commit()


def test_a_group_shows_its_offsets_and_its_members(
    kafka: Sandbox, client: Client, cluster: Cluster, topic: str
) -> None:
    group = f"group-{uuid4()}"
    assert committed(client, group, [(topic, 0)], require_stable=True) == {}
    assert live_members(client, group) == []
    with cluster.producer(f"offsets-{uuid4()}") as producer, producer.transaction() as txn:
        txn.send_offsets({(topic, 0): 5}, group)
    assert committed(client, group, [(topic, 0), (topic, 1)], require_stable=True) == {(topic, 0): 5}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_live_members_of_either_protocol_are_seen(
    kafka: Sandbox, client: Client, cluster: Cluster, topic: str, protocol: str
) -> None:
    group = f"live-{uuid4()}"
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "somebody",
        }
    )
    try:
        consumer.subscribe([topic])
        for _ in range(200):
            if consumer.poll(0.1) is None and consumer.assignment():
                break
        assert consumer.assignment(), "the consumer never joined"
        assert live_members(client, group)
        with pytest.raises(ConfigError, match="has live members"):
            cluster.producer(f"reserved-{uuid4()}").take_over([topic], group)
    finally:
        consumer.close()


def test_a_cluster_without_the_feature_is_refused_with_the_command() -> None:
    with Sandbox.start(features={"transaction.version": 1}) as old:
        with (
            Cluster({"bootstrap.servers": old.bootstrap_servers}) as cluster,
            pytest.raises(Unsupported, match=r"--feature transaction\.version=2"),
        ):
            cluster.producer("refused").take_over()
        with Client(ClientConfig.parse({"bootstrap.servers": old.bootstrap_servers})) as client:
            assert client.connect(ANY).versions.features["transaction.version"] == 1


def test_nothing_is_left_where_a_transaction_has_nothing_in_it(client: Client, cluster: Cluster) -> None:
    with cluster.producer(f"nothing-{uuid4()}") as producer:
        with producer.transaction():
            pass
        assert producer.progress is None


def test_an_address_that_is_advertised_and_leads_nowhere_is_named(
    kafka: Sandbox, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bootstrap server answers, and is not to blame."""
    plain = Metadata.read

    def elsewhere(answer: Any) -> Metadata:
        found = plain(answer)
        moved = {node: replace(broker, host="127.0.0.1", port=1) for node, broker in found.brokers.items()}
        return replace(found, brokers=moved)

    monkeypatch.setattr(Metadata, "read", elsewhere)
    with Cluster({"bootstrap.servers": kafka.bootstrap_servers, "default.api.timeout.ms": "500"}) as cluster:
        named = r"127\.0\.0\.1:1 could not be reached.*Broker \d+ advertises that address \(advertised\.listeners\)"
        with pytest.raises(Retriable, match=named):
            cluster.read(topic)


def test_what_does_not_fill_a_request_waits_for_more(client: Client, topic: str) -> None:
    known = describe_output_topics(client, {topic}, client.deadline())
    (ticket,) = non_transactional_tickets([[(topic, 0), (topic, 1)]], known)
    rows = [ROWS.append_column("partition", pa.array([index] * 3, pa.int32())) for index in (0, 1)]

    def ends() -> list[int]:
        listed = list_offsets(client, {(topic, 0): LATEST, (topic, 1): LATEST}, read_committed=False)
        return [listed[topic, index].offset for index in (0, 1)]

    with Participant(client, ticket) as participant:
        participant.write(topic, rows[0], more=True)
        assert ends() == [0, 0], "nothing is sent"
        participant.write(topic, rows[1])
        participant.flush()
        assert ends() == [3, 3]
        for _ in range(2):  # a second batch of a partition has the first one sent
            participant.write(topic, rows[0], more=True)
        participant.write(topic, rows[1], more=True)
        assert {at: wrote.last for at, wrote in participant.receipt.wrote.items()} == {(topic, 0): 8, (topic, 1): 5}
