"""Topics and configurations: create, grow, delete, describe, alter."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)

from semel.errors import Retriable
from semel.wire import error_codes
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition, by_topic
from semel.wire.target import ANY

__all__ = [
    "alter_config",
    "broker_config",
    "config_of_broker",
    "create",
    "delete",
    "delete_records",
    "grow",
    "own_config",
    "topic_config",
]

_TOPIC, _BROKER = 2, 4
_UNKNOWN_TOPIC = 3
#: The source of a setting: set on the topic itself.
_OF_THE_TOPIC = 1
_SET, _DELETE = 0, 1


def create(
    client: Client,
    name: str,
    *,
    partitions: int,
    replication: int = -1,
    config: Mapping[str, str],
    deadline: Deadline | None = None,
) -> bool:
    """Create a topic and wait until the cluster shows it.

    Return False if it exists already. ``replication`` -1 is the broker's default.
    """
    deadline = deadline or client.deadline()
    make = CreateTopicsRequest.CreatableTopic
    settings = [make.CreatableTopicConfig(name=key, value=value) for key, value in sorted(config.items())]
    topic = make(name=name, num_partitions=partitions, replication_factor=replication, assignments=[], configs=settings)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=client.config.request_timeout_ms, validate_only=False)
    answer = client.ask(ANY, request, (5, 7), code=lambda answer: int(answer.topics[0].error_code), deadline=deadline)
    row = answer.topics[0]
    if row.error_code not in (0, 36):
        raise error_codes.error(
            "CreateTopics", row.error_code, f"creating topic {name!r} ({row.error_message})", "Nothing was written."
        )
    _await_leaders(client, name, 1, deadline)
    return bool(row.error_code == 0)


def grow(client: Client, name: str, partitions: int, deadline: Deadline | None = None) -> None:
    """Raise a topic's number of partitions to at least ``partitions``, and wait until the cluster shows them with
    leaders.
    """
    deadline = deadline or client.deadline()
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=client.config.request_timeout_ms, validate_only=False)
    answer = client.ask(ANY, request, (2, 3), code=lambda answer: int(answer.results[0].error_code), deadline=deadline)
    row = answer.results[0]
    # an earlier try of this request may have done it, or another client
    if row.error_code and len(client.refresh({name}, deadline).topics[name].partitions) < partitions:
        subject = f"adding partitions to topic {name!r} ({row.error_message})"
        raise error_codes.error("CreatePartitions", row.error_code, subject, "Nothing was written.")
    _await_leaders(client, name, partitions, deadline)


def delete(client: Client, name: str, deadline: Deadline | None = None) -> bool:
    """Delete a topic, and wait until the cluster does not show it any more. Return False if it did not exist."""
    deadline = deadline or client.deadline()
    topic = DeleteTopicsRequest.DeleteTopicState(name=name, topic_id=None)
    request = DeleteTopicsRequest(topics=[topic], timeout_ms=client.config.request_timeout_ms)
    absent = (_UNKNOWN_TOPIC, 0)

    def code(answer: Any) -> int:
        error_code = int(answer.responses[0].error_code)
        return 0 if error_code in absent else error_code

    answer = client.ask(ANY, request, (6, 6), code=code, deadline=deadline)
    if code(answer):
        raise error_codes.error("DeleteTopics", code(answer), f"deleting topic {name!r}", "Nothing was deleted.")
    while client.existing({name}, deadline) and not deadline.passed:
        deadline.pause()
    return bool(answer.responses[0].error_code == 0)


def delete_records(client: Client, before: Mapping[TopicPartition, int], deadline: Deadline | None = None) -> None:
    """Delete the records before an offset of each partition."""
    make = DeleteRecordsRequest.DeleteRecordsTopic

    def build(led: list[TopicPartition]) -> Any:
        topics = [
            make(
                name=topic,
                partitions=[
                    make.DeleteRecordsPartition(partition_index=index, offset=before[topic, index]) for index in indexes
                ],
            )
            for topic, indexes in by_topic(led).items()
        ]
        return DeleteRecordsRequest(topics=topics, timeout_ms=client.config.request_timeout_ms)

    def rows(answer: Any) -> dict[TopicPartition, Any]:
        return {(topic.name, row.partition_index): row for topic in answer.topics for row in topic.partitions}

    client.ask_leaders(before, build, rows, (2, 2), deadline=deadline)


def _await_leaders(client: Client, name: str, partitions: int, deadline: Deadline) -> None:
    """Wait until the cluster shows a topic with this many partitions, each with a leader, or until the deadline has
    passed.
    """
    for _ in deadline.attempts():
        seen = client.existing({name}, deadline).get(name)
        if (
            seen is not None
            and len(seen.partitions) >= partitions
            and all(p.leader >= 0 for p in seen.partitions.values())
        ):
            return


def topic_config(
    client: Client, name: str, keys: Collection[str], deadline: Deadline | None = None
) -> dict[str, str | None]:
    """Return settings of a topic, the cluster's defaults included."""
    return _describe(client, _TOPIC, name, keys, deadline)


