"""MirrorMaker 2's own topics, which are beside the copy: checkpoints and heartbeats.

Compacted, of one partition. They are written outside of the rounds' transactions: a record that is written twice is the
same record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from semel.transaction.output_topics import OutputTopics, describe_output_topics, non_transactional_tickets
from semel.transaction.participant import Participant
from semel.wire.api.topics import create
from semel.wire.client import Client

__all__ = ["KeyAndValue", "ensure_compacted", "write"]

#: MirrorMaker 2's default of a replication factor.
_REPLICATION = 3


class KeyAndValue(Protocol):
    """A record in MirrorMaker 2's bytes."""

    @property
    def key(self) -> bytes:
        """The key of the record."""

    @property
    def value(self) -> bytes:
        """The value of the record."""


def ensure_compacted(client: Client, name: str, replication: int | None) -> None:
    """Make a topic if it is not there. Without a ``replication`` it is three, or the number of brokers if less."""
    if name not in client.existing({name}):
        wanted = replication or min(_REPLICATION, len(client.brokers(client.deadline())))
        create(client, name, partitions=1, replication=wanted, config={"cleanup.policy": "compact"})


def write(
    client: Client,
    name: str,
    records: Iterable[KeyAndValue],
    timestamp: int | None = None,
    *,
    topics: OutputTopics | None = None,
) -> None:
    """Write records to partition 0, and wait until they are acknowledged. ``timestamp`` is that of all of them.

    A caller that writes often gives what it knows of its ``topics``, and forgets it after an error.
    """
    rows = list(records)
    known = (
        describe_output_topics(client, {name}, client.deadline())
        if topics is None
        else topics.describe({name}, client.deadline())
    )
    (ticket,) = non_transactional_tickets([[(name, 0)]], known)
    columns = {
        "key": pa.array([one.key for one in rows], pa.binary()),
        "value": pa.array([one.value for one in rows], pa.binary()),
        "partition": pa.array([0] * len(rows), pa.int32()),
    }
    if timestamp is not None:
        columns["timestamp"] = pa.array([timestamp] * len(rows), pa.int64()).cast(pa.timestamp("ms", "UTC"))
    with Participant(client, ticket) as participant:
        participant.send(name, pa.table(columns))
