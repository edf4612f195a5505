"""Membership in a group of the classic protocol, of any protocol type: join, share out, heartbeat, leave.

The caller decides about the assignments. A code for a group that continues without this member, or is about to change,
is returned: the reaction depends on the member's assignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from semel.errors import Fenced, SemelError
from semel.wire import error_codes
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.target import GroupCoordinator

__all__ = ["GONE", "REBALANCING", "UNKNOWN_MEMBER", "Joined", "Member", "heartbeat", "join", "leave", "members", "sync"]

#: The group is about to have another generation: join again.
REBALANCING = 27
#: The group continues without this member.
UNKNOWN_MEMBER = 25
#: The group continues without this member, or in another generation.
GONE = (22, UNKNOWN_MEMBER)
_MEMBER_ID_REQUIRED = 79
_FENCED_INSTANCE_ID = 82


class Member(NamedTuple):
    """A member as its group's leader sees it: its metadata, and its ``group.instance.id`` if it is static."""

    metadata: bytes
    instance: str | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """A generation of a group. ``members`` is empty unless this one leads."""

    kind: str
    protocol: str
    generation: int
    member: str
    instance: str | None
    leader: str
    members: Mapping[str, Member]
    #: True for a static leader that has come back: the group keeps the assignments that it had.
    unchanged: bool = False

    @property
    def leads(self) -> bool:
        """True if this member shares out."""
        return self.leader == self.member


def join(
    client: Client,
    group: str,
    member: str,
    *,
    kind: str,
    protocols: Mapping[str, bytes],
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
    deadline: Deadline,
    instance: str | None = None,
) -> Joined | str:
    """Join, and wait until all members have. Return a text if the group wants this member under another id: join again
    with that one, which is empty if the group has forgotten the member.

    ``kind`` is the group's protocol type. ``protocols`` are this member's, with its metadata for each; all members must
    have one in common. The connection is busy until then.

    Raise :class:`~semel.errors.ConfigError` tagged INCONSISTENT_GROUP_PROTOCOL if members of other protocols are in the
    group, :class:`~semel.errors.Fenced` if another member has this ``instance``, and
    :class:`~semel.errors.Retriable` if the group was not joined until the deadline.
    """
    make = JoinGroupRequest.JoinGroupRequestProtocol
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member,
        group_instance_id=instance,
        protocol_type=kind,
        protocols=[make(name=name, metadata=metadata) for name, metadata in protocols.items()],
        reason=None,
    )
    answer = client.ask(GroupCoordinator(group), request, (6, 9), deadline=deadline)
    if answer.error_code == _MEMBER_ID_REQUIRED:
        return str(answer.member_id)
    if answer.error_code in GONE:
        return ""
    if answer.error_code:
        raise _refused("JoinGroup", answer.error_code, f"joining group {group!r}", "Nothing was started.", instance)
    return Joined(
        kind,
        answer.protocol_name,
        answer.generation_id,
        answer.member_id,
        instance,
        answer.leader,
        {row.member_id: Member(bytes(row.metadata), row.group_instance_id) for row in answer.members},
        bool(answer.skip_assignment),
    )


def sync(
    client: Client, group: str, joined: Joined, assignments: Mapping[str, bytes], deadline: Deadline | None = None
) -> bytes | None:
    """Return the assignment that the group's leader has given this member. The leader gives ``assignments``, other
    members give none.

    Return None if the group is about to have another generation, or continues without this member.
    """
    make = SyncGroupRequest.SyncGroupRequestAssignment
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation,
        member_id=joined.member,
        group_instance_id=joined.instance,
        protocol_type=joined.kind,
        protocol_name=joined.protocol,
        assignments=[make(member_id=member, assignment=share) for member, share in assignments.items()],
    )
    answer = client.ask(GroupCoordinator(group), request, (5, 5), deadline=deadline)
    code = int(answer.error_code)
    if code in (REBALANCING, *GONE):
        return None
    if code:
        raise _refused("SyncGroup", code, f"joining group {group!r}", "Nothing was started.", joined.instance)
    return bytes(answer.assignment)


def heartbeat(
    client: Client,
    group: str,
    generation: int,
    member: str,
    instance: str | None = None,
    deadline: Deadline | None = None,
) -> int:
    """Send a heartbeat. Return 0, :data:`REBALANCING`, or one of :data:`GONE`; raise any other code."""
    request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member, group_instance_id=instance)
    answer = client.ask(GroupCoordinator(group), request, (3, 4), deadline=deadline)
    code = int(answer.error_code)
    if code not in (0, REBALANCING, *GONE):
        raise _refused("Heartbeat", code, f"staying in group {group!r}", "Nothing was written by it.", instance)
    return code


def leave(client: Client, group: str, member: str, deadline: Deadline | None = None) -> None:
    """Make a member leave: the group continues at once. A member that has left already is no error."""
    identity = LeaveGroupRequest.MemberIdentity(member_id=member, group_instance_id=None, reason=None)
    request = LeaveGroupRequest(group_id=group, members=[identity])
    answer = client.ask(GroupCoordinator(group), request, (4, 5), deadline=deadline)
    code = int(answer.error_code or next((row.error_code for row in answer.members if row.error_code), 0))
    if code and code not in GONE:
        raise _refused("LeaveGroup", code, f"leaving group {group!r}", "Nothing was written by it.", None)


def members(client: Client, group: str, kind: str) -> dict[str, bytes]:
    """Return the metadata of each member of a group of this protocol type, by member id."""
    answer: Any = client.ask(
        GroupCoordinator(group),
        DescribeGroupsRequest(groups=[group]),
        (5, 6),
        code=lambda answer: int(answer.groups[0].error_code),
    )
    row = answer.groups[0]
    if row.error_code or row.protocol_type != kind:
        return {}
    return {member.member_id: bytes(member.member_metadata) for member in row.members}


def _refused(api: str, code: int, subject: str, meaning: str, instance: str | None) -> SemelError:
    if code == _FENCED_INSTANCE_ID:
        return Fenced(
            f"{subject}: another member has come with group.instance.id {instance!r}. What this one had not committed"
            " is not visible. Give each worker an instance id of its own, and stop one of the two.",
            tag="FENCED_INSTANCE_ID",
        )
    return error_codes.error(api, code, subject, meaning)