def own_config(client: Client, name: str, deadline: Deadline | None = None) -> dict[str, str]:
    """Return the settings that were set on a topic itself."""
    return {
        entry.name: entry.value
        for entry in _entries(client, _TOPIC, name, None, deadline)
        if entry.config_source == _OF_THE_TOPIC
    }


def alter_config(
    client: Client, name: str, settings: Mapping[str, str | None], deadline: Deadline | None = None
) -> None:
    """Set settings of a topic, and unset those that are None. The others stay."""
    make = IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [
        make.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
        for key, value in sorted(settings.items())
    ]
    resource = make(resource_type=_TOPIC, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    answer = client.ask(
        ANY, request, (1, 1), code=lambda answer: int(answer.responses[0].error_code), deadline=deadline
    )
    row = answer.responses[0]
    if row.error_code:
        raise error_codes.error(
            "IncrementalAlterConfigs",
            row.error_code,
            f"altering the settings of topic {name!r} ({row.error_message})",
            "Nothing was changed.",
        )


def broker_config(client: Client, keys: Collection[str], deadline: Deadline | None = None) -> dict[str, str | None]:
    """Return settings of one broker of the cluster, the first that answers."""
    deadline = deadline or client.deadline()
    for _ in deadline.attempts():
        problem = Retriable("the cluster names no broker at the moment.")
        for node in sorted(client.brokers(deadline)):
            try:
                return _describe(
                    client,
                    _BROKER,
                    str(node),
                    keys,
                    client.deadline(min(client.config.request_timeout_ms, deadline.remaining * 1000)),
                )
            except Retriable as error:  # this broker stops or has stopped: the others have the same settings
                problem = error
    raise problem


def config_of_broker(client: Client, node: int, keys: Collection[str]) -> dict[str, str | None]:
    """Return settings of this broker."""
    return _describe(client, _BROKER, str(node), keys, client.deadline(client.config.request_timeout_ms))


def _describe(
    client: Client, kind: int, name: str, keys: Collection[str], deadline: Deadline | None
) -> dict[str, str | None]:
    return {entry.name: entry.value for entry in _entries(client, kind, name, sorted(keys), deadline)}


def _entries(client: Client, kind: int, name: str, keys: list[str] | None, deadline: Deadline | None) -> list[Any]:
    """Return the settings of these names, or all."""
    make = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(resources=[make(resource_type=kind, resource_name=name, configuration_keys=keys)])
    target = int(name) if kind == _BROKER else ANY
    answer = client.ask(
        target, request, (1, 4), code=lambda answer: int(answer.results[0].error_code), deadline=deadline
    )
    row = answer.results[0]
    if row.error_code:
        raise error_codes.error(
            "DescribeConfigs", row.error_code, f"reading the settings of {name!r}", "Nothing was written."
        )
    return list(row.configs)
