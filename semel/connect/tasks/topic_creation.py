"""Topics that a connector has made where they are missing (KIP-158): ``topic.creation.…`` of a connector.

A topic is made as its first group says: the first of ``topic.creation.groups`` whose ``include`` matches its whole name
and whose ``exclude`` does not, else ``default``. Patterns are Python's. What is there already stays as it is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from semel.config import ClientConfig
from semel.connect.settings.connector_properties import ConnectorProperties
from semel.settings import REQUIRED, Setting, split_list
from semel.wire.api import topics
from semel.wire.client import Client

__all__ = ["PREFIX", "TopicCreation", "read_topic_creation"]

log = logging.getLogger("semel.connect")

PREFIX = "topic.creation."
_GROUPS, _DEFAULT = "topic.creation.groups", "default"
_OWN = ("include", "exclude", "replication.factor", "partitions")
Patterns = tuple[re.Pattern[str], ...]


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """The settings of new topics. -1 is the broker's default. Empty patterns include every topic."""

    include: Patterns
    exclude: Patterns
    replication: int
    partitions: int
    config: Mapping[str, str]

    def takes(self, topic: str) -> bool:
        """Return whether this topic is one of them."""
        included = not self.include or any(one.fullmatch(topic) for one in self.include)
        return included and not any(one.fullmatch(topic) for one in self.exclude)


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """The groups in their order, with the default as the last."""

    groups: tuple[TopicGroup, ...]
    #: Properties of the client that makes them.
    admin: Mapping[str, str]

    def create_missing(self, client: Client, names: Collection[str]) -> None:
        """Make those of these topics that ``client`` does not see. Raises what
        :func:`~semel.wire.api.topics.create` raises.
        """
        missing = sorted(set(names) - client.existing(set(names)).keys())
        if not missing:
            return
        with Client(ClientConfig.parse(self.admin)) as admin:
            for name in missing:
                group = next(group for group in self.groups if group.takes(name))
                made = topics.create(
                    admin, name, partitions=group.partitions, replication=group.replication, config=group.config
                )
                if made:
                    log.info("topic %s was made, as topic.creation says", name)


def read_topic_creation(properties: ConnectorProperties, admin: Mapping[str, str]) -> TopicCreation | None:
    """Return the settings for missing topics, or None without any. Problems are noted in ``properties``."""
    given = properties.below(PREFIX)
    if not given:
        return None
    names = properties.aliases(_GROUPS)
    for name in given:
        group = name.partition(".")[0]
        if f"{PREFIX}{name}" != _GROUPS and group not in (*names, _DEFAULT):
            properties.add(f"{PREFIX}{name}", f"{_GROUPS} does not name {group:.100}.")
    default = _group(properties, _DEFAULT, None)
    return TopicCreation((*(_group(properties, name, default) for name in names if name != _DEFAULT), default), admin)


def _group(properties: ConnectorProperties, name: str, default: TopicGroup | None) -> TopicGroup:
    prefix = f"{PREFIX}{name}."

    def number(what: str, otherwise: int) -> int:
        setting = Setting(int, REQUIRED if default is None else otherwise, 1, also=-1)
        return properties.read(f"{prefix}{what}", setting) or -1

    def patterns(what: str) -> Patterns:
        found = []
        for text in split_list(properties.text(f"{prefix}{what}")) if default is not None else ():
            try:
                found.append(re.compile(text))
            except re.error as error:
                properties.add(
                    f"{prefix}{what}", f"Invalid value {text:.200} for configuration {prefix}{what}: {error}."
                )
        return tuple(found)

    if default is not None and not properties.text(f"{prefix}include"):
        properties.missing(f"{prefix}include")
    return TopicGroup(
        patterns("include"),
        patterns("exclude"),
        number("replication.factor", default.replication if default else -1),
        number("partitions", default.partitions if default else -1),
        {key: value for key, value in properties.below(prefix).items() if key not in _OWN},
    )
