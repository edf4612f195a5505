"""What a real broker forgets, and when: expired transactions, ids and offsets, retention, compaction.

One test for each fact, with raw requests, on a broker whose clocks run fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from kafka.protocol.producer import InitProducerIdRequest

from semel.read.raw_log import EndMarker, LogRecord, read_raw
from semel.records.header import scan
from semel.sandbox import Sandbox
from semel.wire.api.describe_transactions import describe
from semel.wire.api.fetch import fetch
from semel.wire.api.fetch_frames import Position
from semel.wire.api.offsets import EARLIEST, list_offsets
from tests.support.coordinator import ABORTED, wait_until_ended
from tests.support.other_client import produce
from tests.support.raw_producer import INVALID_EPOCH, INVALID_STATE, UNKNOWN_ID, Raw, versions
from tests.support.waiting import wait_for

IMPATIENT = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transactional.id.expiration.ms": "5000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "300",
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.cleaner.backoff.ms": "200",
    "unstable.api.versions.enable": "true",
}


class Expiring:
    """A group without members: partition 1 is committed once, when the broker starts, partition 0 whenever somebody
    looks.
    """

    def __init__(self, servers: str) -> None:
        self.raw = Raw(servers, partitions=2)
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": self.raw.group, "enable.auto.commit": False}
        )
        self.commit(0, 1)

    def commit(self, *indexes: int) -> None:
        offsets = [TopicPartition(self.raw.topic, index, 7) for index in indexes]

        def done() -> bool:
            try:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException as error:  # a broker that has just started may not have loaded its groups yet
                if error.args[0].code() != KafkaError.NOT_COORDINATOR:
                    raise
                return False
            return True

        wait_for(done, "the commit of the group")

    def committed(self, index: int) -> int:
        (found,) = self._consumer.committed([TopicPartition(self.raw.topic, index)], timeout=30)
        return int(found.offset)

    def close(self) -> None:
        self._consumer.close()
        self.raw.close()


@pytest.fixture(scope="module")
def impatient() -> Iterator[tuple[Sandbox, Expiring]]:
    """A broker that forgets soon. The slowest of its clocks, a minute, runs while the other tests do."""
    with Sandbox.start(settings=IMPATIENT) as sandbox:
        expiring = Expiring(sandbox.bootstrap_servers)
        yield sandbox, expiring
        expiring.close()


@pytest.fixture
def hasty(impatient: tuple[Sandbox, Expiring]) -> Iterator[Raw]:
    made = Raw(impatient[0].bootstrap_servers, partitions=2)
    yield made
    made.close()


def test_an_expired_transaction_was_aborted_and_its_own_abort_brings_the_next_identity(hasty: Raw) -> None:
    identity = hasty.init(timeout_ms=3_000)  # time enough to write on a busy machine
    hasty.add(identity, 0)
    assert hasty.produce(identity, ["x"])[0] == 0
    wait_until_ended(hasty.servers, hasty.id, ABORTED)
    assert hasty.end(identity, commit=True)[0] == INVALID_STATE
    assert hasty.produce(identity, ["y"], sequence=1)[0] == INVALID_EPOCH
    code, following = hasty.end(identity, commit=False)
    assert code == 0
    assert hasty.add(following, 0) == 0
    assert hasty.produce(following, ["z"])[0] == 0
    assert hasty.end(following, commit=True)[0] == 0
    assert hasty.visible() == ["z"]


def test_an_id_that_expired_unused_is_unknown_and_comes_back_as_another_producer_id(hasty: Raw) -> None:
    identity = hasty.init()
    hasty.add(identity, 0)
    _, following = hasty.end(identity, commit=True)
    wait_for(lambda: describe(hasty.client, hasty.id) is None, "the expiry of the id")
    for commit in (True, False):
        assert hasty.end(following, commit=commit)[0] == UNKNOWN_ID
    assert hasty.add(following, 0) == UNKNOWN_ID
    assert hasty.init().producer_id != identity.producer_id


def test_retention_takes_rows_of_an_open_transaction_and_its_commit_says_nothing(
    impatient: tuple[Sandbox, Expiring],
) -> None:
    raw = Raw(impatient[0].bootstrap_servers, segment_ms="500", retention_ms="1000", file_delete_delay_ms="0")
    identity = raw.init(timeout_ms=120_000)
    raw.add(identity, 0)
    sequences = iter(range(10_000))
    # the first segment goes when the next is begun, which takes one more record
    wait_for(lambda: raw.produce(identity, ["x"], sequence=next(sequences))[0] == 0 and _start(raw) > 0, "retention")
    end = raw.ends()[1]
    _wait_for_start(raw, end)  # the last segment goes too
    assert raw.end(identity, commit=True)[0] == 0
    raw.settled(0)
    assert raw.visible() == []
    claim = raw.produce(None, ["end"])[1]
    events = list(read_raw(raw.client, (raw.topic, 0), claim, raw.client.deadline()))
    assert [(event.commit, event.producer_id) for event in events if isinstance(event, EndMarker)] == [
        (True, identity.producer_id)
    ]
    assert len(events) == 1
    raw.close()


def test_a_sandbox_keeps_rows_however_old_they_are(impatient: tuple[Sandbox, Expiring]) -> None:
    """Kafka's week goes by the rows' own time, so rows that a test has dated go whenever a broker comes by."""
    servers = impatient[0].bootstrap_servers
    old = [{"value": b"x", "timestamp": 1_000}]
    kept, control = Raw(servers), Raw(servers, retention_ms="604800000")
    produce(servers, kept.topic, old)
    for rows in (1, 2):  # when the second one is gone, all of the broker's topics have been looked at behind the first
        produce(servers, control.topic, old)
        _wait_for_start(control, rows)
    assert _start(kept) == 0
    assert kept.visible() == ["x"]
    kept.close()
    control.close()


def _wait_for_start(raw: Raw, offset: int) -> None:
    wait_for(lambda: _start(raw) == offset, "retention")


def _start(raw: Raw) -> int:
    return list_offsets(raw.client, dict.fromkeys(raw.at(0), EARLIEST), read_committed=False)[raw.topic, 0].offset


def test_compaction_keeps_the_newest_committed_record_under_a_newer_aborted_one(
    impatient: tuple[Sandbox, Expiring],
) -> None:
    servers = impatient[0].bootstrap_servers
    raw = Raw(
        servers,
        cleanup_policy="compact",
        delete_retention_ms="1000",
        min_cleanable_dirty_ratio="0.001",
        segment_ms="300",
    )
    identity = raw.init()
    for number, commit in enumerate((True, True, False)):
        raw.add(identity, 0)
        request = raw.produce_request(identity, [f"value {number}"], keys=["key"])
        assert raw.once(raw.leader(), request, 12).responses[0].partition_responses[0].error_code == 0
        _, identity = raw.end(identity, commit=commit)
        raw.settled(0)

    def journal() -> list[LogRecord | EndMarker]:
        filler = raw.produce_request(None, ["filler"], keys=["filler"])
        end = raw.once(raw.leader(), filler, 12).responses[0].partition_responses[0].base_offset
        return list(read_raw(raw.client, (raw.topic, 0), end, raw.client.deadline()))

    wait_for(
        lambda: [e.value for e in journal() if isinstance(e, LogRecord) and e.key == b"key"] == [b"value 1"],
        "the aborted record to go",
    )
    wait_for(lambda: any(header.control and header.count == 0 for header in _headers(raw)), "an emptied control batch")
    events = journal()
    (kept,) = (event for event in events if isinstance(event, LogRecord) and event.key == b"key")
    behind = [event for event in events if isinstance(event, EndMarker) and event.offset > kept.offset]
    assert behind[0].commit
    assert "value 1" in raw.visible()
    assert "value 2" not in raw.visible()
    raw.close()


def _headers(raw: Raw) -> list[Any]:
    where = (raw.topic, 0)
    raw.once(raw.leader(), raw.produce_request(None, ["filler"], keys=["filler"]), 12)
    position = Position(raw.client.topics({raw.topic})[raw.topic].id, _start(raw))
    fetched = fetch(
        raw.client,
        raw.leader(),
        {where: position},
        read_committed=False,
        max_wait_ms=50,
        deadline=raw.client.deadline(),
    )
    return list(scan(fetched[where].records))


@pytest.mark.exhaustive
def test_offsets_expire_one_by_one_also_in_a_group_that_goes_on(impatient: tuple[Sandbox, Expiring]) -> None:
    _, expiring = impatient

    def gone() -> bool:
        expiring.commit(0)
        return expiring.committed(1) < 0

    wait_for(gone, "the offset that nobody renews to expire")
    assert expiring.committed(0) == 7


def test_prepared_transactions_are_an_unstable_version(kafka: Sandbox, impatient: tuple[Sandbox, Expiring]) -> None:
    assert versions(kafka.bootstrap_servers).ranges[InitProducerIdRequest.API_KEY] == (0, 5)
    assert versions(impatient[0].bootstrap_servers).ranges[InitProducerIdRequest.API_KEY] == (0, 6)
