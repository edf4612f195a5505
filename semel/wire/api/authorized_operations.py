"""The operations that the caller may do on topics, groups and the cluster, as brokers report them (KIP-430). Nothing is
written.

No broker reports them for a transactional id. A cluster without an authorizer names every operation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from kafka.protocol.admin import DescribeClusterRequest, DescribeGroupsRequest

from semel.wire import error_codes
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import metadata_request
from semel.wire.target import ANY, GroupCoordinator

__all__ = ["of_cluster", "of_group", "of_topics"]

_NAMES: Final = {
    3: "Read",
    4: "Write",
    5: "Create",
    6: "Delete",
    7: "Alter",
    8: "Describe",
    9: "ClusterAction",
    10: "DescribeConfigs",
    11: "AlterConfigs",
    12: "IdempotentWrite",
}
_NOT_THERE, _DENIED = 3, 29
_NO_GROUP, _GROUP_DENIED = 69, 30


def of_topics(
    client: Client, names: Collection[str], deadline: Deadline | None = None
) -> dict[str, frozenset[str] | None]:
    """Return the operations on each topic. None for a topic that does not exist.

    Without the right Describe the set is empty, whether the topic exists or not.
    """
    answer = client.ask(ANY, metadata_request(names, rights=True), (12, 13), code=lambda _: 0, deadline=deadline)
    operations = {
        row.name: None if row.error_code == _NOT_THERE else _named(row.authorized_operations or ())
        for row in answer.topics
    }
    for row in answer.topics:
        if row.error_code not in (0, _NOT_THERE, _DENIED) and not error_codes.of("Metadata", row.error_code).temporary:
            raise error_codes.error("Metadata", row.error_code, f"metadata of topic {row.name}", "Nothing was changed.")
    return operations


def of_group(client: Client, group: str, deadline: Deadline | None = None) -> frozenset[str] | None:
    """Return the operations on a group. None if the group does not exist yet: then brokers do not report them."""
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
    answer = client.ask(
        GroupCoordinator(group),
        request,
        (5, 6),
        code=lambda answer: int(answer.groups[0].error_code),
        deadline=deadline,
    )
    row = answer.groups[0]
    if row.error_code == _GROUP_DENIED:
        return frozenset()
    if row.error_code not in (0, _NO_GROUP):
        raise error_codes.error("DescribeGroups", row.error_code, f"describing group {group!r}", "Nothing was changed.")
    return None if row.authorized_operations is None or row.group_state == "Dead" else _named(row.authorized_operations)


def of_cluster(client: Client, deadline: Deadline | None = None) -> frozenset[str] | None:
    """Return the operations on the cluster. None without Describe on it, which Alter would imply. The caller may still
    have the others.
    """
    answer = client.ask(
        ANY, DescribeClusterRequest(include_cluster_authorized_operations=True), (0, 2), deadline=deadline
    )
    if answer.error_code:
        raise error_codes.error("DescribeCluster", answer.error_code, "describing the cluster", "Nothing was changed.")
    return _named(answer.authorized_operations or ()) or None


def _named(operations: Iterable[int]) -> frozenset[str]:
    return frozenset(_NAMES[operation] for operation in operations if operation in _NAMES)
