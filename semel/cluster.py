"""One Kafka cluster for plain Python: it makes producers, participants and readers.

::

    cluster = semel.Cluster({"bootstrap.servers": "localhost:9092"})
    with cluster.producer("orders") as producer, producer.transaction() as txn:
        txn.send("orders", table)
    for batch in cluster.read("orders"):
        ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, overload

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.read import AtOffsets, AtTimestamp, Earliest, EndSpec, Latest, Reader, StartSpec, check_ranges, topic_ranges
from semel.read.reader import MAX_ROWS
from semel.records.timestamps import TimestampOverflow
from semel.transaction.participant import Participant
from semel.transaction.producer import Producer
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.transaction.session import Session
from semel.transaction.ticket import Ticket
from semel.transaction.transactional_id import check_prefix
from semel.transaction.two_phase import completion, recovery
from semel.transaction.two_phase.metrics import PreparedCollector
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.two_phase.producer import Mode, TwoPhaseProducer
from semel.transaction.two_phase.recovery import Recovered
from semel.wire.api.describe_transactions import TransactionDescription
from semel.wire.api.transactions import Identity
from semel.wire.client import Client

__all__ = ["Cluster", "End", "Start"]

End = Literal["latest"] | datetime | Mapping[int, int]
Start = Literal["earliest"] | End


class Cluster:
    """A Kafka cluster, by Kafka's own property names.

    Creating it checks the properties and opens no connection. Raises :class:`~semel.errors.ConfigError` for wrong
    properties. Threads may share it; the threads of one producer take turns. Close it, or use it as a context manager.
    """

    def __init__(self, properties: Mapping[str, object]) -> None:
        self._client = Client(ClientConfig.parse(properties))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @overload
    def producer(
        self,
        transactional_id: str,
        *,
        two_phase: Literal[False] = False,
        progress_topic: str = DEFAULT_TOPIC,
        clusters: Sequence[Cluster] = (),
    ) -> Producer: ...

    @overload
    def producer(self, transactional_id: str, *, two_phase: Mode) -> TwoPhaseProducer: ...

    def producer(
        self,
        transactional_id: str,
        *,
        two_phase: bool | str = False,
        progress_topic: str = DEFAULT_TOPIC,
        clusters: Sequence[Cluster] = (),
    ) -> Producer | TwoPhaseProducer:
        """Return the owner of ``transactional_id``. Its first transaction fences the owner before it (PROTOCOL 2).

        With ``two_phase``, its transactions are prepared, and your decision ends them. ``True`` needs two settings of
        the brokers, which then never abort them. ``"bounded"`` needs none, and the brokers abort them after
        ``transaction.timeout.ms``. No owner is fenced then: see :meth:`recover`.

        With ``clusters``, its commit decides for what is prepared there under the same id, and was enlisted by the
        transaction. Taking over ends what a predecessor has decided there, and aborts what else is open.

        Sends nothing. Raises :class:`~semel.errors.ConfigError` for an invalid id, and for ``clusters`` with
        ``two_phase``.
        """
        if two_phase is False:
            others = [cluster._client for cluster in clusters]
            return Producer(self._client, transactional_id, progress_topic=progress_topic, clusters=others)
        if clusters:
            raise ConfigError(
                "clusters=[...] needs an ordinary producer, whose commit decides. Nothing was sent. Leave out"
                " two_phase.",
                tag="WRONG_VALUE",
            )
        if two_phase is not True and two_phase != "bounded":
            raise ConfigError(
                f'two_phase={two_phase!r} is none of True, "bounded" and False. Nothing was sent. Give one of them.',
                tag="WRONG_VALUE",
            )
        return TwoPhaseProducer(self._client, transactional_id, "bounded" if two_phase == "bounded" else True)

    def commit(self, prepared: Prepared) -> None:
        """Commit a prepared transaction, from any process, as often as you like. Returns when readers see its rows.

        Raises :class:`~semel.errors.DataLoss` if it was aborted before, also by its timeout, or if its rows were
        deleted. Raises :class:`~semel.errors.ConfigError` for a transaction of another cluster. Raises
        :class:`~semel.errors.Retriable` if brokers do not answer: call it again.
        """
        completion.commit(self._client, prepared)

    def abort(self, prepared: Prepared) -> None:
        """Abort a prepared transaction, from any process, as often as you like.

        Raises :class:`~semel.errors.ConfigError` if it was committed before, or belongs to another cluster. Raises
        :class:`~semel.errors.Retriable` if brokers do not answer: call it again.
        """
        completion.abort(self._client, prepared)

    def recover(
        self, prefix: str, decide: Callable[[Sequence[TransactionDescription]], Iterable[Prepared]]
    ) -> Recovered:
        """Settle what an earlier process left under ``prefix``. Call it first at each start.

        It lists the open transactions of the prefix, calls ``decide`` with them, commits all that ``decide`` returns,
        and aborts the other listed ones. ``decide`` returns the decided transactions of your store, listed or not.
        """
        return recovery.recover(self._client, prefix, decide)

    def committed_units(self, prefix: str) -> list[Identity]:
        """Return the newest unit of each id of ``prefix`` whose last transaction was committed, if Kafka knows."""
        return recovery.committed_units(self._client, check_prefix(prefix))

    def prepared_metrics(self, prefix: str) -> PreparedCollector:
        """Return a collector for Prometheus: how many transactions of ``prefix`` wait, and the age of the oldest.

        Register it with ``prometheus_client.REGISTRY``. Each scrape asks the cluster, for two seconds at most.
        """
        return PreparedCollector(self._client.config, check_prefix(prefix))

    def participant(self, ticket: Ticket, attempt: int = 0) -> Participant:
        """Return the participant that writes with ``ticket``, in any process.

        Sends nothing. Raises :class:`~semel.errors.AbortAndRetry` for an ``attempt`` above 0 (DESIGN rule 2), and
        :class:`~semel.errors.ConfigError` for a ticket of another version of semel.
        """
        return Participant(self._client, ticket, attempt=attempt)

    def session(
        self,
        name: str,
        *,
        group: str,
        topics: Sequence[str],
        group_instance_id: str | None = None,
        auto_offset_reset: str = "earliest",
        session_timeout_ms: int = 45_000,
        max_poll_interval_ms: int = 300_000,
        max_poll_records: int = MAX_ROWS,
        headers: bool = False,
    ) -> Session:
        """Return a member of the consumer group ``group`` that reads ``topics`` and commits what it writes together
        with its offsets (docs/streams.md).

        Iterate over it to get Arrow record batches of its assigned partitions, in the columns of :meth:`read`. If the
        group has committed nothing, it begins at ``auto_offset_reset``: ``"earliest"`` by default, or ``"latest"``.
        With ``group_instance_id`` it is a static member, and fences the worker that had this id before. The default of
        ``transaction.timeout.ms`` is 10 s.

        A batch has at most ``max_poll_records`` rows. You have ``max_poll_interval_ms`` for it: after that the group
        continues without this member, its commit returns False, and the rows are handed out again.

        Sends nothing. Raises :class:`~semel.errors.ConfigError` for invalid arguments.
        """
        return Session(
            self._client,
            name,
            group=group,
            topics=topics,
            group_instance_id=group_instance_id,
            auto_offset_reset=auto_offset_reset,
            session_timeout_ms=session_timeout_ms,
            max_poll_interval_ms=max_poll_interval_ms,
            max_poll_records=max_poll_records,
            headers=headers,
        )

    def read(
        self,
        topic: str,
        *,
        start: Start = "earliest",
        end: End = "latest",
        headers: bool = False,
        timestamp_overflow: TimestampOverflow = "fail",
    ) -> Reader:
        """Return an iterator over Arrow record batches of ``topic``, in the columns of Spark's ``kafka`` source.

        ``start`` and ``end`` (exclusive) are ``"earliest"`` (only as a start), ``"latest"``, an offset for each
        partition, or a time. They are resolved now, so later rows are not read. Rows of open and aborted transactions
        are skipped, unless ``isolation.level`` is ``read_uncommitted``. A timestamp that microseconds cannot hold
        (nanoseconds, sent by mistake) stops the read, or is null with ``timestamp_overflow="null"``.

        Raises :class:`~semel.errors.ConfigError` for a missing topic or position. While reading, raises
        :class:`~semel.errors.DataLoss` for rows that are gone, and :class:`~semel.errors.Retriable` if no more rows
        arrive.
        """
        if timestamp_overflow not in ("fail", "null"):
            raise ConfigError(
                f"timestamp_overflow={timestamp_overflow!r} is neither fail nor null. Nothing was read. Give one of"
                " them."
            )
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
        return Reader(
            self._client,
            checked.ranges,
            read_committed=committed,
            headers=headers,
            timestamp_overflow=timestamp_overflow,
        )

    def close(self) -> None:
        """Close all connections."""
        self._client.close()


def _position(topic: str, start: Start) -> StartSpec:
    match start:
        case "earliest":
            return Earliest()
        case "latest":
            return Latest()
        case datetime():
            return AtTimestamp(int(start.timestamp() * 1000), no_match="latest")
        case Mapping():
            return AtOffsets({topic: start})
    raise ConfigError(
        f"{start!r} is no position. Nothing was read. Give earliest, latest, a datetime, or an offset for each"
        " partition: {0: 42}."
    )


def _ending(topic: str, end: End) -> EndSpec:
    spec = _position(topic, end)
    if isinstance(spec, Latest | AtOffsets | AtTimestamp):
        return spec
    raise ConfigError(
        "reading cannot end at the earliest offset. Nothing was read. Give latest, a datetime, or an offset for each"
        " partition."
    )
