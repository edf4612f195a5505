"""The least rights of each role, on a broker that allows nothing else; and without each of them: which one is missing,
and nothing committed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext

import pyarrow as pa
import pytest
from confluent_kafka.admin import AclOperation as Do
from confluent_kafka.admin import ResourceType as On
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.streaming.datasource import ReadAllAvailable

import semel
from semel.admin.lag import lags
from semel.errors import ConfigError
from semel.read import id_text
from semel.spark.data_source import SemelDataSource
from semel.spark.source_offset import SourceOffset, TopicOffset, as_dict, parse
from semel.transaction.group_offsets import group_view
from semel.transaction.progress.record import KafkaSource, Progress, TopicEnd
from semel.wire.metadata import TopicPartition
from tests.spark.support.topics_and_drivers import values
from tests.support import topics
from tests.support.secured import Right, SecuredKafka, secured_kafka

#: Who writes: docs/security.md has the same table.
SINK: list[Right] = [
    (On.TRANSACTIONAL_ID, "orders", Do.WRITE),
    (On.TOPIC, "out", Do.WRITE),
    (On.TOPIC, "out", Do.READ),
    (On.TOPIC, "semel-progress", Do.WRITE),
    (On.TOPIC, "semel-progress", Do.READ),
    (On.GROUP, "orders-group", Do.READ),
    (On.TOPIC, "in", Do.READ),
]
SOURCE: list[Right] = [(On.TOPIC, "in", Do.READ)]
#: Without these a sink says what it could not check.
TO_CHECK: list[Right] = [
    (On.TOPIC, "semel-progress", Do.DESCRIBE_CONFIGS),
    (On.BROKER, "kafka-cluster", Do.DESCRIBE_CONFIGS),
]
PASSWORD = "of the application"


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecuredKafka]:
    with secured_kafka() as started:
        servers = started.kafka.bootstrap_servers
        for name in ("in", "out"):
            topics.create(servers, name)
        with (
            semel.Cluster({"bootstrap.servers": servers}) as admin,
            admin.producer("first") as producer,
            producer.transaction() as txn,
        ):
            txn.send("in", pa.table({"value": ["one", "two"]}))
        for user, rights in (("app", SINK), ("reader", SOURCE)):
            started.add_scram_user(user, PASSWORD)
            started.allow(user, rights)
        yield started


def login(cluster: SecuredKafka, user: str) -> semel.Cluster:
    return semel.Cluster(cluster.login("SCRAM-SHA-256", user, PASSWORD))


def run(cluster: SecuredKafka, value: str) -> None:
    """What a sink does: a transaction with rows, offsets and progress; and its successor takes over."""
    with login(cluster, "app") as ours, ours.producer("orders") as producer, producer.transaction() as txn:
        txn.send("out", pa.table({"value": [value]}))
        txn.send_offsets({("in", 0): 1}, group="orders-group")


@contextmanager
def without(cluster: SecuredKafka, right: Right, user: str = "app") -> Iterator[None]:
    cluster.withdraw(user, right)
    yield
    cluster.allow(user, [right])


def test_with_its_rights_a_sink_works(cluster: SecuredKafka) -> None:
    run(cluster, "first")
    run(cluster, "second")
    assert values(cluster.kafka.bootstrap_servers, "out")[-2:] == ["first", "second"]


@pytest.mark.parametrize("right", SINK, ids=lambda right: f"{right[0].name}-{right[1]}-{right[2].name}")
def test_each_right_that_a_sink_lacks_is_named(cluster: SecuredKafka, right: Right) -> None:
    before = values(cluster.kafka.bootstrap_servers, "out")
    with without(cluster, right), pytest.raises(ConfigError) as refused:
        run(cluster, "never")
    assert right[1] in refused.value.message
    assert right[2].name.capitalize() in refused.value.message.partition("the right ")[2]
    assert values(cluster.kafka.bootstrap_servers, "out") == before
    run(cluster, "afterwards")


def test_what_a_sink_may_not_look_at_is_said_and_with_the_right_it_looks(
    cluster: SecuredKafka, caplog: pytest.LogCaptureFixture
) -> None:
    run(cluster, "unchecked")
    unchecked = [record.message for record in caplog.records if "not checked" in record.message]
    assert len(unchecked) == len(TO_CHECK)
    assert all("the right DescribeConfigs on the" in message for message in unchecked)
    cluster.allow("app", TO_CHECK)
    caplog.clear()
    run(cluster, "checked")
    assert not [record for record in caplog.records if "not checked" in record.message]


def test_a_progress_topic_that_may_not_be_created_is_named(cluster: SecuredKafka) -> None:
    """Where it is not there yet: by whoever has Create on it, or by hand."""
    own = "progress-of-app"
    cluster.allow(
        "app", [(On.TOPIC, own, Do.WRITE), (On.TOPIC, own, Do.READ), (On.TRANSACTIONAL_ID, "new-orders", Do.WRITE)]
    )

    def take_over() -> None:
        with login(cluster, "app") as ours, ours.producer("new-orders", progress_topic=own) as producer:
            producer.take_over()

    with pytest.raises(
        ConfigError, match=rf"'{own}' is missing.*the right Create on the topic.*kafka-topics\.sh .*--topic {own}"
    ):
        take_over()
    cluster.allow("app", [(On.TOPIC, own, Do.CREATE)])
    take_over()


def test_with_its_right_a_source_reads(cluster: SecuredKafka) -> None:
    with login(cluster, "reader") as ours:
        assert sum(batch.num_rows for batch in ours.read("in")) == 2
        with pytest.raises(ConfigError, match=r"topic out.*the right Describe on the topic"):
            ours.read("out")


def test_the_right_that_a_source_lacks_is_named(cluster: SecuredKafka) -> None:
    with (
        without(cluster, SOURCE[0], "reader"),
        login(cluster, "reader") as ours,
        pytest.raises(ConfigError, match=r"topic in.*is missing"),
    ):
        ours.read("in")


def test_a_right_that_is_withdrawn_while_a_query_runs_stops_it(cluster: SecuredKafka) -> None:
    """Between two transactions: the second is refused, the first stays."""
    before = values(cluster.kafka.bootstrap_servers, "out")
    with login(cluster, "app") as ours, ours.producer("orders") as producer:
        with producer.transaction() as txn:
            txn.send("out", pa.table({"value": ["one"]}))
        with (
            without(cluster, SINK[1]),
            pytest.raises(ConfigError, match=r"out-0.*the right Write"),
            producer.transaction() as txn,
        ):
            txn.send("out", pa.table({"value": ["two"]}))
        with producer.transaction() as txn:
            txn.send("out", pa.table({"value": ["three"]}))
    assert values(cluster.kafka.bootstrap_servers, "out") == [*before, "one", "three"]


def test_a_topic_that_the_options_leave_out_needs_no_right_any_more(cluster: SecuredKafka) -> None:
    """Not to plan batches, nor to show the group's offsets or a lag. Control: one that is read does."""
    topics.create(cluster.kafka.bootstrap_servers, "closed")
    with semel.Cluster({"bootstrap.servers": cluster.kafka.bootstrap_servers}) as admin:
        ids = {name: id_text(admin._client.topics({name})[name].id) for name in ("in", "closed")}
    options = {f"kafka.{name}": value for name, value in cluster.login("SCRAM-SHA-256", "reader", PASSWORD).items()}
    source = SemelDataSource(CaseInsensitiveDict({**options, "subscribe": "in", "failOnDataLoss": "false"}))
    reader = source.streamReader(source.schema())

    with login(cluster, "reader") as ours:
        client = ours._client
        start = SourceOffset(client.cluster, {name: TopicOffset(ids[name], {0: 0}, {0: 0}) for name in ids})
        end = parse(json.dumps(reader.latestOffset(as_dict(start), ReadAllAvailable())))
        assert end.topics.keys() == {"in"}
        assert end.topics["in"].end[0] > 0
        for names in (["in"], ["in", "closed"]):
            progress = Progress(sources=(KafkaSource(client.cluster, {n: TopicEnd(ids[n], {0: 0}) for n in names}),))
            looks: list[Callable[[Progress], Mapping[TopicPartition, int]]]
            looks = [lambda seen: group_view(seen, client), lambda seen: lags(client, [seen])[0]]
            for look in looks:
                with pytest.raises(ConfigError, match="topic closed") if "closed" in names else nullcontext():
                    assert look(progress).keys() == {("in", 0)}
    reader.stop()
