"""Fetch sessions of a standing reader on real brokers: what they spare, and each row once when a session ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.consumer import FetchRequest

from semel.config import ClientConfig
from semel.errors import DataLoss
from semel.read import Reader
from semel.sandbox import Sandbox
from semel.wire.api import fetch
from semel.wire.api.fetch_frames import Answer, Fetched, Position, pack_request, read_answer
from semel.wire.client import Client
from tests.read.support.standing import Standing
from tests.support.other_client import delete, followed, oracle, produce, ranges, rows, values
from tests.support.topics import create
from tests.support.waiting import wait_for

PARTITIONS = 50
SESSION_ID_NOT_FOUND = 70
#: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID.
OTHER_TOPIC = (3, 100, 103)
NO_NEWS = Fetched(0, -1, -1, -1, (), memoryview(b""))
#: A request names at least a topic id, a partition and an offset more than this if it names a partition.
SMALL = 50
SLOTS = "max.incremental.fetch.session.cache.slots"
#: As few as a broker can have: one in each of its eight caches.
FEW = "8"


@dataclass
class Seen:
    """The requests and answers of all readers in this process, in order: their sizes, and what they name."""

    sizes: list[int] = field(default_factory=list)
    named: list[int] = field(default_factory=list)
    sessions: list[tuple[int, int]] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def codes(self) -> set[int]:
        """Return the codes of whole answers."""
        return {answer.code for answer in list(self.answers)}

    def has_answers(self, more: int) -> bool:
        """Return whether so many answers have come."""
        return len(self.answers) >= more


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """What passes between readers and brokers, which is not changed."""
    found = Seen()

    def packed(positions: Any, version: int, **settings: Any) -> bytes:
        body = pack_request(positions, version, **settings)
        found.sizes.append(len(body))
        found.named.append(len(positions))
        found.sessions.append(settings["session"])
        return body

    def was_read(frame: memoryview, start: int = 0) -> Answer:
        found.answers.append(read_answer(frame, start))
        return found.answers[-1]

    monkeypatch.setattr(fetch, "pack_request", packed)
    monkeypatch.setattr(fetch, "read_answer", was_read)
    return found


def client_of(servers: str) -> Client:
    return Client(ClientConfig.parse({"bootstrap.servers": servers, "fetch.max.wait.ms": "100"}))


@contextmanager
def standing(servers: str, topic: str, *, fail_on_data_loss: bool = True) -> Iterator[Standing]:
    with client_of(servers) as client:
        reader = Reader(client, followed(client, topic), standing=True, fail_on_data_loss=fail_on_data_loss)
        with Standing(reader) as reading:
            yield reading


def assert_each_row_once(servers: str, topic: str, reading: Standing) -> None:
    with client_of(servers) as client:
        assert rows(reading.batches) == oracle(servers, ranges(client, topic))


@pytest.fixture(scope="module")
def few() -> Iterator[Sandbox]:
    with Sandbox.start(settings={SLOTS: FEW}) as sandbox:
        yield sandbox


def test_an_idle_reader_asks_and_is_answered_in_a_few_bytes(servers: str, seen: Seen) -> None:
    topic = create(servers, "idle-session", PARTITIONS)
    with standing(servers, topic) as reading:
        wait_for(partial(seen.has_answers, 5), "the answers of an idle reader")
        assert (seen.named[0], len(seen.answers[0].partitions)) == (PARTITIONS, PARTITIONS)
        assert max(seen.named[1:5]) == 0
        assert max(seen.sizes[1:5]) < SMALL
        assert max(len(answer.partitions) for answer in seen.answers[1:5]) == 0
        idle = len(seen.answers)
        produce(servers, topic, values(3, partition=7))
        wait_for(partial(reading.has, 3), "the rows")
        wait_for(partial(seen.has_answers, len(seen.answers) + 3), "the answers after them")
    assert {len(answer.partitions) for answer in seen.answers[idle:]} <= {0, 1}
    assert sorted(set(seen.named[idle:])) == [0, 1]
    assert {one for one, _ in seen.sessions[1:]} == {seen.answers[0].session}
    assert_each_row_once(servers, topic, reading)


def test_readers_of_one_client_take_the_place_of_the_one_before(servers: str, seen: Seen) -> None:
    """Else a mirror that asks for other partitions again and again would fill the broker's places."""
    topic = create(servers, "session-places", 2)
    with client_of(servers) as client:
        for count in (1, 2, 3):
            produce(servers, topic, values(1))
            with Standing(Reader(client, followed(client, topic), standing=True)) as reading:
                wait_for(partial(reading.has, count), "the rows")
    first = [position for position, (_, epoch) in enumerate(seen.sessions) if epoch == 0]
    given = [seen.answers[position].session for position in first]
    assert [seen.sessions[position][0] for position in first] == [0, *given[:-1]]


