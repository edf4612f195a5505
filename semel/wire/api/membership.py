"""Membership in a group of the classic protocol, of any protocol type: join, share out, heartbeat, leave.

The caller decides about the assignments. A code for a group that continues without this member, or is about to change,
is returned: the reaction depends on the member's assignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest

from semel.wire import error_codes
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.target import GroupCoordinator

__all__ = ["GONE", "REBALANCING", "UNKNOWN_MEMBER", "Joined", "heartbeat", "join", "leave", "members", "sync"]

#: The group is about to have another generation: join again.
REBALANCING = 27
#: The group continues without this member.
UNKNOWN_MEMBER = 25
#: The group continues without this member, or in another generation.
GONE = (22, UNKNOWN_MEMBER)
_MEMBER_ID_REQUIRED = 79


@dataclass(frozen=True, slots=True)
class Joined:
    """A generation of a group. ``members`` has the metadata of each member. It is empty unless this one leads."""

    generation: int
    member: str
    leader: str
    members: Mapping[str, bytes]

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
    protocol: str,
    about: bytes,
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
) -> Joined | None:
    """Join, and wait until all members have. Return None if the group does not know this member any more: join again
    without an id.

    ``kind`` is the group's protocol type, ``protocol`` the one that all of its members must have. The connection is
    busy until then. Raise :class:`~semel.errors.ConfigError` tagged INCONSISTENT_GROUP_PROTOCOL if members of another
    protocol are in the group. Raise :class:`~semel.errors.Retriable` if the group was not joined within the time of a
    rebalance.
    """
    deadline = client.deadline(rebalance_timeout_ms + session_timeout_ms)
    while True:
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member,
            group_instance_id=None,
            protocol_type=kind,
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name=protocol, metadata=about)],
            reason=None,
        )
        answer = client.ask(GroupCoordinator(group), request, (6, 9), deadline=deadline)
        if answer.error_code != _MEMBER_ID_REQUIRED:
            break
        member = answer.member_id
    if answer.error_code in GONE:
        return None
    if answer.error_code:
        raise error_codes.error("JoinGroup", answer.error_code, f"joining group {group!r}", "Nothing was started.")
    found = {row.member_id: bytes(row.metadata) for row in answer.members}
    return Joined(answer.generation_id, answer.member_id, answer.leader, found)


def sync(
    client: Client, group: str, joined: Joined, assignments: Mapping[str, bytes], *, kind: str, protocol: str
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
        group_instance_id=None,
        protocol_type=kind,
        protocol_name=protocol,
        assignments=[make(member_id=member, assignment=given) for member, given in assignments.items()],
    )
    answer = client.ask(GroupCoordinator(group), request, (5, 5))
    if answer.error_code in (REBALANCING, *GONE):
        return None
    if answer.error_code:
        raise error_codes.error("SyncGroup", answer.error_code, f"joining group {group!r}", "Nothing was started.")
    return bytes(answer.assignment)


def heartbeat(client: Client, group: str, joined: Joined, deadline: Deadline | None = None) -> int:
    """Send a heartbeat. Return 0, :data:`REBALANCING`, or one of :data:`GONE`; raise any other code."""
    request = HeartbeatRequest(
        group_id=group, generation_id=joined.generation, member_id=joined.member, group_instance_id=None
    )
    answer = client.ask(GroupCoordinator(group), request, (3, 4), deadline=deadline)
    code = int(answer.error_code)
    if code not in (0, REBALANCING, *GONE):
        raise error_codes.error("Heartbeat", code, f"staying in group {group!r}", "Nothing was written by it.")
    return code


def leave(client: Client, group: str, member: str) -> None:
    """Make a member leave: the group continues at once. A member that has left already is no error."""
    identity = LeaveGroupRequest.MemberIdentity(member_id=member, group_instance_id=None, reason=None)
    request = LeaveGroupRequest(group_id=group, members=[identity])
    answer = client.ask(GroupCoordinator(group), request, (4, 5))
    code = int(answer.error_code or next((row.error_code for row in answer.members if row.error_code), 0))
    if code and code not in GONE:
        raise error_codes.error("LeaveGroup", code, f"leaving group {group!r}", "Nothing was written by it.")


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
