"""Where reading starts and ends: each kind of place, on a real broker, with the semantics of Spark's kafka source."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.read import AtOffsets, AtTimestamp, Committed, Earliest, EndSpec, Latest, StartSpec, resolve
from semel.sandbox import Sandbox
from semel.wire.client import Client
from tests.support.other_client import Transactional, delete_records, produce, values
from tests.support.topics import create


@pytest.fixture(scope="module")
def client(kafka: Sandbox) -> Iterator[Client]:
    with Client(ClientConfig.parse({"bootstrap.servers": kafka.bootstrap_servers})) as opened:
        yield opened


@pytest.fixture(scope="module")
def topic(kafka: Sandbox) -> Iterator[str]:
    """Partition 0: offsets 4 to 9 at 1000 ms an offset, then an open transaction at 10 to 12. 1: nothing. 2: one row at
    500 ms.
    """
    servers = kafka.bootstrap_servers
    name = create(servers, "places", 3)
    produce(servers, name, [{"value": b"v", "timestamp": 1000 * i} for i in range(10)])
    produce(servers, name, [{"value": b"v", "timestamp": 500, "partition": 2}])
    delete_records(servers, name, 0, 4)
    one = Transactional(servers, "places")
    one.write(name, values(3, timestamp=50_000))
    yield name
    one.end(commit=False)


def at(
    client: Client, topic: str, spec: StartSpec | EndSpec, *, committed: bool = True, ending: bool = False
) -> list[int]:
    found = resolve(client, [(topic, i) for i in range(3)], spec, read_committed=committed, ending=ending)
    return [found[topic, i] for i in range(3)]


def test_earliest_is_the_first_offset_that_is_left(client: Client, topic: str) -> None:
    assert at(client, topic, Earliest()) == [4, 0, 0]


def test_latest_is_the_last_stable_offset_or_the_high_watermark(client: Client, topic: str) -> None:
    assert at(client, topic, Latest()) == [10, 0, 1]
    assert at(client, topic, Latest(), committed=False) == [13, 0, 1]


def test_offsets_of_each_partition(client: Client, topic: str) -> None:
    assert at(client, topic, AtOffsets({topic: {0: 7, 1: -2, 2: -1}})) == [7, 0, 1]
    assert at(client, topic, AtOffsets({topic: {0: -1, 1: 3, 2: 0}}), committed=False) == [13, 3, 0]


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ({0: 1, 1: 1}, "places-2 have none"),
        ({0: 1, 1: 1, 2: 1, 3: 1}, "places-3 are not read"),
        ({0: 1, 1: 1, 2: -3}, "there is no offset -3"),
    ],
)
def test_offsets_must_name_exactly_the_partitions_that_are_read(
    client: Client, topic: str, offsets: dict[int, int], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        at(client, topic, AtOffsets({topic: offsets}))


def test_reading_cannot_end_at_earliest(client: Client, topic: str) -> None:
    with pytest.raises(ConfigError, match="cannot end at the earliest"):
        at(client, topic, AtOffsets({topic: {0: -2, 1: 0, 2: 0}}), ending=True)


def test_a_time_is_the_first_row_at_or_after_it(client: Client, topic: str) -> None:
    latest = AtTimestamp(500, no_match="latest")
    assert at(client, topic, latest) == [4, 0, 0]
    assert at(client, topic, AtTimestamp(6000, no_match="latest")) == [6, 0, 1]
    assert at(client, topic, AtTimestamp(6001, no_match="latest")) == [7, 0, 1]
    assert at(client, topic, AtTimestamp({topic: {0: 9000, 1: 0, 2: 0}}, no_match="latest")) == [9, 0, 0]


def test_a_time_without_a_row_is_an_error_or_the_latest_offset(client: Client, topic: str) -> None:
    with pytest.raises(
        ConfigError,
        match=r"\[SEMEL_NO_OFFSET_AT_TIMESTAMP\] places-1, places-2 hold no row at or after timestamp 1000 ms",
    ):
        at(client, topic, AtTimestamp(1000))
    assert at(client, topic, AtTimestamp(1000, no_match="latest")) == [4, 0, 1]
    assert at(client, topic, AtTimestamp(1000), ending=True) == [4, 0, 1]


def test_a_time_that_only_open_rows_have_is_the_last_stable_offset(client: Client, topic: str) -> None:
    """Nothing is skipped: those rows are at or behind it."""
    assert at(client, topic, AtTimestamp(40_000, no_match="latest")) == [10, 0, 1]
    assert at(client, topic, AtTimestamp(40_000, no_match="latest"), committed=False) == [10, 0, 1]


@pytest.mark.parametrize("timestamp", [-1, {"places": {0: -2, 1: 0, 2: 0}}])
def test_a_negative_time_is_refused(client: Client, topic: str, timestamp: int | dict[str, dict[int, int]]) -> None:
    """To the broker -1 and -2 would mean latest and earliest."""
    with pytest.raises(ConfigError, match="Nothing was read"):
        at(client, topic, AtTimestamp(timestamp, no_match="latest"))


def test_what_a_group_committed(kafka: Sandbox, client: Client, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "places"})
    consumer.commit(offsets=[TopicPartition(topic, 0, 6), TopicPartition(topic, 1, 0)], asynchronous=False)
    with pytest.raises(
        ConfigError, match=r"\[SEMEL_NOTHING_COMMITTED\] group 'places' has committed no offset for places-2 "
    ):
        at(client, topic, Committed("places"))
    consumer.commit(offsets=[TopicPartition(topic, 2, 1)], asynchronous=False)
    consumer.close()
    assert at(client, topic, Committed("places")) == [6, 0, 1]


def test_no_partitions(client: Client) -> None:
    assert resolve(client, [], Latest(), read_committed=True) == {}


def test_a_partition_or_topic_that_is_not_there(client: Client, topic: str) -> None:
    with pytest.raises(ConfigError, match="places has no partition 9"):
        resolve(client, [(topic, 9)], Latest(), read_committed=True)
    with pytest.raises(ConfigError, match="topic nowhere does not exist"):
        resolve(client, [("nowhere", 0)], Latest(), read_committed=True)