def test_a_session_that_is_evicted(few: Sandbox, seen: Seen) -> None:
    servers = few.bootstrap_servers
    topic = create(servers, "evicted", 2)
    produce(servers, topic, values(5))
    with standing(servers, topic) as reading:
        wait_for(partial(reading.has, 5), "the rows before")
        wait_for(lambda: seen.answers[-1].session > 0, "a session")
        _take_all_places(servers, topic)
        wait_for(lambda: SESSION_ID_NOT_FOUND in seen.codes(), "the end of the session")
        produce(servers, topic, [*values(5), *values(5, partition=1)])
        wait_for(partial(reading.has, 15), "the rows after it")
    assert_each_row_once(servers, topic, reading)


def _take_all_places(servers: str, topic: str) -> None:
    """Begin sessions as a follower does: its sessions take the place of any consumer's at once."""
    with client_of(servers) as client:
        ((node, _),) = client.leaders([(topic, 0)]).values()
        make = FetchRequest.FetchTopic
        row = make.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
        for _ in range(8):
            topics = [make(topic_id=client.topics({topic})[topic].id, partitions=[row])]
            request = FetchRequest(replica_id=99, max_bytes=1, session_epoch=0, topics=topics)
            client.ask(node, request, (13, 13))


def test_a_broker_that_was_started_again(few: Sandbox, seen: Seen) -> None:
    servers = few.bootstrap_servers
    topic = create(servers, "session-restart", 2)
    produce(servers, topic, values(5))
    with standing(servers, topic) as reading:
        wait_for(partial(reading.has, 5), "the rows before")
        begun = sum(epoch == 0 for _, epoch in seen.sessions)
        (node,) = few.nodes
        node.kill()
        node.start()
        node.wait_ready(120)
        produce(servers, topic, [*values(5), *values(5, partition=1)])
        wait_for(partial(reading.has, 15), "the rows after it")
    assert sum(epoch == 0 for _, epoch in seen.sessions) > begun
    assert_each_row_once(servers, topic, reading)


def test_a_topic_that_is_made_again_replaces_the_former_one_in_a_session(servers: str, seen: Seen) -> None:
    topic = create(servers, "session-again")
    produce(servers, topic, values(5, "old"))
    with client_of(servers) as client, fetch.Fetcher(client, sessions=True) as fetcher:
        asking = partial(_asked, client, fetcher, topic)
        before = client.topics({topic})[topic].id
        wait_for(lambda: asking(before).records, "the rows of the former topic")
        delete(servers, topic)
        create(servers, topic)
        produce(servers, topic, values(5, "new"))
        wait_for(lambda: asking(before).code in OTHER_TOPIC, "the end of the former topic")
        client.refresh({topic})
        after = client.topics({topic})[topic].id
        wait_for(lambda: b"new" in bytes(asking(after).records), "the rows of the new topic")
    assert {one for one, epoch in seen.sessions if epoch > 0} == {seen.answers[0].session}
    assert seen.codes() == {0}


def _asked(client: Client, fetcher: fetch.Fetcher, topic: str, id: UUID) -> Fetched:
    """Return what a session shows of partition 0 from its beginning, or that it has no news."""
    ((node, _),) = client.leaders([(topic, 0)]).values()
    fetcher.send(node, {(topic, 0): Position(id, 0)}, read_committed=True)
    return fetcher.receive(node).get((topic, 0), NO_NEWS)


def test_a_topic_that_is_deleted_while_it_is_asked_for(servers: str) -> None:
    topic = create(servers, "session-deleted", 2)
    produce(servers, topic, values(5))
    with standing(servers, topic) as reading:
        wait_for(partial(reading.has, 5), "the rows before")
        delete(servers, topic)
        wait_for(lambda: reading.failed, "the loss")
    (error,) = reading.failed
    assert isinstance(error, DataLoss)
    assert error.tag == "OFFSETS_GONE"


@pytest.mark.exhaustive
def test_a_broker_without_a_place_for_a_session(seen: Seen) -> None:
    with Sandbox.start(settings={SLOTS: "0"}) as sandbox:
        servers = sandbox.bootstrap_servers
        topic = create(servers, "no-session", 2)
        with standing(servers, topic) as reading:
            for turn in range(1, 4):
                produce(servers, topic, [*values(5), *values(5, partition=1)])
                wait_for(partial(reading.has, 10 * turn), "the rows")
        assert set(seen.sessions) == {(0, 0)}
        assert_each_row_once(servers, topic, reading)
