"""The topics of a cluster that fit a pattern: the selection of sinks and of streams."""

from __future__ import annotations

from collections.abc import Callable, Collection

from semel.wire.client import Client

__all__ = ["find_topics"]


def find_topics(client: Client, fits: Callable[[str], bool], known: Collection[str] = ()) -> frozenset[str]:
    """Return the names of the topics that exist now and fit. Kafka's internal topics do not.

    The broker that answers may lag: a topic that was ``known`` before is missing only if no broker knows it. Raises
    what ``fits`` raises, and :class:`~semel.errors.Retriable` if no broker answers.
    """
    there = client.refresh(None).topics
    found = {name for name, topic in there.items() if not topic.error and not topic.internal and fits(name)}
    doubtful = {name for name in known if name not in found and fits(name)}
    return frozenset(found | (client.existing(doubtful).keys() if doubtful else set()))
