"""Sessions in a consumer group, against a real broker."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, ConsumerGroupState, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import semel
from semel.config import ClientConfig
from semel.errors import ConfigError, Fenced
from semel.steps import OwnerStep, Step
from semel.testing.history import assert_exactly_once
from semel.testing.records import read
from semel.wire.consumer_protocol import ASSIGNORS, ConsumerProtocol
from semel.wire.group_member import GroupMember
from tests.support.topics import create
from tests.support.waiting import wait_for

PARTITIONS = 4


def fill(servers: str, topic: str, numbers: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for number in numbers:
        producer.produce(topic, value=json.dumps({"id": number}), partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def stands(servers: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, index) for index in range(PARTITIONS)], timeout=30)
        return sum(max(one.offset, 0) for one in found)
    finally:
        consumer.close()


def copied(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(["value", "partition"])


def test_rows_and_offsets_are_committed_together(servers: str) -> None:
    source, target = create(servers, "session-in", PARTITIONS), create(servers, "session-out", PARTITIONS)
    fill(servers, source, range(2000))
    with (
        semel.Cluster({"bootstrap.servers": servers}) as cluster,
        cluster.session("copy", group="session-copy", topics=[source]) as session,
    ):
        left = 2000
        for batch in session:
            session.send(target, copied(batch))
            assert session.commit()
            left -= batch.num_rows
            if not left:
                break
    assert_exactly_once(servers, target, source=source, id="json:$.id", timeout=60)
    assert stands(servers, "session-copy", source) == 2000


@pytest.mark.parametrize("step", [OwnerStep.WRITTEN, OwnerStep.OFFSETS_ADDED])
def test_an_interrupted_commit_commits_nothing_when_it_is_called_again(
    servers: str, step: OwnerStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interruption has aborted the rows: their offsets alone would be committed."""
    name = f"interrupted-{step.value}"
    source, target = create(servers, f"{name}-in", PARTITIONS), create(servers, f"{name}-out", PARTITIONS)
    fill(servers, source, range(100))

    def interrupt(passed: Step, _: str) -> None:
        if passed is step:
            monkeypatch.setattr(semel.steps, "_observer", None)
            raise KeyboardInterrupt

    with (
        semel.Cluster({"bootstrap.servers": servers}) as cluster,
        cluster.session(name, group=name, topics=[source]) as session,
    ):
        session.send(target, copied(next(iter(session))))
        monkeypatch.setattr(semel.steps, "_observer", interrupt)
        with pytest.raises(KeyboardInterrupt):
            session.commit()
        assert not session.commit()
        while (batch := session.poll(2)) is not None:
            session.send(target, copied(batch))
            assert session.commit()
    assert_exactly_once(servers, target, source=source, id="json:$.id", timeout=60)


