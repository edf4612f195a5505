"""Settings that every sink has, by the names of Kafka Connect's SinkConnectorConfig, and those of its consumer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from semel.connect.settings.connector_properties import ConnectorProperties
from semel.errors import SemelError
from semel.settings import Setting, read_settings, split_list
from semel.wire.consumer_protocol import ASSIGNORS, Assignor

__all__ = ["CONSUMER", "SinkSettings", "check_topics", "read_sink"]

_PREFIX = "consumer.override."
_ASSIGNORS = "partition.assignment.strategy"
#: Settings of a task's consumer that are no settings of its client, with the defaults that Kafka Connect gives them.
CONSUMER: Mapping[str, Setting] = {
    "group.id": Setting(str, ""),
    "auto.offset.reset": Setting(str, "earliest", one_of=("earliest", "latest")),
    "max.poll.records": Setting(int, 500, 1),
    "max.poll.interval.ms": Setting(int, 300_000, 1),
    "session.timeout.ms": Setting(int, 45_000, 1),
    "heartbeat.interval.ms": Setting(int, 3_000, 1),
    _ASSIGNORS: Setting(list, ("range",)),
}
_TOPICS, _PATTERN = "topics", "topics.regex"
_LETTERS = "errors.deadletterqueue.topic.name"


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """What a sink reads, and how. ``topics`` or a ``pattern``, never both."""

    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None
    group: str
    reset: str
    max_poll_records: int
    max_poll_interval_ms: int
    session_timeout_ms: int
    heartbeat_ms: int
    assignors: tuple[Assignor, ...]
    #: How long a conversion is tried again, in ms; -1 for ever.
    retry_timeout_ms: int
    retry_longest_ms: int
    #: The replication factor of a dead-letter topic that is made.
    dead_letters_replication: int

    def takes(self, topic: str) -> bool:
        """Return whether a topic is read."""
        return self.pattern.fullmatch(topic) is not None if self.pattern is not None else topic in self.topics


def check_topics(properties: ConnectorProperties) -> None:
    """Note what contradicts itself: exactly one of topics and topics.regex, and no dead letters into them."""
    given = properties.given
    topics, pattern, letters = (given.get(name, "") for name in (_TOPICS, _PATTERN, _LETTERS))
    if topics and pattern:
        text = "topics and topics.regex are mutually exclusive options, but both are set."
        for name in (_TOPICS, _PATTERN):
            properties.add(name, text, remedy="Give one of them.")
    elif not topics and not pattern:
        text = "Must configure one of topics or topics.regex"
        for name in (_TOPICS, _PATTERN):
            properties.add(name, text, remedy="Give one of them.")
    names = split_list(topics)
    if letters and letters in names:
        text = f"The DLQ topic '{letters}' may not be included in the list of topics ('topics=[{', '.join(names)}]')"
        properties.add(_TOPICS, f"{text} consumed by the connector")
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        properties.invalid(_PATTERN, f"Invalid regex: {error}.")
        return
    if letters and pattern and compiled.fullmatch(letters):
        text = (
            f"The DLQ topic '{letters}' may not be included in the regex matching the topics ('topics.regex={pattern}')"
        )
        properties.add(_PATTERN, f"{text} consumed by the connector")


def read_sink(
    properties: ConnectorProperties, name: str, common: Mapping[str, Any], consumer: Mapping[str, str]
) -> SinkSettings | None:
    """Return the settings of a sink. Problems are noted in ``properties``, and None is returned then."""
    before = len(properties.problems)
    check_topics(properties)
    values = _consumer(properties, consumer)
    if values is None or len(properties.problems) > before:
        return None
    pattern = common[_PATTERN]
    return SinkSettings(
        topics=tuple(common[_TOPICS]),
        pattern=re.compile(pattern) if pattern else None,
        group=values["group.id"] or f"connect-{name}",
        reset=values["auto.offset.reset"],
        max_poll_records=values["max.poll.records"],
        max_poll_interval_ms=values["max.poll.interval.ms"],
        session_timeout_ms=values["session.timeout.ms"],
        heartbeat_ms=min(values["heartbeat.interval.ms"], max(1, values["session.timeout.ms"] // 3)),
        assignors=tuple(ASSIGNORS[_short(one)] for one in values[_ASSIGNORS]),
        retry_timeout_ms=common["errors.retry.timeout"],
        retry_longest_ms=common["errors.retry.delay.max.ms"],
        dead_letters_replication=common["errors.deadletterqueue.topic.replication.factor"],
    )


def _consumer(properties: ConnectorProperties, given: Mapping[str, str]) -> dict[str, Any] | None:
    try:
        values = read_settings(CONSUMER, given, prefix=_PREFIX)
    except SemelError as error:
        name = next((one for one in CONSUMER if error.message.startswith(f"{_PREFIX}{one}=")), _PREFIX)
        properties.raised(f"{_PREFIX}{name}", error)
        return None
    for one in values[_ASSIGNORS]:
        if _short(one) not in ASSIGNORS:
            text = f"{_PREFIX}{_ASSIGNORS}={one:.100} is not there: semel has range and roundrobin."
            properties.add(f"{_PREFIX}{_ASSIGNORS}", text, remedy="Name one of them.")
            return None
    return values


def _short(name: str) -> str:
    """Return an assignor's name; Kafka's clients name its class."""
    return name.rpartition(".")[2].removesuffix("Assignor").lower()
