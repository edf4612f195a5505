"""A topic that semel keeps its own things in: made where it is missing, checked where it is there."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from semel.errors import ConfigError
from semel.wire.api import topics
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import Topic

__all__ = ["COMPACTED", "InternalTopic", "policy_fault"]

log = logging.getLogger("semel.read")

_REPLICATION = 3
COMPACTED: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic with its settings, and the words of its errors. ``config`` has the settings that it is made with."""

    name: str
    #: How its errors begin.
    subject: str
    #: Their ends: what they mean for the data, and what to do.
    advice: str
    config: Mapping[str, str]
    tag: str = "INTERNAL_TOPIC"

    def find_or_make(
        self, client: Client, partitions: int, replication: int | None, deadline: Deadline | None = None
    ) -> Topic:
        """Return the topic. One that is missing is made, with Kafka's default of three replicas unless
        ``replication`` is given, or as many as there are brokers.
        """
        deadline = deadline or client.deadline()
        topic = client.existing({self.name}, deadline).get(self.name)
        if topic is not None:
            return topic
        wanted = replication if replication is not None else min(_REPLICATION, len(client.brokers(deadline)))
        if topics.create(
            client, self.name, partitions=partitions, replication=wanted, config=self.config, deadline=deadline
        ):
            log.info("created topic %s with %d partitions", self.name, partitions)
        return client.refresh({self.name}, deadline).topics[self.name]

    def check_partitions(self, topic: Topic, *, least: int, most: int | None = None) -> None:
        """Raise :class:`ConfigError` if the topic has fewer partitions than ``least``, or more than ``most``."""
        count = len(topic.partitions)
        if count < least or (most is not None and count > most):
            raise self.refused(f"has {count} partitions, and must have {'exactly' if most else 'at least'} {least}")

    def check_policy(self, client: Client, deadline: Deadline | None = None) -> None:
        """Raise :class:`ConfigError` unless the topic is compacted, as far as this login may see its settings."""
        settings = self.settings(client, COMPACTED.keys(), deadline)
        if settings is not None and (fault := policy_fault(settings)):
            raise self.refused(fault)

    def settings(
        self, client: Client, names: Collection[str], deadline: Deadline | None = None
    ) -> dict[str, str | None] | None:
        """Return settings of the topic. Return None, with a warning, if this login may not see them."""
        try:
            return topics.topic_config(client, self.name, names, deadline)
        except ConfigError as error:
            log.warning("the settings of topic %s are not checked: %s", self.name, error.message)
            return None

    def refused(self, fault: str) -> ConfigError:
        """Return the error about a fault."""
        return ConfigError(f"{self.subject} {fault}. {self.advice}", tag=self.tag)


def policy_fault(settings: Mapping[str, str | None]) -> str:
    """Return the fault of a topic that deletes records with time, to follow its name, or an empty text."""
    policy = settings.get("cleanup.policy")
    return "" if policy == "compact" else f"has cleanup.policy={policy}: records are lost with time; set it to compact"