def test_a_commit_of_which_no_answer_is_known_is_not_called_undone(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = create(servers, "unanswered-in", PARTITIONS), create(servers, "unanswered-out", PARTITIONS)
    fill(servers, source, range(100))

    def interrupt(passed: Step, _: str) -> None:
        if passed is OwnerStep.COMMIT_ANSWERED:
            monkeypatch.setattr(semel.steps, "_observer", None)
            raise KeyboardInterrupt

    with semel.Cluster({"bootstrap.servers": servers}) as cluster:
        with cluster.session("unanswered", group="unanswered", topics=[source]) as session:
            session.send(target, copied(next(iter(session))))
            monkeypatch.setattr(semel.steps, "_observer", interrupt)
            with pytest.raises(KeyboardInterrupt):
                session.commit()
            with pytest.raises(semel.Retriable, match="OUTCOME_UNKNOWN"):
                session.commit()
        with cluster.session("unanswered", group="unanswered", topics=[source]) as session:
            while (batch := session.poll(2)) is not None:
                session.send(target, copied(batch))
                assert session.commit()
    assert_exactly_once(servers, target, source=source, id="json:$.id", timeout=60)


def test_batches_have_at_most_max_poll_records_and_a_commit_between_two_is_exact(servers: str) -> None:
    source = create(servers, "small-in", PARTITIONS)
    fill(servers, source, range(100))
    with semel.Cluster({"bootstrap.servers": servers}) as cluster:

        def taken(batches: int) -> list[int]:
            """Return the rows of so many batches, of which the last one is not committed."""
            found: list[int] = []
            with cluster.session("small", group="small", topics=[source], max_poll_records=7) as session:
                for batch in session:
                    assert batch.num_rows <= 7
                    if batches == 1:
                        return found
                    assert session.commit()
                    found += [json.loads(value)["id"] for value in batch["value"].to_pylist()]
                    batches -= 1
                    if len(found) + len(first) == 100:
                        break
            return found

        first: list[int] = []
        first = taken(4)
        assert sorted(first + taken(100)) == list(range(100))


def test_partitions_take_turns(servers: str) -> None:
    """Rows that take long do not hold up those of other partitions that came with them."""
    source = create(servers, "turns-in", PARTITIONS)
    fill(servers, source, range(40))
    with (
        semel.Cluster({"bootstrap.servers": servers}) as cluster,
        cluster.session("turns", group="turns", topics=[source], max_poll_records=3) as session,
    ):
        batches = [batch for batch, _ in zip(session, range(2 * PARTITIONS), strict=False)]
    turns = [batch["partition"][0].as_py() for batch in batches]
    assert sorted(turns[:PARTITIONS]) == list(range(PARTITIONS))
    assert turns[PARTITIONS:] == turns[:PARTITIONS]
    assert {batch.num_rows for batch in batches} == {3}


def test_a_commit_without_rows_or_offsets_is_one(servers: str) -> None:
    """A loop sends what it made, also where that is nothing: the coordinator has nothing to end then."""
    source, target = create(servers, "empty-in", PARTITIONS), create(servers, "empty-out", PARTITIONS)
    none = pa.table({"value": pa.array([], pa.string())})
    with (
        semel.Cluster({"bootstrap.servers": servers, "fetch.max.wait.ms": 50}) as cluster,
        cluster.session("empty", group="empty", topics=[source]) as session,
    ):
        while not session.assignment:
            assert session.poll(0.1) is None
        for _ in range(3):
            session.send(target, none)
            assert session.commit()
        with pytest.raises(ConfigError, match="UNKNOWN_PARTITION"):
            session.send(target, pa.table({"value": ["x"], "partition": [PARTITIONS]}))
        fill(servers, source, range(4))
        left = 4
        while left:
            if (batch := session.poll(1)) is not None:
                session.send(target, copied(batch))
                assert session.commit()
                left -= batch.num_rows
    assert_exactly_once(servers, target, source=source, id="json:$.id", timeout=60)


def test_a_member_that_was_thrown_out_commits_nothing(servers: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever does not ask for rows within max_poll_interval_ms is out, and its offsets are refused."""
    source, target = create(servers, "late-in", PARTITIONS), create(servers, "late-out", PARTITIONS)
    fill(servers, source, range(100))
    with semel.Cluster({"bootstrap.servers": servers, "fetch.max.wait.ms": 50}) as cluster:
        slow = cluster.session("late", group="late", topics=[source], max_poll_interval_ms=1_000)
        quick = cluster.session("late", group="late", topics=[source])
        with quick, slow:
            rows = slow.poll(30)
            assert rows is not None
            slow.send(target, copied(rows))
            while stands(servers, "late", source) < 100:
                if (batch := quick.poll(1)) is not None:
                    quick.send(target, copied(batch))
                    assert quick.commit()
            assert not slow.commit()
    assert_exactly_once(servers, target, source=source, id="json:$.id", timeout=60)
    assert "max.poll.interval.ms is 1000: the group continues without this member. Nothing of these rows" in caplog.text


def test_the_same_instance_id_twice_fences_the_first(servers: str) -> None:
    source, target = create(servers, "twice-in", PARTITIONS), create(servers, "twice-out", PARTITIONS)
    fill(servers, source, range(100))
    with semel.Cluster({"bootstrap.servers": servers, "fetch.max.wait.ms": 50}) as cluster:
        first = cluster.session("twice", group="twice", topics=[source], group_instance_id="one")
        second = cluster.session("twice", group="twice", topics=[source], group_instance_id="one")
        with first, second:
            rows = first.poll(30)
            assert rows is not None
            first.send(target, copied(rows))
            while stands(servers, "twice", source) < 100:
                if (batch := second.poll(1)) is not None:
                    second.send(target, copied(batch))
                    assert second.commit()
            with pytest.raises(Fenced):
                first.commit()
    assert_exactly_once(servers, target, source=source, id="json:$.id", timeout=60)


def test_a_worker_that_only_waits_learns_that_its_instance_id_is_taken(servers: str) -> None:
    source = create(servers, "idle-in", PARTITIONS)
    with semel.Cluster({"bootstrap.servers": servers, "fetch.max.wait.ms": 50}) as cluster:
        first, second = (
            cluster.session("idle", group="idle", topics=[source], group_instance_id="one", session_timeout_ms=6_000)
            for _ in range(2)
        )
        with first, second:
            for session in (first, second):
                while not session.assignment:
                    session.poll(0.1)
            with pytest.raises(Fenced, match=r"FENCED_INSTANCE_ID.*has come with group.instance.id 'one'"):
                first.poll(60)
            assert second.poll(0.1) is None
            assert second.assignment


def test_latest_begins_at_the_end_and_stays_where_it_began(servers: str) -> None:
    """Rows from before are not read; those that come while no member runs are."""
    source = create(servers, "latest-in", PARTITIONS)
    fill(servers, source, range(100))
    with semel.Cluster({"bootstrap.servers": servers, "fetch.max.wait.ms": 50}) as cluster:
        options = {"group": "latest", "topics": [source], "auto_offset_reset": "latest"}
        with cluster.session("latest", **options) as session:  # type: ignore[arg-type]
            while stands(servers, "latest", source) < 100:
                assert session.poll(0.1) is None
        fill(servers, source, range(100, 140))
        with cluster.session("latest", **options) as session:  # type: ignore[arg-type]
            seen: list[int] = []
            while len(seen) < 40:
                if (batch := session.poll(1)) is not None:
                    seen += [json.loads(value)["id"] for value in batch["value"].to_pylist()]
    assert sorted(seen) == list(range(100, 140))


def test_librdkafka_is_the_other_member_of_the_group(servers: str) -> None:
    """Each reads its share, and what they have committed adds up. When one leaves, the other goes on for both."""
    source, target = create(servers, "mixed-in", PARTITIONS), create(servers, "mixed-out", PARTITIONS)
    other = _OtherMember(servers, "mixed", source)
    with semel.Cluster({"bootstrap.servers": servers, "fetch.max.wait.ms": 50}) as cluster:
        with other, cluster.session("mixed", group="mixed", topics=[source]) as session:
            while not (
                session.assignment and other.assigned and len(session.assignment) + other.assigned == PARTITIONS
            ):
                session.poll(0.1)
            fill(servers, source, range(400))
            while stands(servers, "mixed", source) < 400:
                if (batch := session.poll(0.1)) is not None:
                    session.send(target, copied(batch))
                    session.commit()
        with cluster.session("mixed", group="mixed", topics=[source]) as session:
            fill(servers, source, range(400, 500))
            while stands(servers, "mixed", source) < 500:
                if (batch := session.poll(0.1)) is not None:
                    session.send(target, copied(batch))
                    assert session.commit()
    ours = [int(number) for number in read(servers, [target], {"id": "json:$.id"})["id"].to_pylist()]
    assert other.seen
    assert sorted(ours + other.seen) == list(range(500))


class _OtherMember:
    """A consumer of librdkafka, polled in a thread; it commits what it has read when it ends a poll."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        self.assigned, self.seen = 0, list[int]()
        self._stop = threading.Event()
        self._settings = {
            "bootstrap.servers": servers,
            "group.id": group,
            "partition.assignment.strategy": "range,roundrobin",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        self._topic = topic
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> _OtherMember:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe([self._topic])
        while not self._stop.is_set():
            message = consumer.poll(0.1)
            self.assigned = len(consumer.assignment())
            if message is not None and not message.error():
                consumer.commit(message, asynchronous=False)
                self.seen.append(json.loads(message.value())["id"])
        consumer.close()


def test_what_cannot_be_is_refused(servers: str) -> None:
    with semel.Cluster({"bootstrap.servers": servers}) as cluster:
        with pytest.raises(ConfigError, match="a group and a list of topics"):
            cluster.session("wrong", group="wrong", topics="in")
        with pytest.raises(ConfigError, match="neither earliest nor latest"):
            cluster.session("wrong", group="wrong", topics=["in"], auto_offset_reset="none")
        with cluster.session("wrong", group="wrong", topics=["nowhere"]) as session:
            with pytest.raises(ConfigError, match="handed out nothing yet"):
                session.commit()
            with pytest.raises(ConfigError, match="nowhere"):
                session.poll(1)


def test_a_member_that_is_to_stop_does_not_wait_for_its_group(servers: str) -> None:
    """The first member does not rejoin, so that the second one's join would last as long as max.poll.interval.ms."""
    topic, stop = create(servers, "stopping", PARTITIONS), threading.Event()
    config = ClientConfig.parse({"bootstrap.servers": servers})
    first, second = (
        GroupMember(
            config,
            "stopping",
            ConsumerProtocol([topic], tuple(ASSIGNORS.values())),
            session_timeout_ms=10_000,
            rebalance_timeout_ms=120_000,
            heartbeat_ms=3_000,
            polled=True,
            stopping=stop.is_set,
        )
        for _ in range(2)
    )
    joined: list[object] = []
    try:
        assert first.poll() is not None
        waiting = threading.Thread(target=lambda: joined.append(second.poll()))
        waiting.start()
        admin = AdminClient({"bootstrap.servers": servers})
        wait_for(
            lambda: (
                admin.describe_consumer_groups(["stopping"])["stopping"].result().state
                == ConsumerGroupState.PREPARING_REBALANCING
            ),
            "the rebalance",
        )
        assert joined == []
        stop.set()
        waiting.join(20)
        assert joined == [None]
    finally:
        second.close()
        first.close()
