"""Offsets: of partitions (earliest, latest, by time, last stable) and of consumer groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest, OffsetForLeaderEpochRequest

from semel.wire import error_codes
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import Leaders, TopicPartition, by_topic
from semel.wire.target import GroupCoordinator

__all__ = [
    "EARLIEST",
    "LATEST",
    "Listed",
    "committed",
    "delete_group",
    "end_of_epoch",
    "list_offsets",
    "live_members",
]

LATEST, EARLIEST = -1, -2
_OFFSET_FETCH = (8, 9)
_GROUP_ID_NOT_FOUND = 69


@dataclass(frozen=True, slots=True)
class Listed:
    """An offset that a leader named. It is -1 for a look-up by time without a result."""

    offset: int
    timestamp: int
    leader_epoch: int


def list_offsets(
    client: Client,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool,
    leaders: Leaders | None = None,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, Listed]:
    """Return an offset for each partition: :data:`EARLIEST`, :data:`LATEST`, or the first at or after a timestamp in
    ms.

    With ``read_committed``, the latest is the last stable offset. With ``leaders`` only these brokers are asked, once.
    A broker that does not lead in that epoch refuses. A partition whose leader gave no answer is left out.
    """
    make = ListOffsetsRequest.ListOffsetsTopic
    make_partition = make.ListOffsetsPartition
    led_by = leaders or {}

    def build(led: list[TopicPartition]) -> Any:
        return ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(read_committed),
            topics=[
                make(
                    name=topic,
                    partitions=[
                        make_partition(
                            partition_index=i,
                            current_leader_epoch=led_by.get((topic, i), (-1, -1))[1],
                            timestamp=wanted[topic, i],
                        )
                        for i in indexes
                    ],
                )
                for topic, indexes in by_topic(led).items()
            ],
        )

    def rows(answer: Any) -> dict[TopicPartition, Any]:
        return {(topic.name, row.partition_index): row for topic in answer.topics for row in topic.partitions}

    answers = client.ask_leaders(wanted, build, rows, (5, 7), leaders=leaders, deadline=deadline)
    return {partition: Listed(row.offset, row.timestamp, row.leader_epoch) for partition, row in answers.items()}


def end_of_epoch(
    client: Client, epochs: Mapping[TopicPartition, int], deadline: Deadline | None = None
) -> dict[TopicPartition, tuple[int, int]]:
    """Return, for each partition and leader epoch, the largest epoch up to it that the log has, and its end. (-1, -1)
    if unknown.
    """
    make = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    make_partition = make.OffsetForLeaderPartition

    def build(led: list[TopicPartition]) -> Any:
        return OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                make(
                    topic=topic,
                    partitions=[
                        make_partition(partition=i, current_leader_epoch=-1, leader_epoch=epochs[topic, i])
                        for i in indexes
                    ],
                )
                for topic, indexes in by_topic(led).items()
            ],
        )

    def rows(answer: Any) -> dict[TopicPartition, Any]:
        return {(topic.topic, row.partition): row for topic in answer.topics for row in topic.partitions}

    answers = client.ask_leaders(epochs, build, rows, (4, 4), deadline=deadline)
    return {partition: (row.leader_epoch, row.end_offset) for partition, row in answers.items()}


def committed(
    client: Client,
    group: str,
    partitions: Iterable[TopicPartition],
    *,
    require_stable: bool,
    deadline: Deadline | None = None,
) -> dict[TopicPartition, int]:
    """Return the group's committed offsets. Partitions without one are left out.

    With ``require_stable`` it waits until no transaction is pending on any of them. The request names the partitions:
    in a request for all, pending ones would silently be missing. Raise :class:`~semel.errors.Retriable` at the
    deadline.
    """
    grouped = by_topic(partitions)
    make = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = [
        make.OffsetFetchRequestTopics(name=topic, partition_indexes=indexes) for topic, indexes in grouped.items()
    ]
    request = OffsetFetchRequest(
        groups=[make(group_id=group, member_id=None, member_epoch=-1, topics=topics)], require_stable=require_stable
    )

    def worst(answer: Any) -> int:
        row = answer.groups[0]
        return int(row.error_code or next((p.error_code for t in row.topics for p in t.partitions if p.error_code), 0))

    answer = client.ask(GroupCoordinator(group), request, _OFFSET_FETCH, code=worst, deadline=deadline)
    if worst(answer):
        raise error_codes.error(
            "OffsetFetch", worst(answer), f"reading the offsets of group {group!r}", "Nothing was written."
        )
    offsets = {
        (t.name, p.partition_index): int(p.committed_offset) for t in answer.groups[0].topics for p in t.partitions
    }
    return {partition: offset for partition, offset in offsets.items() if offset >= 0}


def offset_rows(
    topic: Any,
    partition: Any,
    offsets: Mapping[TopicPartition, int],
    metadata: Mapping[TopicPartition, str] = MappingProxyType({}),
) -> list[Any]:
    """Return the rows of a request that commits offsets. ``topic`` and ``partition`` are its classes for these."""
    return [
        topic(
            name=name,
            partitions=[
                partition(
                    partition_index=index,
                    committed_offset=offsets[name, index],
                    committed_leader_epoch=-1,
                    committed_metadata=metadata.get((name, index), ""),
                )
                for index in indexes
            ],
        )
        for name, indexes in by_topic(offsets).items()
    ]


def live_members(client: Client, group: str, deadline: Deadline | None = None) -> list[str]:
    """Return the client ids of the group's members. A group of the newer protocol (KIP-848) hides them from this
    request: return its state.
    """
    answer = client.ask(
        GroupCoordinator(group),
        DescribeGroupsRequest(groups=[group]),
        (5, 6),
        code=lambda answer: int(answer.groups[0].error_code),
        deadline=deadline,
    )
    row = answer.groups[0]
    if row.error_code not in (0, 69):
        raise error_codes.error("DescribeGroups", row.error_code, f"describing group {group!r}", "Nothing was written.")
    if row.members:
        return sorted({member.client_id for member in row.members})
    listed = client.ask(
        GroupCoordinator(group),
        ListGroupsRequest(states_filter=[], types_filter=["consumer"]),
        (5, 5),
        deadline=deadline,
    )
    return [
        f"a {g.group_type} group in state {g.group_state}"
        for g in listed.groups
        if g.group_id == group and g.group_state not in ("Empty", "Dead")
    ]


def delete_group(client: Client, group: str, deadline: Deadline | None = None) -> bool:
    """Delete a group with its offsets. Return False if it did not exist.

    Raise :class:`~semel.errors.ConfigError` if it has members.
    """
    absent = (_GROUP_ID_NOT_FOUND, 0)

    def code(answer: Any) -> int:
        error_code = int(answer.results[0].error_code)
        return 0 if error_code in absent else error_code

    request = DeleteGroupsRequest(groups_names=[group])
    answer = client.ask(GroupCoordinator(group), request, (2, 2), code=code, deadline=deadline)
    if code(answer):
        raise error_codes.error("DeleteGroups", code(answer), f"deleting group {group!r}", "Nothing was deleted.")
    return bool(answer.results[0].error_code == 0)
