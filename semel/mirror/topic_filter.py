"""The choice of topics and groups by names or patterns, as MirrorMaker 2 makes it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from semel.errors import ConfigError
from semel.settings import split_list

__all__ = [
    "DEFAULT_EXCLUDED",
    "DEFAULT_EXCLUDED_CONFIGS",
    "DEFAULT_EXCLUDED_GROUPS",
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
