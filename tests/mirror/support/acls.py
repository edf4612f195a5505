"""Access rights of a cluster, by a client that is not ours."""

from __future__ import annotations

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from semel.sandbox import Sandbox
from tests.support.waiting import wait_for

Right = tuple[str, str, str, str]


def allow(
    sandbox: Sandbox,
    topic: str,
    operation: AclOperation,
    permission: AclPermissionType = AclPermissionType.ALLOW,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    host: str = "*",
) -> None:
    admin = AdminClient({"bootstrap.servers": sandbox.bootstrap_servers})
    binding = AclBinding(ResourceType.TOPIC, topic, pattern, "User:ann", host, operation, permission)
    for done in admin.create_acls([binding]).values():
        done.result(30)
    wait_for(lambda: rights(sandbox), "the right")


def rights(sandbox: Sandbox) -> set[Right]:
    """Topic, host, operation and permission of each right on a topic."""
    admin = AdminClient({"bootstrap.servers": sandbox.bootstrap_servers})
    everything = AclBindingFilter(
        ResourceType.TOPIC, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    return {
        (acl.name, acl.host, acl.operation.name, acl.permission_type.name)
        for acl in admin.describe_acls(everything).result(30)
    }
