"""The offsets of a sink by REST (KIP-875): those of its consumer group, in Kafka's form and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from semel.config import ClientConfig
from semel.connect.herder.connector_calls import ask_connector, within
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.sink_config import SinkSettings
from semel.connect.sink_api import SinkConnector
from semel.errors import ConfigError, SemelError
from semel.wire.api import groups
from semel.wire.api.offsets import delete_group, live_members
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["alter_sink_offsets", "sink_offsets"]

_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
Altered = Mapping[TopicPartition, int | None]


def sink_offsets(config: ConnectorConfig, sink: SinkSettings) -> list[dict[str, Any]]:
    """Return the committed offsets of a sink's group."""
    with Client(ClientConfig.parse(config.clients.admin)) as client:
        found = groups.all_committed(client, sink.group)
    return [
        {"partition": {_PARTITION: index, _TOPIC: topic}, "offset": {_OFFSET: one.offset}}
        for (topic, index), one in sorted(found.items())
    ]


def alter_sink_offsets(
    config: ConnectorConfig,
    sink: SinkSettings,
    offsets: Sequence[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]] | None,
    timeout_ms: int,
) -> bool:
    """Set offsets of a sink whose tasks have stopped; None for all of them removes what the group has.

    The target is asked first: one that keeps offsets itself changes them, or refuses. Raises :class:`ConfigError` for
    offsets that are none, and while the group has members.
    """
    what = "reset" if offsets is None else "alter"
    wanted = None if offsets is None else dict(_parsed(*one) for one in offsets)
    with Client(ClientConfig.parse(config.clients.admin)) as client:
        if live_members(client, sink.group):
            raise _zombie(config.name, what)
        if wanted is None:
            in_target: Altered = dict.fromkeys(_partitions(client, sink))
        else:
            in_target = wanted
            _check(client, config.name, wanted)
        alone = within(timeout_ms, config.name, lambda: _ask(config, in_target))
        try:
            _change(client, sink.group, wanted)
        except SemelError as error:
            if error.tag in ("UNKNOWN_MEMBER_ID", "NON_EMPTY_GROUP", "GROUP_SUBSCRIBED_TO_TOPIC"):
                raise _zombie(config.name, what, "The group's offsets were not changed; the target's may be") from error
            raise
    return alone


def _change(client: Client, group: str, wanted: Altered | None) -> None:
    if wanted is None:
        delete_group(client, group)
        return
    removed = [partition for partition, offset in wanted.items() if offset is None]
    kept = {partition: offset for partition, offset in wanted.items() if offset is not None}
    if kept:
        groups.commit(client, group, kept)
    if removed:
        groups.delete_offsets(client, group, removed)


def _partitions(client: Client, sink: SinkSettings) -> set[TopicPartition]:
    """Return all partitions of the sink's topics, and those for which its group has offsets."""
    there = client.refresh(None).topics
    named = {(name, index) for name, topic in there.items() if sink.takes(name) for index in topic.partitions}
    return named | groups.all_committed(client, sink.group).keys()


def _ask(config: ConnectorConfig, offsets: Altered) -> bool:
    connector = config.connector
    assert isinstance(connector, SinkConnector)

    def ask() -> bool:
        try:
            return connector.alter_offsets(config.own, offsets)
        except ValueError as error:
            raise ConfigError(
                f"connector {config.name} refused these offsets: {error}. No offset was changed. Correct them.",
                tag="OFFSET_REFUSED",
            ) from error

    return ask_connector(config.name, "alter_offsets", ask)


def _check(client: Client, name: str, wanted: Altered) -> None:
    """Refuse offsets of partitions that are not there, before the target is changed."""
    there = client.existing({topic for topic, _ in wanted})
    for (topic, index), offset in wanted.items():
        if offset is not None and (offset < 0 or topic not in there or index not in there[topic].partitions):
            why = f"{topic}-{index} does not exist" if offset >= 0 else f"{offset} is below 0"
            raise ConfigError(
                f"Failed to alter consumer group offsets for connector {name}: {why}. No offset was changed."
                " Correct it.",
                tag="OFFSET_REFUSED",
            )


def _parsed(partition: Mapping[str, Any] | None, offset: Mapping[str, Any] | None) -> tuple[TopicPartition, int | None]:
    if partition is None:
        raise _bad("The partition for a sink connector offset cannot be null or missing")
    if not {_TOPIC, _PARTITION} <= partition.keys():
        raise _bad(f"The partition for a sink connector offset must contain the keys '{_TOPIC}' and '{_PARTITION}'")
    topic = partition[_TOPIC]
    if topic is None:
        raise _bad("Kafka topic names must be valid strings and may not be null")
    index = _number(partition[_PARTITION], "partition", "Partition")
    if offset is None:
        return (str(topic), index), None
    if _OFFSET not in offset:
        raise _bad(f"The offset for a sink connector should either be null or contain the key '{_OFFSET}'")
    return (str(topic), index), _number(offset[_OFFSET], "offset", "Offset")


def _number(value: Any, what: str, title: str) -> int:
    try:
        if isinstance(value, int | str) and not isinstance(value, bool):
            return int(value)
    except ValueError:
        pass
    raise _bad(
        f"Failed to parse the following Kafka {what} value in the provided offsets: '{value!s:.100}'. {title} values"
        " for sink connectors need to be integers."
    )


def _bad(text: str) -> ConfigError:
    return ConfigError(text, tag="REQUEST")


def _zombie(name: str, what: str, changed: str = "No offset was changed") -> ConfigError:
    return ConfigError(
        f"Failed to {what} consumer group offsets for connector {name}: its group has members, so its tasks have not"
        f" ended, or it was resumed meanwhile. {changed}. Stop it and retry; if that does not help, restart"
        " the cluster to end a zombie sink task.",
        tag="ZOMBIE_SINK_TASK",
    )
