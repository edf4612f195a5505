"""What a user of plain Python holds: one cluster, from which producers, participants and readers come.

::

    cluster = semel.Cluster({"bootstrap.servers": "localhost:9092"})
    with cluster.producer("orders") as producer, producer.transaction() as txn:
        txn.send("orders", table)
    for batch in cluster.read("orders"):
        ...
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal

from semel.config import ClientConfig
from semel.errors import ConfigError, Unsupported
from semel.read import AtOffsets, AtTimestamp, Earliest, EndSpec, Latest, Reader, StartSpec, check_ranges, topic_ranges
from semel.transaction.participant import Participant
from semel.transaction.producer import Producer
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.transaction.ticket import Ticket
from semel.wire.client import Client

__all__ = ["Cluster", "End", "Start"]

End = Literal["latest"] | datetime | Mapping[int, int]
Start = Literal["earliest"] | End


class Cluster:
    """A Kafka cluster, by Kafka's own property names.

    Creating it checks the properties and opens no connection. Raises :class:`~semel.errors.ConfigError` for what is
    wrong with them. Safe to share between threads; the threads of a producer take turns. Close it, or use it as a
    context manager.
    """

    def __init__(self, properties: Mapping[str, object]) -> None:
        self._client = Client(ClientConfig.parse(properties))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def producer(
        self,
        transactional_id: str,
        *,
        two_phase: bool = False,
        progress_topic: str = DEFAULT_TOPIC,
        accept_late_markers: bool = False,
    ) -> Producer:
        """The owner of ``transactional_id``. Its first transaction fences whoever owned the id before (PROTOCOL 2).

        Sends nothing. Raises :class:`~semel.errors.ConfigError` for an id that cannot be one,
        :class:`~semel.errors.Unsupported` for ``two_phase``.
        """
        if two_phase:
            raise Unsupported(
                "prepared transactions (two_phase=True) are not there yet. Nothing was sent. Leave two_phase out for"
                " a shared transaction."
            )
        return Producer(
            self._client, transactional_id, progress_topic=progress_topic, accept_late_markers=accept_late_markers
        )

    def participant(self, ticket: Ticket, attempt: int = 0) -> Participant:
        """Whoever writes with ``ticket``, in any process.

        Sends nothing. Raises :class:`~semel.errors.AbortAndRetry` for an ``attempt`` above 0 (DESIGN rule 2),
        :class:`~semel.errors.ConfigError` for a ticket that another version of semel has made.
        """
        return Participant(self._client, ticket, attempt=attempt)

    def read(self, topic: str, *, start: Start = "earliest", end: End = "latest", headers: bool = False) -> Reader:
        """Iterate over it: Arrow record batches of ``topic``, in the columns of Spark's ``kafka`` source.

        ``start`` and ``end`` (exclusive) are ``"earliest"`` (a start only), ``"latest"``, an offset for each partition,
        or a time; what they mean is looked up now, so that rows written from now on are not read. Rows of open and
        aborted transactions are left out, unless the property ``isolation.level`` is ``read_uncommitted``. Raises
        :class:`~semel.errors.ConfigError` for a topic or position that is not there, and while reading
        :class:`~semel.errors.DataLoss` for rows that have gone, :class:`~semel.errors.Retriable` when nothing comes any
        more.
        """
        committed = self._client.config.isolation_level == "read_committed"
        ranges = topic_ranges(
            self._client, topic, _position(topic, start), _ending(topic, end), read_committed=committed
        )
        checked = check_ranges(
            self._client,
            [one for one in ranges if one.size > 0],
            fail_on_data_loss=True,
            deadline=self._client.deadline(),
        )
        return Reader(self._client, checked.ranges, read_committed=committed, headers=headers)

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


def _position(topic: str, given: Start) -> StartSpec:
    match given:
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
        case datetime():
            return AtTimestamp(int(given.timestamp() * 1000), no_match="latest")
        case Mapping():
            return AtOffsets({topic: given})
    raise ConfigError(
        f"{given!r} is no position. Nothing was read. Give earliest, latest, a datetime, or an offset for each"
        " partition: {0: 42}."
    )


def _ending(topic: str, given: End) -> EndSpec:
    found = _position(topic, given)
    if isinstance(found, Latest | AtOffsets | AtTimestamp):
        return found
    raise ConfigError(
        "reading cannot end at the earliest offset. Nothing was read. Give latest, a datetime, or an offset for each"
        " partition."
    )
