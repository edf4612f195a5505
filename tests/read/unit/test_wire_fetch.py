"""The bytes of Fetch against kafka-python's own schemas, in every version that is spoken, and against damage."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse

from semel.wire.api.fetch_frames import VERSIONS, Fetched, Position, pack_request, read_answer
from semel.wire.metadata import TopicPartition

EVERY_VERSION = range(VERSIONS[0], VERSIONS[1] + 1)
A, B = uuid.UUID(int=1 << 100), uuid.UUID(int=2)
SESSION = 1_234_567


def assert_as_kafka_python(
    positions: Mapping[TopicPartition, Position],
    version: int,
    session: tuple[int, int],
    forgotten: Sequence[tuple[uuid.UUID, int]] = (),
) -> None:
    """Compare the bytes of a request with those of kafka-python."""
    ours = pack_request(
        positions,
        version,
        read_committed=True,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 25,
        partition_max_bytes=1 << 20,
        session=session,
        forgotten=forgotten,
    )
    make, forget = FetchRequest.FetchTopic, FetchRequest.ForgottenTopic
    rows: dict[uuid.UUID, list[Any]] = {}
    for (_, index), at in positions.items():
        row = make.FetchPartition(
            partition=index,
            current_leader_epoch=at.leader_epoch,
            fetch_offset=at.offset,
            last_fetched_epoch=at.last_epoch,
            log_start_offset=-1,
            partition_max_bytes=1 << 20,
        )
        rows.setdefault(at.topic_id, []).append(row)
    left: dict[uuid.UUID, list[int]] = {}
    for topic_id, index in forgotten:
        left.setdefault(topic_id, []).append(index)
    theirs = FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 25,
        isolation_level=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=[make(topic_id=topic_id, partitions=partitions) for topic_id, partitions in rows.items()],
        forgotten_topics_data=[forget(topic_id=topic_id, partitions=indexes) for topic_id, indexes in left.items()],
        rack_id="",
    )
    assert ours == bytes(theirs.encode(version=version))


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_a_request_is_what_kafka_python_would_send(version: int) -> None:
    positions = {("a", i): Position(A, 1000 + i, 5, 4) for i in range(200)} | {("b", 3): Position(B, 0)}
    assert_as_kafka_python(positions, version, (0, -1))


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_a_request_of_a_session_is_what_kafka_python_would_send(version: int) -> None:
    forgotten = [(A, index) for index in range(150)] + [(B, 3)]
    assert_as_kafka_python({("b", 3): Position(B, 7)}, version, (SESSION, 2**31 - 1), forgotten)
    assert_as_kafka_python({}, version, (SESSION, 1))


def answer(version: int, code: int = 0) -> bytes:
    topic = FetchResponse.FetchableTopicResponse
    part = topic.PartitionData
    aborted = [
        part.AbortedTransaction(producer_id=7, first_offset=3),
        part.AbortedTransaction(producer_id=8, first_offset=1),
    ]
    numbers = {"high_watermark": 90, "last_stable_offset": 80, "log_start_offset": 2, "preferred_read_replica": -1}
    rows = [
        part(partition_index=0, error_code=0, aborted_transactions=aborted, records=b"x" * 300, **numbers),
        part(partition_index=1, error_code=0, aborted_transactions=None, records=None, **numbers),
        part(
            partition_index=2,
            error_code=6,
            aborted_transactions=[],
            records=b"",
            diverging_epoch=part.EpochEndOffset(epoch=4, end_offset=55),
            current_leader=part.LeaderIdAndEpoch(leader_id=2, leader_epoch=9),
            **numbers,
        ),
    ]
    nodes = [FetchResponse.NodeEndpoint(node_id=2, host="elsewhere", port=9092, rack=None)] if version >= 16 else []
    whole = FetchResponse(
        throttle_time_ms=1,
        error_code=code,
        session_id=SESSION,
        responses=[topic(topic_id=A, partitions=rows)],
        node_endpoints=nodes,
    )
    return bytes(whole.encode(version=version))


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_an_answer_is_read_as_kafka_python_wrote_it(version: int) -> None:
    read = read_answer(memoryview(b"head" + answer(version)), 4)
    assert (read.code, read.session) == (0, SESSION)
    assert read.partitions == {
        (A, 0): Fetched(0, 90, 80, 2, ((7, 3), (8, 1)), memoryview(b"x" * 300)),
        (A, 1): Fetched(0, 90, 80, 2, (), memoryview(b"")),
        (A, 2): Fetched(6, 90, 80, 2, (), memoryview(b""), (4, 55)),
    }


def test_records_are_slices_of_the_frame() -> None:
    frame = bytearray(answer(16))
    records = read_answer(memoryview(frame)).partitions[A, 0].records
    frame[frame.index(b"x")] = ord("y")
    assert bytes(records[:2]) == b"yx"


@pytest.mark.parametrize("version", EVERY_VERSION)
def test_an_answer_cut_anywhere_raises(version: int) -> None:
    whole = answer(version)
    for size in range(len(whole)):
        with pytest.raises((ValueError, IndexError, struct.error)):
            read_answer(memoryview(whole)[:size])
    with pytest.raises(ValueError, match="after its end"):
        read_answer(memoryview(whole + b"?"))


def test_the_code_of_the_whole_answer_is_read() -> None:
    assert read_answer(memoryview(answer(17, code=-1))).code == -1
