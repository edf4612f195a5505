"""Cutting the front of a progress partition off, as whoever sets a policy of deleting on it for a while."""

from __future__ import annotations

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from semel.config import ClientConfig
from semel.transaction.progress.topic import ProgressTopic
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.api.topics import topic_config
from semel.wire.client import Client
from tests.support.other_client import delete_records
from tests.support.waiting import wait_for

__all__ = ["cut"]


def cut(servers: str, prefix: str, topic: str, *, but: int = 0) -> None:
    """Delete all records of the partition of this prefix but the last ones."""
    with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        partition = ProgressTopic(client, prefix, "producer", topic).partition
        end = list_offsets(client, {partition: LATEST}, read_committed=False)[partition].offset
        _set_policy(client, servers, topic, "compact,delete")
        wait_for(lambda: _deleted(servers, *partition, end - but), "the records' deletion")
        _set_policy(client, servers, topic, "compact")


def _deleted(servers: str, topic: str, partition: int, before: int) -> bool:
    """Return whether the log uses the new policy already: brokers report it a moment earlier."""
    try:
        delete_records(servers, topic, partition, before)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.POLICY_VIOLATION:
            raise
        return False
    return True


def _set_policy(client: Client, servers: str, topic: str, wanted: str) -> None:
    """Set a policy, and return when the brokers report it."""
    entry = ConfigEntry("cleanup.policy", wanted, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": servers})
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result(60)
    wait_for(
        lambda: topic_config(client, topic, ["cleanup.policy"])["cleanup.policy"] == wanted, f"cleanup.policy={wanted}"
    )
