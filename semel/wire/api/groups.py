"""Consumer groups: their names, all offsets of one, and commits of its members or, without members, of anybody."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest

from semel.wire import error_codes
from semel.wire.api.offsets import offset_rows
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition, by_topic
from semel.wire.target import GroupCoordinator

__all__ = ["GroupOffset", "all_committed", "commit", "delete_offsets", "list_groups"]

#: The protocol types of consumer groups. A group with an empty type has only had offsets committed.
_PROTOCOLS = ("consumer", "")
_GROUP_ID_NOT_FOUND = 69


class GroupOffset(NamedTuple):
    """A committed offset of a group, and the text that its members have committed with it."""

    offset: int
    metadata: str


def list_groups(client: Client, deadline: Deadline | None = None) -> set[str]:
    """Return the names of all consumer groups. Each broker is asked for the groups that it coordinates."""
    deadline = deadline or client.deadline()
    names: set[str] = set()
    for node in client.brokers(deadline):
        request = ListGroupsRequest(states_filter=[], types_filter=[])
        answer = client.ask(node, request, (4, 5), deadline=deadline)
        if answer.error_code:
            raise error_codes.error("ListGroups", answer.error_code, "listing the groups", "Nothing was written.")
        names |= {row.group_id for row in answer.groups if row.protocol_type in _PROTOCOLS}
    return names


def all_committed(client: Client, group: str, deadline: Deadline | None = None) -> dict[TopicPartition, GroupOffset]:
    """Return all committed offsets of a group. Offsets that a transaction has pending may be missing."""
    request = OffsetFetchRequest(
        groups=[
            OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, member_id=None, member_epoch=-1, topics=None)
        ],
        require_stable=False,
    )
    answer = client.ask(
        GroupCoordinator(group),
        request,
        (8, 9),
        code=lambda answer: int(answer.groups[0].error_code),
        deadline=deadline,
    )
    row = answer.groups[0]
    if row.error_code:
        raise error_codes.error(
            "OffsetFetch", row.error_code, f"reading the offsets of group {group!r}", "Nothing was written."
        )
    return {
        (topic.name, one.partition_index): GroupOffset(int(one.committed_offset), one.metadata or "")
        for topic in row.topics
        for one in topic.partitions
        if not one.error_code and one.committed_offset >= 0
    }


def commit(
    client: Client,
    group: str,
    offsets: Mapping[TopicPartition, int],
    deadline: Deadline | None = None,
    *,
    metadata: Mapping[TopicPartition, str] = MappingProxyType({}),
    generation: int = -1,
    member: str = "",
) -> None:
    """Commit offsets outside of any transaction, with the metadata of some of them: as a member in its generation, or
    without membership. The broker refuses a member of another generation, and others if the group has members.
    """
    make = OffsetCommitRequest.OffsetCommitRequestTopic
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=None,
        topics=offset_rows(make, make.OffsetCommitRequestPartition, offsets, metadata),
    )

    def worst(answer: object) -> int:
        return int(next((p.error_code for t in answer.topics for p in t.partitions if p.error_code), 0))  # type: ignore[attr-defined]

    code = worst(client.ask(GroupCoordinator(group), request, (8, 9), code=worst, deadline=deadline))
    if code:
        raise error_codes.error(
            "OffsetCommit", code, f"committing offsets of group {group!r}", "None of them may be committed."
        )


def delete_offsets(
    client: Client, group: str, partitions: Collection[TopicPartition], deadline: Deadline | None = None
) -> None:
    """Delete a group's offsets of these partitions. A group that does not exist has none.

    Raise :class:`~semel.errors.ConfigError` if members of the group read them.
    """
    make = OffsetDeleteRequest.OffsetDeleteRequestTopic
    request = OffsetDeleteRequest(
        group_id=group,
        topics=[
            make(name=name, partitions=[make.OffsetDeleteRequestPartition(partition_index=index) for index in indexes])
            for name, indexes in by_topic(partitions).items()
        ],
    )

    def worst(answer: Any) -> int:
        rows = (one.error_code for topic in answer.topics for one in topic.partitions)
        code = int(answer.error_code or next((one for one in rows if one), 0))
        return 0 if code == _GROUP_ID_NOT_FOUND else code

    code = worst(client.ask(GroupCoordinator(group), request, (0, 0), code=worst, deadline=deadline))
    if code:
        raise error_codes.error(
            "OffsetDelete", code, f"deleting offsets of group {group!r}", "None of them may be deleted."
        )
