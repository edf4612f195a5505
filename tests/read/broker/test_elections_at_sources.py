"""What befalls the logs of a source every day, on three brokers: restarts, leaders and replicas that move, retention,
compaction.

Nothing that was read is cut by it, so nothing is refused, nothing is planned where nothing was written, and each new
row is read once: by a query that runs on, and by one that starts again from its checkpoint. Partition 2 never has a
row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.protocol.admin import AlterPartitionReassignmentsRequest

from semel.errors import Retriable
from semel.sandbox import Sandbox
from semel.wire.api.offsets import EARLIEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import Partition
from semel.wire.target import ANY
from tests.read.support.source_runs import Run, add, numbers, rows_of, source, texts
from tests.support.broker_faults import wait_whole
from tests.support.other_client import Transactional, delete_records, oracle, produce, ranges
from tests.support.topics import create
from tests.support.waiting import wait_for

_numbers = count()
_LARGE = 980_000  # no segment has two of them


class Topic:
    """Three partitions with three replicas each, two of which must be in sync; the rows are v0, v1, … of partitions 0
    and 1.
    """

    def __init__(self, client: Client, servers: str, **config: Any) -> None:
        self.client = client
        self.servers = servers
        self.name = create(servers, f"elections-{next(_numbers)}", 3, replication=3, min_insync_replicas="2", **config)
        self.written = 0

    def write(self, rows: int, *, partitions: int = 2) -> Sequence[bytes | None]:
        """These many, and what they are."""
        first, self.written = self.written, self.written + rows
        add(self.servers, self.name, first, self.written, partitions=partitions)
        return texts(first, self.written)

    def partitions(self) -> Mapping[int, Partition]:
        return self.client.refresh({self.name}).topics[self.name].partitions

    def starts(self) -> list[int]:
        wanted = {(self.name, index): EARLIEST for index in range(3)}
        return [found.offset for _, found in sorted(list_offsets(self.client, wanted, read_committed=False).items())]

    def lead_by_another(self) -> None:
        """The second replica of each partition is the preferred one from now on, and leads."""
        self._place({index: (*one.replicas[1:], one.replicas[0]) for index, one in self.partitions().items()})

    def lead_by_a_new_copy(self) -> None:
        """The last replica of each partition is taken away and made anew on its node, and leads."""
        before = self.partitions()
        self._place({index: one.replicas[:2] for index, one in before.items()})
        self._place({index: (one.replicas[2], *one.replicas[:2]) for index, one in before.items()})

    def _place(self, wanted: Mapping[int, tuple[int, ...]]) -> None:
        make = AlterPartitionReassignmentsRequest.ReassignableTopic
        rows = [
            make.ReassignablePartition(partition_index=index, replicas=list(nodes)) for index, nodes in wanted.items()
        ]
        request = AlterPartitionReassignmentsRequest(timeout_ms=30_000, topics=[make(name=self.name, partitions=rows)])
        answer = self.client.ask(ANY, request, (0, 0))
        assert [row.error_code for topic in answer.responses for row in topic.partitions] == [0] * len(wanted)
        wait_for(
            lambda: all(self._has(index, nodes) for index, nodes in wanted.items()),
            "the replicas where they are wanted, and in sync",
        )
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(self.name, index) for index in wanted]).result(30)
        wait_for(
            lambda: all(self.partitions()[index].leader == nodes[0] for index, nodes in wanted.items()),
            "the leaders that are preferred",
        )

    def _has(self, index: int, nodes: tuple[int, ...]) -> bool:
        one = self.partitions()[index]
        return one.replicas == nodes and set(one.in_sync) == set(nodes)


Election = Callable[[Topic], None]
Start = Callable[..., Run]

every_election = pytest.mark.parametrize(
    "elect", [pytest.param(Topic.lead_by_another, marks=pytest.mark.exhaustive), Topic.lead_by_a_new_copy]
)


@pytest.fixture(scope="module")
def three() -> Iterator[Sandbox]:
    with Sandbox.start(nodes=3, settings={"log.cleaner.backoff.ms": "200"}) as sandbox:
        yield sandbox


@pytest.fixture
def servers(three: Sandbox) -> str:
    return three.bootstrap_servers


@pytest.fixture
def topic(client: Client, servers: str) -> Topic:
    return Topic(client, servers)


@pytest.fixture
def run(servers: str) -> Iterator[Start]:
    started: list[Run] = []

    def start(topic: Topic, log: Sequence[str] = (), **options: Any) -> Run:
        started.append(Run(servers, list(log), subscribe=topic.name, **{"startingOffsets": "earliest", **options}))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def elect_anew(topic: Topic, elect: Election) -> None:
    before = topic.partitions()
    elect(topic)
    assert_led_anew(topic, before)


def assert_led_anew(topic: Topic, before: Mapping[int, Partition]) -> None:
    assert all(one.leader_epoch > before[index].leader_epoch for index, one in topic.partitions().items()), (
        "there was an election"
    )


def has_read(topic: Topic, run: Start) -> Run:
    """A query that has read 30 rows, all that there are."""
    rows = topic.write(30)
    query = run(topic)
    assert numbers(query.batch()) == rows
    return query


def assert_nothing_new(topic: Topic, query: Run, run: Start) -> None:
    assert not query.plan()
    assert not run(topic, query.log).plan()
    assert not run(topic, query.log, available_now=True).plan()


def assert_reads(topic: Topic, query: Run, run: Start, rows: Sequence[bytes | None]) -> None:
    """These, in one batch and once, whoever goes on."""
    goes_on = [query, run(topic, query.log), run(topic, query.log, available_now=True)]
    batches = len(query.log) + 1
    for one in goes_on:
        assert numbers(one.rest()) == rows
        assert len(one.log) == batches, "none of them empty"
        assert not run(topic, one.log).plan()


def assert_goes_on(topic: Topic, query: Run, run: Start) -> None:
    assert_nothing_new(topic, query, run)
    assert_reads(topic, query, run, topic.write(10))


@pytest.mark.exhaustive
def test_every_broker_is_restarted_while_rows_are_written(three: Sandbox, topic: Topic, run: Start) -> None:
    """A partition is idle meanwhile, and another always was.

    A query that was down all the time goes on as the one that ran.
    """
    before, query = topic.partitions(), has_read(topic, run)
    checkpoint, first = list(query.log), topic.written
    for node in three.nodes:
        node.stop()
        assert_nothing_new(topic, query, run)
        assert_reads(topic, query, run, topic.write(10, partitions=1))
        node.start()
        node.wait_ready(120, nodes=3)
        wait_whole(three)
        assert_nothing_new(topic, query, run)
    assert_led_anew(topic, before)
    assert_reads(topic, run(topic, checkpoint), run, texts(first, topic.written))
    assert_goes_on(topic, query, run)


@every_election
def test_leaders_are_moved(topic: Topic, run: Start, elect: Election) -> None:
    query = has_read(topic, run)
    for _ in range(2):
        elect_anew(topic, elect)
        assert_goes_on(topic, query, run)


@every_election
def test_a_backlog_is_read_over_elections(topic: Topic, run: Start, elect: Election) -> None:
    """What was planned under one leader is read under the next, and once more by a query that starts again; rows are
    written all the time.
    """
    every_row = [*topic.write(40)]
    found: list[bytes | None] = []
    query = run(topic, maxOffsetsPerTrigger=20)
    while query.plan():
        if len(query.log) <= 3:
            elect_anew(topic, elect)
            every_row += topic.write(10)
        planned = numbers(query.read())
        assert planned
        found += planned
        query = run(topic, query.log, maxOffsetsPerTrigger=20)
        assert numbers(query.read()) == planned
    assert sorted(map(str, found)) == sorted(map(str, every_row))
    assert_goes_on(topic, query, run)


@every_election
@pytest.mark.parametrize("waiting", [0, 10])
def test_rows_in_front_of_the_position_are_deleted(topic: Topic, run: Start, elect: Election, waiting: int) -> None:
    """Up to exactly the position in one partition, and not quite in the other. Rows that wait behind it are left."""
    query = has_read(topic, run)
    rows = topic.write(waiting)
    delete_records(topic.servers, topic.name, 0, 15)
    delete_records(topic.servers, topic.name, 1, 12)
    elect_anew(topic, elect)
    assert topic.starts() == [15, 12, 0]
    if waiting:
        assert_reads(topic, query, run, rows)
    assert_goes_on(topic, query, run)


@every_election
def test_a_transaction_is_open_at_the_position(topic: Topic, run: Start, elect: Election) -> None:
    """The position is in front of it, and far behind that is where the log ends."""
    query = has_read(topic, run)
    writer = Transactional(topic.servers, f"{topic.name}-writer")
    for commit in (False, True):
        writer.write(topic.name, [{"value": b"open%d" % i, "partition": i % 2} for i in range(6)])
        topic.write(10)
        elect_anew(topic, elect)
        assert_nothing_new(topic, query, run)
        writer.end(commit=commit)
        opened = [b"open%d" % i for i in range(6)] if commit else []
        assert_reads(topic, query, run, sorted(opened + texts(topic.written - 10, topic.written)))


@every_election
def test_rows_up_to_the_position_are_compacted_away(client: Client, servers: str, run: Start, elect: Election) -> None:
    """All rows in front of the position, so that the log begins with a hole."""
    topic = Topic(
        client, servers, cleanup_policy="compact", min_cleanable_dirty_ratio="0.001", segment_bytes=str(1 << 20)
    )
    produce(servers, topic.name, [{"key": b"key", "value": b"small%d" % i} for i in range(30)])
    query = run(topic)
    assert len(numbers(query.batch())) == 30
    for text in (b"a", b"b"):  # each begins a new segment, so that what is before it can be cleaned
        produce(servers, topic.name, [{"key": b"key", "value": text * _LARGE}])
    elect_anew(topic, elect)
    wait_for(lambda: oracle(servers, ranges(client, topic.name))[0][1] == 30, "the cleaning")
    assert_reads(topic, query, run, [b"a" * _LARGE, b"b" * _LARGE])
    produce(servers, topic.name, [{"key": b"key", "value": b"after"}])
    assert_reads(topic, query, run, [b"after"])


def test_a_pattern_does_not_pass_over_a_topic_without_all_of_its_leaders(
    three: Sandbox, client: Client, servers: str
) -> None:
    """Whether a topic of so many partitions keeps progress is told by its records: a batch query that cannot see all of
    them fails, and does not read nothing.
    """
    name = create(servers, f"elections-{next(_numbers)}", 16, replication=1)
    produce(servers, name, [{"value": b"row", "partition": index} for index in range(16)])
    partitions = client.refresh({name}).topics[name].partitions
    down = next(node for node in three.nodes if node.id != partitions[0].leader)
    made = source(servers, {"subscribePattern": name, "kafka.default.api.timeout.ms": "3000"})
    down.stop()
    try:
        with pytest.raises(Retriable):
            made.reader(made.schema()).partitions()
    finally:
        down.start()
        down.wait_ready(120, nodes=3)
        wait_whole(three)
    reader = made.reader(made.schema())
    assert len(rows_of(reader, list(reader.partitions()))) == 16
