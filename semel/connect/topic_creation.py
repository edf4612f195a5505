"""Topics that a connector has made where they are missing (KIP-158): ``topic.creation.…`` of a connector.

A topic is made as its first group says: the first of ``topic.creation.groups`` whose ``include`` matches its whole name
and whose ``exclude`` does not, else ``default``. Patterns are Python's. What is there already stays as it is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from semel.config import ClientConfig
from semel.connect.api import Setting
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


def read_topic_creation(
    given: Mapping[str, str],
    admin: Mapping[str, str],
    convert: Callable[[str, str, Setting], Any],
    report: Callable[[str, str], None],
) -> TopicCreation | None:
    """Return the settings for missing topics, or None without any.

    ``convert`` reads one value and reports what is wrong with it, ``report`` takes what else is.
    """
    if not any(name.startswith(PREFIX) for name in given):
        return None
    names = [one.strip() for one in given.get(_GROUPS, "").split(",") if one.strip()]
    if len(set(names)) < len(names):
        report(_GROUPS, f"{_GROUPS} names one twice.")
    for name in given:
        group = name.removeprefix(PREFIX).partition(".")[0]
        if name.startswith(PREFIX) and name != _GROUPS and group not in (*names, _DEFAULT):
            report(name, f"{_GROUPS} does not name {group:.100}.")
    default = _group(given, _DEFAULT, None, convert, report)
    chosen = [_group(given, name, default, convert, report) for name in dict.fromkeys(names) if name != _DEFAULT]
    return TopicCreation((*chosen, default), admin)


def _group(
    given: Mapping[str, str],
    name: str,
    default: TopicGroup | None,
    convert: Callable[[str, str, Setting], Any],
    report: Callable[[str, str], None],
) -> TopicGroup:
    prefix = f"{PREFIX}{name}."

    def number(what: str, otherwise: int | None) -> int:
        setting = f"{prefix}{what}"
        if setting not in given:
            if otherwise is None:
                report(setting, f'Missing required configuration "{setting}" which has no default value.')
            return otherwise or -1
        value = convert(setting, given[setting], Setting(int))
        if value == 0 or (isinstance(value, int) and value < -1):
            text = f"Invalid value {value} for configuration {setting}: Value must be -1, or at least 1."
            report(setting, text)
        return value if isinstance(value, int) else -1

    def patterns(what: str) -> Patterns:
        setting, found = f"{prefix}{what}", []
        for text in filter(None, (one.strip() for one in given.get(setting, "").split(","))):
            try:
                found.append(re.compile(text))
            except re.error as error:
                report(setting, f"Invalid value {text:.200} for configuration {setting}: {error}.")
        return tuple(found)

    if default is not None and not given.get(f"{prefix}include", "").strip():
        text = f'Missing required configuration "{prefix}include" which has no default value.'
        report(f"{prefix}include", text)
    return TopicGroup(
        patterns("include") if default is not None else (),
        patterns("exclude") if default is not None else (),
        number("replication.factor", default.replication if default is not None else None),
        number("partitions", default.partitions if default is not None else None),
        {
            key.removeprefix(prefix): value
            for key, value in given.items()
            if key.startswith(prefix) and key.removeprefix(prefix) not in _OWN
        },
    )
