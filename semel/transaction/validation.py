"""The checks of what a caller gives. Bad partitions, offsets and numbers raise ConfigError before anything is sent."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import SupportsIndex

from semel.errors import ConfigError
from semel.transaction.ticket import TicketTopic
from semel.wire.metadata import Topic, TopicPartition

__all__ = [
    "check_above_0",
    "check_not_progress_topic",
    "check_offset_partitions",
    "check_offsets",
    "check_partitions",
    "check_ticket_partitions",
]


def check_partitions(partitions: Iterable[object]) -> None:
    """Raise :class:`ConfigError` for what does not name a partition."""
    for one in partitions:
        if not (isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], str) and _is_whole(one[1])):
            raise ConfigError(
                f"{one!r:.100} names no partition. Nothing was sent for it. Give the topic and the partition's"
                " number, such as ('orders', 0).",
                tag="NO_PARTITION",
            )


def check_offsets(offsets: Mapping[TopicPartition, int]) -> None:
    """Raise :class:`ConfigError` for what names no partition, and for what can be no offset of it."""
    check_partitions(offsets)
    for (topic, index), offset in offsets.items():
        if not _is_whole(offset) or not 0 <= offset < 2**63:
            raise ConfigError(
                f"{offset!r:.100} is no offset of {topic}-{index}. Nothing was committed. Give the next offset to"
                " read, 0 or more.",
                tag="NO_OFFSET",
            )


def check_above_0(**numbers: object) -> None:
    """Raise :class:`ConfigError` for what is no whole number above 0."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, int) or number <= 0:
            raise ConfigError(f"{name}={number!r:.100} is no whole number above 0. Nothing was read. Correct it.")


def _is_whole(number: object) -> bool:
    return isinstance(number, SupportsIndex) and not isinstance(number, bool)


def check_not_progress_topic(wanted: Collection[str], progress_topic: str) -> None:
    """Check that no rows go to the topic that keeps the transaction's own record. That begins at sequence 0 as they
    do: the broker would keep one of the two and answer OK to both.
    """
    if progress_topic in wanted:
        raise ConfigError(
            f"{progress_topic!r} holds the progress of this transaction, so its rows cannot go there too. Nothing was"
            " sent for them. Write them to another topic, or keep the progress in another one (progress_topic, in Spark"
            " progressTopic).",
            tag="PROGRESS_TOPIC",
        )


def check_ticket_partitions(partitions: Iterable[TopicPartition], topics: Mapping[str, TicketTopic]) -> None:
    """Refuse partitions that their topics do not have."""
    for topic, index in partitions:
        if not 0 <= index < topics[topic].partitions:
            raise ConfigError(
                f"topic {topic} has no partition {index}: it has {topics[topic].partitions}. Nothing was sent for these"
                " tickets. Correct the shares, or add partitions to the topic.",
                tag="UNKNOWN_PARTITION",
            )


def check_offset_partitions(offsets: Iterable[TopicPartition], topics: Mapping[str, Topic]) -> None:
    """Refuse offsets of partitions that their topics do not have."""
    for topic, index in offsets:
        if index not in topics[topic].partitions:
            raise ConfigError(
                f"topic {topic} has no partition {index}, so it has no offset. Nothing was committed. Correct the"
                " offsets.",
                tag="UNKNOWN_PARTITION",
            )
