"""Access rights of topics: list and create."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

from kafka.protocol.admin import CreateAclsRequest, DescribeAclsRequest

from semel.wire import error_codes
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.target import ANY

__all__ = ["ALL_TOPICS", "Acl", "Operation", "Permission", "create", "topic_acls"]

#: The name of a right on every topic.
ALL_TOPICS: Final = "*"
_TOPIC = 2
_ANY, _LITERAL = 1, 3
_SECURITY_DISABLED = 54
#: So many rights in a request at most.
_MOST = 500


class Operation(IntEnum):
    """Operation of a right, as far as this module's callers tell one from another."""

    ALL = 2
    READ = 3
    WRITE = 4


class Permission(IntEnum):
    """Kind of a right."""

    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class Acl:
    """A right on a topic by its whole name. ``operation`` and ``permission`` are Kafka's numbers."""

    topic: str
    principal: str
    host: str
    operation: int
    permission: int


def topic_acls(client: Client, deadline: Deadline | None = None) -> list[Acl] | None:
    """Return the rights on topics by their whole names, or None if the cluster has no authorizer."""
    request = DescribeAclsRequest(
        resource_type_filter=_TOPIC,
        resource_name_filter=None,
        pattern_type_filter=_LITERAL,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    answer = client.ask(ANY, request, (2, 3), deadline=deadline)
    if answer.error_code == _SECURITY_DISABLED:
        return None
    if answer.error_code:
        raise error_codes.error(
            "DescribeAcls", answer.error_code, "listing the rights on topics", "Nothing was changed."
        )
    return [
        Acl(resource.resource_name, one.principal, one.host, one.operation, one.permission_type)
        for resource in answer.resources
        for one in resource.acls
    ]


def create(client: Client, acls: Collection[Acl], deadline: Deadline | None = None) -> None:
    """Create rights. Those that exist stay. Raise the first refusal, after all others have been created."""
    make = CreateAclsRequest.AclCreation
    rows, refused = list(acls), None
    for first in range(0, len(rows), _MOST):
        part = rows[first : first + _MOST]
        creations = [
            make(
                resource_type=_TOPIC,
                resource_name=one.topic,
                resource_pattern_type=_LITERAL,
                principal=one.principal,
                host=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in part
        ]

        answer = client.ask(ANY, CreateAclsRequest(creations=creations), (2, 3), code=_temporary, deadline=deadline)
        for one, result in zip(part, answer.results, strict=True):
            if result.error_code and refused is None:
                refused = one, result
    if refused is not None:
        one, result = refused
        subject = f"creating a right on topic {one.topic!r} ({result.error_message})"
        raise error_codes.error("CreateAcls", result.error_code, subject, "Other rights may have been created.")


def _temporary(answer: Any) -> int:
    """Return a code for which the request is repeated, or 0."""
    codes = (int(result.error_code) for result in answer.results)
    return next((one for one in codes if error_codes.of("CreateAcls", one).temporary), 0)
