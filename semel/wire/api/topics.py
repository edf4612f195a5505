"""Topics and configurations: create, grow, delete, describe, alter."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)

from semel.errors import Retriable, SemelError
from semel.wire import error_codes
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition, by_topic
from semel.wire.target import ANY

__all__ = [
    "NewTopic",
    "alter_config",
    "broker_config",
    "config_of_broker",
    "create",
    "create_all",
    "delete",
    "delete_records",
    "grow",
    "own_config",
    "own_configs",
    "topic_config",
    "topic_configs",
]

_TOPIC, _BROKER = 2, 4
_UNKNOWN_TOPIC, _EXISTS = 3, 36
#: Records of the controller's log that a request may make: it refuses more than 10,000.
_MOST_RECORDS = 5_000
#: Topics that are described in a request.
_MOST_DESCRIBED = 500
#: The source of a setting: set on the topic itself.
_OF_THE_TOPIC = 1
_SET, _DELETE = 0, 1


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to make. ``replication`` -1 is the broker's default."""

    name: str
    partitions: int
    replication: int = -1
    config: Mapping[str, str] = field(default_factory=dict)


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
    made = create_all(client, [NewTopic(name, partitions, replication, config)], deadline)[name]
    if isinstance(made, SemelError):
        raise made
    return made


def create_all(
    client: Client, wanted: Sequence[NewTopic], deadline: Deadline | None = None
) -> dict[str, bool | SemelError]:
    """Create topics, many in a request, and wait until the cluster shows them.

    Return for each whether it was made: False if it exists already, or the error if it is refused.
    """
    deadline = deadline or client.deadline()
    made: dict[str, bool | SemelError] = {}
    for some in _in_requests(wanted):
        for row in _created(client, some, deadline):
            made[row.name] = _refused(row) if row.error_code not in (0, _EXISTS) else row.error_code == 0
    _await_leaders(client, {name: 1 for name, one in made.items() if not isinstance(one, SemelError)}, deadline)
    return made


def _in_requests(wanted: Sequence[NewTopic]) -> Iterator[list[NewTopic]]:
    """Yield the topics of each request: a controller refuses one that makes too many records of its log."""
    some: list[NewTopic] = []
    size = 0
    for one in wanted:
        of_one = 1 + one.partitions + len(one.config)
        if some and size + of_one > _MOST_RECORDS:
            yield some
            some, size = [], 0
        some.append(one)
        size += of_one
    if some:
        yield some


def _created(client: Client, wanted: Sequence[NewTopic], deadline: Deadline) -> list[Any]:
    make = CreateTopicsRequest.CreatableTopic
    topics = [
        make(
            name=one.name,
            num_partitions=one.partitions,
            replication_factor=one.replication,
            assignments=[],
            configs=[make.CreatableTopicConfig(name=key, value=value) for key, value in sorted(one.config.items())],
        )
        for one in wanted
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=client.config.request_timeout_ms, validate_only=False)

    def code(answer: Any) -> int:
        """Return a code for which the request is repeated: what it has made exists then."""
        codes = (int(row.error_code) for row in answer.topics)
        return next((one for one in codes if error_codes.of("CreateTopics", one).temporary), 0)

    return list(client.ask(ANY, request, (5, 7), code=code, deadline=deadline).topics)


def _refused(row: Any) -> SemelError:
    subject = f"creating topic {row.name!r} ({row.error_message})"
    return error_codes.error("CreateTopics", row.error_code, subject, "Nothing was written.")


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
    _await_leaders(client, {name: partitions}, deadline)


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


def _await_leaders(client: Client, partitions: Mapping[str, int], deadline: Deadline) -> None:
    """Wait until the cluster shows topics with this many partitions, each with a leader, or until the deadline has
    passed.
    """
    left = dict(partitions)
    for _ in deadline.attempts() if left else ():
        seen = client.existing(left, deadline)
        for name, topic in seen.items():
            if len(topic.partitions) >= left[name] and all(p.leader >= 0 for p in topic.partitions.values()):
                del left[name]
        if not left:
            return


def topic_config(
    client: Client, name: str, keys: Collection[str], deadline: Deadline | None = None
) -> dict[str, str | None]:
    """Return settings of a topic, the cluster's defaults included."""
    return _describe(client, _TOPIC, name, keys, deadline)


def own_config(client: Client, name: str, deadline: Deadline | None = None) -> dict[str, str]:
    """Return the settings that were set on a topic itself."""
    return _set_on_it(_entries(client, _TOPIC, name, None, deadline))


def own_configs(
    client: Client, names: Sequence[str], deadline: Deadline | None = None
) -> dict[str, dict[str, str] | SemelError]:
    """Return the settings that were set on each topic itself, or the error of a topic. Many are asked in a request."""
    found = _entries_of(client, _TOPIC, names, None, deadline)
    return {name: row if isinstance(row, SemelError) else _set_on_it(row) for name, row in found.items()}


def topic_configs(
    client: Client, names: Sequence[str], keys: Collection[str], deadline: Deadline | None = None
) -> dict[str, dict[str, str | None] | SemelError]:
    """Return settings of each topic, the cluster's defaults included, or the error of a topic."""
    found = _entries_of(client, _TOPIC, names, sorted(keys), deadline)
    return {
        name: row if isinstance(row, SemelError) else {entry.name: entry.value for entry in row}
        for name, row in found.items()
    }


def _set_on_it(entries: Sequence[Any]) -> dict[str, str]:
    return {entry.name: entry.value for entry in entries if entry.config_source == _OF_THE_TOPIC}


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
    found = _entries_of(client, kind, [name], keys, deadline)[name]
    if isinstance(found, SemelError):
        raise found
    return found


def _entries_of(
    client: Client, kind: int, names: Sequence[str], keys: list[str] | None, deadline: Deadline | None
) -> dict[str, list[Any] | SemelError]:
    """Return the settings of each resource, or its error. A broker is asked itself."""
    found: dict[str, list[Any] | SemelError] = {}
    make = DescribeConfigsRequest.DescribeConfigsResource

    def code(answer: Any) -> int:
        codes = (int(row.error_code) for row in answer.results)
        return next((one for one in codes if error_codes.of("DescribeConfigs", one).temporary), 0)

    for start in range(0, len(names), _MOST_DESCRIBED):
        resources = [
            make(resource_type=kind, resource_name=name, configuration_keys=keys)
            for name in names[start : start + _MOST_DESCRIBED]
        ]
        target = int(names[0]) if kind == _BROKER else ANY
        answer = client.ask(target, DescribeConfigsRequest(resources=resources), (1, 4), code=code, deadline=deadline)
        for row in answer.results:
            found[row.resource_name] = (
                error_codes.error(
                    "DescribeConfigs",
                    row.error_code,
                    f"reading the settings of {row.resource_name!r}",
                    "Nothing was written.",
                )
                if row.error_code
                else list(row.configs)
            )
    return found
