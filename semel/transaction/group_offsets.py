"""The offsets of the group that a query commits to: reserved for it, seen before it is used, and as progress says
(PROTOCOL 2, step 5).

They are a view; progress is the truth (DESIGN rule 5). A transaction that has not ended there shows as offsets that
stay pending; where its marker was lost, it is healed on the partition of ``__consumer_offsets`` that the group lies in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import reduce

from semel.errors import AbortAndRetry, ConfigError, Retriable
from semel.read.ranges import id_text
from semel.transaction.markers.heal import MarkerHealer
from semel.transaction.markers.wait import OFFSETS_TOPIC, HealCallback, wait_for_markers
from semel.transaction.ownership import Ownership
from semel.transaction.progress.record import Progress
from semel.wire.api.offsets import committed, live_members
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.error_codes import briefly
from semel.wire.metadata import Topic, TopicPartition

__all__ = ["await_group_offsets", "await_groups", "check_no_live_members", "group_view", "offsets_partition", "union"]

#: How long offsets may stay pending before it is looked whether their marker was lost.
_PATIENCE_MS = 1_000


def check_no_live_members(own: Ownership, group: str | None, deadline: Deadline) -> None:
    """Raise :class:`ConfigError` if the group has members: it is reserved for one query."""
    members = live_members(own.client, group, deadline) if group else []
    if members:
        raise ConfigError(
            f"group {group!r} has live members ({', '.join(members[:3])}): it is reserved for this query, and their"
            " commits would be overwritten. Nothing was written. Stop them, or give the query another kafka.group.id:"
            " its progress does not depend on that name.",
            tag="GROUP_IN_USE",
        )


def await_group_offsets(
    own: Ownership, group: str, partitions: Collection[TopicPartition], heal: HealCallback, former: Collection[int] = ()
) -> dict[TopicPartition, int]:
    """Return the group's offsets, once no transaction is pending on them. Raise :class:`AbortAndRetry` if one stays,
    and what ``heal`` raises.

    ``former`` are the producer ids that the id's owners had before, which may have left something pending.
    """
    deadline = own.deadline()
    unseen = ""
    while True:
        patience = Deadline(min(_PATIENCE_MS, deadline.remaining * 1000 + 1), backoff_ms=2, backoff_max_ms=50)
        try:
            offsets = committed(own.client, group, partitions, require_stable=True, deadline=patience)
        except Retriable as error:
            if deadline.passed:
                raise AbortAndRetry(
                    f"offsets of group {group!r} are held by a transaction that has not ended: {briefly(error.message)}"
                    f" Nothing new was written. If no other program commits to this group, run again.{unseen}",
                    tag="OFFSETS_PENDING",
                ) from None
            # each time: while brokers restart, one that has just taken the partition over may have shown nothing open
            unseen = _settle_offsets_partition(own, group, heal, former)
        else:
            own.checked_groups.update((group, partition) for partition in partitions)
            return offsets


def await_groups(own: Ownership, wanted: Mapping[str, Collection[TopicPartition]]) -> None:
    """Before a transaction's first offset: see that no former one of the id is pending, on these partitions or wherever
    its owners put offsets.

    The marker of a transaction settles whatever its producer id has pending on a partition of the offsets topic: also
    offsets of other groups, and of partitions that it does not touch. Raises as :func:`await_group_offsets`.
    """
    new = {
        group: partitions
        for group, partitions in wanted.items()
        if any((group, partition) not in own.checked_groups for partition in partitions)
    }
    for group, partitions in union(own.groups_to_check, new).items():
        await_group_offsets(own, group, partitions, MarkerHealer(own), own.previous_producer_ids)
    own.groups_to_check = {}


def union(*groups: Mapping[str, Collection[TopicPartition]]) -> dict[str, set[TopicPartition]]:
    """All partitions of each group."""
    merged: dict[str, set[TopicPartition]] = {}
    for one in groups:
        for group, partitions in one.items():
            merged.setdefault(group, set()).update(partitions)
    return merged


def _settle_offsets_partition(own: Ownership, group: str, heal: HealCallback, former: Collection[int]) -> str:
    """Have what is open of ours on the group's partition settled.

    Returns what could not be looked at, for a message.
    """
    try:
        partition = offsets_partition(own.client, group, own.deadline())
        wait_for_markers(
            own.client, {partition}, own.identity, former, last_offsets={}, deadline=own.deadline(), heal=heal
        )
    except ConfigError as error:
        if error.tag == "MARKER_LOST":
            raise
        return f" Whether the brokers have lost its marker could not be looked at: {error.message}"
    return ""


def offsets_partition(client: Client, group: str, deadline: Deadline | None = None) -> TopicPartition:
    """Return the partition in which brokers keep the offsets of a group.

    Raises :class:`ConfigError` without the right to describe that topic.
    """
    return OFFSETS_TOPIC, _java_hash(group) % len(client.topics({OFFSETS_TOPIC}, deadline)[OFFSETS_TOPIC].partitions)


def _java_hash(text: str) -> int:
    """Return the absolute value of ``String.hashCode``, by which brokers place groups.

    Not the bits without the sign, by which they place keys.
    """
    units = text.encode("utf-16-be", "surrogatepass")
    pairs = (units[i] << 8 | units[i + 1] for i in range(0, len(units), 2))
    hashed = reduce(lambda before, unit: (31 * before + unit) & 0xFFFFFFFF, pairs, 0)
    return min(hashed, (1 << 32) - hashed) % (1 << 31)  # the one number that has no absolute value counts as 0


def group_view(progress: Progress, client: Client) -> dict[TopicPartition, int]:
    """Return the group's offsets by the progress. If several sources read one partition, the lowest counts (DESIGN rule
    5).

    Partitions that are gone, or were created again under the same name, are omitted: the group is a view, and these
    show nothing.
    """
    topics = _existing(client, {topic for topic, _ in progress.positions(client.cluster)})
    ids = {name: id_text(topic.id) for name, topic in topics.items()}
    return {
        (name, index): offset
        for (name, index), offset in progress.positions(client.cluster, ids).items()
        if index in topics[name].partitions
    }


def _existing(client: Client, names: Collection[str]) -> Mapping[str, Topic]:
    try:
        return client.topics(names)
    except ConfigError as missing:
        if missing.tag != "UNKNOWN_TOPIC":
            raise
        return client.existing(names)
