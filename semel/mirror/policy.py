"""The names of topics on the target cluster, and the choice of topics that are mirrored at all.

Names are MirrorMaker 2's: ``DefaultReplicationPolicy`` puts the source's alias in front, ``IdentityReplicationPolicy``
keeps the name. A record that has come from the target is not sent back to it: by the default policy its topic tells.

Never mirrored, whatever the file says: what brokers, Connect, MirrorMaker 2 and semel keep for themselves. semel's own
topics change with each round, so two opposite flows would feed each other for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from semel.errors import ConfigError
from semel.settings import split_list
from semel.transaction.progress.topic import DEFAULT_TOPIC

__all__ = [
    "DEFAULT_EXCLUDED",
    "DEFAULT_EXCLUDED_CONFIGS",
    "DEFAULT_EXCLUDED_GROUPS",
    "ReplicationPolicy",
    "TopicFilter",
    "patterns",
]

#: MirrorMaker 2's default of ``topics.exclude``.
DEFAULT_EXCLUDED = r"mm2.*\.internal, .*\.replica, __.*"
#: And of ``groups.exclude``.
DEFAULT_EXCLUDED_GROUPS = "console-consumer-.*, connect-.*, __.*"
#: And of ``config.properties.exclude``: what a target topic does not take from its source.
DEFAULT_EXCLUDED_CONFIGS = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas,"
    r" message\.timestamp\.difference\.max\.ms, message\.timestamp\.before\.max\.ms,"
    r" message\.timestamp\.after\.max\.ms, message\.timestamp\.type, unclean\.leader\.election\.enable,"
    r" min\.insync\.replicas"
)
_HEARTBEATS = "heartbeats"
#: What the names of semel's own topics of the mirror begin with.
_OWN = "semel-mirror-"


@dataclass(frozen=True, slots=True)
class ReplicationPolicy:
    """The naming of a flow's topics on its target. ``identity`` keeps the source's names.

    Without ``internal_separator_enabled`` MirrorMaker 2's own topics keep the dot, whatever the separator is.
    ``clusters`` are the aliases of the file: a name that begins with another word is that of a user's topic.
    """

    source: str
    target: str
    identity: bool = False
    separator: str = "."
    internal_separator_enabled: bool = True
    clusters: tuple[str, ...] = ()

    @property
    def checkpoints_topic(self) -> str:
        """The topic on the target that holds the checkpoints of the source's groups."""
        return f"{self.source}{self._checkpoints_suffix}"

    @property
    def _internal_separator(self) -> str:
        return self.separator if self.internal_separator_enabled else "."

    @property
    def _checkpoints_suffix(self) -> str:
        return f"{self._internal_separator}checkpoints{self._internal_separator}internal"

    def remote_topic(self, topic: str) -> str:
        """Return the name of a source topic on the target."""
        return topic if self.identity else f"{self.source}{self.separator}{topic}"

    def refused(self, topic: str) -> str | None:
        """Why a source topic is never mirrored; None where it may be."""
        original = self._original(topic)
        if topic.startswith(("__", ".")) or topic.endswith(("-internal", ".internal", self._checkpoints_suffix)):
            return "internal to brokers, Connect or MirrorMaker 2"
        if topic.startswith("mm2") and topic.endswith(f"{self._internal_separator}internal"):
            return "internal to brokers, Connect or MirrorMaker 2"
        if original == _HEARTBEATS:
            return "heartbeats of MirrorMaker 2"
        if original == DEFAULT_TOPIC or original.startswith(_OWN):
            return "semel's own"
        if not self.identity and f"{self.target}{self.separator}" in self._origins_with_alias(topic):
            return f"it has come from {self.target}"
        return None

    def _original(self, topic: str) -> str:
        """Return a topic's name on the first cluster, without the aliases of the file that are before it."""
        aliases = () if self.identity else (self.source, self.target, *self.clusters)
        while True:
            found = [f"{alias}{self.separator}" for alias in aliases if topic.startswith(f"{alias}{self.separator}")]
            if not found:
                return topic
            topic = topic.removeprefix(max(found, key=len))

    def _origins(self, topic: str) -> list[str]:
        """Return the topic, and its names on the clusters that it came from, back to the first."""
        found = [topic]
        while not self.identity and self.separator in found[-1]:
            found.append(found[-1].partition(self.separator)[2])
        return found

    def _origins_with_alias(self, topic: str) -> set[str]:
        """Return the aliases, each with the separator, of the clusters in a topic's name."""
        return {name.partition(self.separator)[0] + self.separator for name in self._origins(topic)[:-1]}


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """Topics by ``topics`` and ``topics.exclude``, or groups: names or patterns that match a whole name."""

    included: tuple[re.Pattern[str], ...]
    excluded: tuple[re.Pattern[str], ...]

    @classmethod
    def parse(cls, included: tuple[str, str], excluded: tuple[str, str]) -> TopicFilter:
        """From two keys, each with its value. Raises :class:`ConfigError` for a pattern that Python cannot take."""
        return cls(tuple(patterns(*included)), tuple(patterns(*excluded)))

    def matches(self, topic: str) -> bool:
        """Return whether a topic is asked for."""
        return _any(self.included, topic) and not _any(self.excluded, topic)


def _any(patterns: Iterable[re.Pattern[str]], topic: str) -> bool:
    return any(pattern.fullmatch(topic) for pattern in patterns)


def patterns(key: str, value: str) -> Iterable[re.Pattern[str]]:
    """Yield the patterns of a key. Raise :class:`ConfigError` for one that Python cannot compile."""
    for text in split_list(value):
        try:
            yield re.compile(text)
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigError(
                f"{key} holds the pattern {text!r:.200}, which Python cannot take: {error}. Nothing was copied."
                " Write it without what only Java's patterns have.",
                tag="WRONG_VALUE",
            ) from None
