"""One transaction that is prepared: rows are written and acknowledged, then only a decision ends it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc

from semel.errors import AbortAndRetry, ConfigError, SemelError
from semel.read.ranges import id_text
from semel.steps import TwoPhaseStep, reached
from semel.transaction.data_loss import check_rows_present, check_topics_unchanged, still_open
from semel.transaction.local_writer import LocalWriter
from semel.transaction.output_topics import OutputTopics
from semel.transaction.routing import check_columns
from semel.transaction.ticket import Tickets, TicketTopic, Written
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.api.transactions import Identity, add_partitions, end
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.error_codes import error
from semel.wire.metadata import TopicPartition

__all__ = ["Unit"]

log = logging.getLogger("semel.transaction")

_HOUR_MS = 3_600_000
#: What is prepared for as long as it takes may well be so over a night.
_LONG_MS = 24 * _HOUR_MS


class Unit:
    """A transaction of one process. As a context manager it is aborted unless it was prepared.

    A forked child can do nothing with it: it belongs to the process that began it, also where the child leaves the
    block.

    ``until_ms`` is when the brokers abort it (bounded), or None. ``on_end`` is called when it was prepared, or aborted:
    with the partitions that it has added, what ends it, and since when its rows are known to be there (monotonic
    seconds). Rows without a key begin at partition ``first``; without ``keys``, rows with one do so too.
    """

    def __init__(
        self,
        client: Client,
        identity: Identity,
        until_ms: int | None,
        output_topics: OutputTopics,
        deadline: Callable[[], Deadline],
        on_end: Callable[[set[TopicPartition], Prepared | None, float], None],
        *,
        first: int | None = None,
        keys: bool = True,
    ) -> None:
        self._client = client
        self._process = os.getpid()
        self._identity = identity
        self._until_ms = until_ms
        self._output_topics = output_topics
        self._deadline = deadline
        self._on_end = on_end
        self._topics: dict[str, TicketTopic] = {}
        self._writer = LocalWriter(
            client,
            Tickets(),
            identity=lambda: identity,
            add=self._add,
            first=identity.epoch if first is None else first,
            keys=keys,
        )
        self._added: set[TopicPartition] = set()
        self._leaders: dict[TopicPartition, tuple[int, int]] = {}
        #: By topic the time that its oldest rows carry, in milliseconds: retention counts from there.
        self._times: dict[str, int] = {}
        self._prepared: Prepared | None = None
        self._looked = 0.0
        self._ended = False

    def __enter__(self) -> Unit:
        return self

    def __exit__(self, kind: type[BaseException] | None, raised: BaseException | None, _: TracebackType | None) -> None:
        if self._ended or self._process != os.getpid():
            return
        if raised is None:
            self.abort()
            raise ConfigError(
                f"the transaction {self._identity.transactional_id!r} was left without prepare(), so no decision can"
                " be stored for it. It is aborted, and nothing of it is visible. Call prepare(), store the decision,"
                " then commit.",
                tag="NOT_PREPARED",
            )
        try:
            self.abort()
        except SemelError as second:
            raised.add_note(f"The transaction could not be aborted either: {second}")

    def send(self, topic: str, rows: pa.Table | pa.RecordBatch) -> None:
        """Write rows, acknowledged when it returns. Columns as for ``Transaction.send``.

        Only the partitions that rows go to are added. Raises :class:`ConfigError` for rows that cannot be written,
        before any of these is sent, and :class:`~semel.errors.AbortAndRetry` where the transaction has ended.
        """
        self.write({topic: rows})

    def write(self, rows: Mapping[str, pa.Table | pa.RecordBatch], *, wait: bool = True) -> None:
        """Write the rows of several topics as :meth:`send` does. :meth:`prepare` waits for them if this does not."""
        self._check_open()
        for table in rows.values():
            check_columns(table)
        rows = {topic: table for topic, table in rows.items() if table.num_rows}
        new = rows.keys() - self._topics.keys()
        if new:
            facts = self._output_topics.describe(new, self._deadline())
            self._topics.update({topic: facts[topic] for topic in new})
        self._writer.send(rows, self._topics, wait=wait)
        for topic, table in rows.items():
            self._times[topic] = min(_newest_ms(table), self._times.get(topic, 1 << 62))
            reached(TwoPhaseStep.SENT, topic)

    def _add(self, wanted: set[TopicPartition]) -> None:
        new = wanted - self._added
        if not new:
            return
        self._leaders |= self._client.leaders(new, self._deadline())
        code = add_partitions(self._client, self._identity, new, self._deadline())
        if code:
            subject = f"adding partitions to the transaction {self._identity.transactional_id!r}"
            raise error("AddPartitionsToTxn", code, subject, "Nothing of this transaction is visible.")
        self._added |= new

    def prepare(self) -> Prepared:
        """Return what ends it, once all rows are acknowledged and there. Nothing more can be written then.

        From here on only :meth:`Cluster.commit` or :meth:`Cluster.abort` ends it: write the text of it down with your
        decision first. Raises what :meth:`send` raises, and :class:`~semel.errors.DataLoss` for rows that are gone.
        Raises :class:`~semel.errors.AbortAndRetry` where the brokers have aborted it meanwhile.
        """
        self._check_open()
        wrote: dict[TopicPartition, Written] = {}
        for receipt in self._writer.receipts():
            wrote |= receipt.wrote
        if wrote:
            self._check_undecided(wrote)
        self._prepared = Prepared(
            self._client.cluster,
            self._identity.transactional_id,
            self._identity.producer_id,
            self._identity.epoch,
            {partition: (one.first, one.records) for partition, one in wrote.items()},
            {topic: id_text(self._topics[topic].id) for topic, _ in wrote},
            int(time.time() * 1000),
            self._until_ms,
        )
        self._end()
        with suppress(SemelError):  # a warning is not worth what is prepared
            self._warn_of_retention()
        reached(TwoPhaseStep.PREPARED, self._identity.transactional_id)
        return self._prepared

    def _check_undecided(self, wrote: dict[TopicPartition, Written]) -> None:
        """Check that a commit would commit all rows, as things stand."""
        self._looked = time.monotonic()
        deadline = self._deadline()
        ids = {name: topic.id for name, topic in self._topics.items()}
        check_topics_unchanged(self._client, wrote, ids, (), deadline)
        check_rows_present(self._client, self._identity, wrote, self._leaders, deadline)
        # asked last: rows of a transaction that the coordinator has aborted may be there still
        if not still_open(self._client, self._identity, deadline):
            raise AbortAndRetry(
                f"the transaction {self._identity.transactional_id!r} has been aborted: by its timeout, or by an"
                " operator. Nothing of it is visible. Run the same work again in a new one.",
                tag="EXPIRED",
            )

    def _warn_of_retention(self) -> None:
        """Warn if retention may delete prepared rows before the commit: it spares no open transaction."""
        now = time.time() * 1000
        until = self._until_ms or now + _LONG_MS
        for topic, carried in self._times.items():
            kept = self._output_topics.retention_ms(topic, self._deadline())
            if kept is not None and carried + kept < until and self._output_topics.warn_once(topic):
                log.warning(
                    "topic %s keeps rows for %.1f hours (retention.ms), so those of the prepared transaction %r may be"
                    " deleted in %.1f hours. What is deleted before it is committed is lost. Commit it sooner, or raise"
                    " retention.ms.",
                    topic,
                    kept / _HOUR_MS,
                    self._identity.transactional_id,
                    max(0.0, carried + kept - now) / _HOUR_MS,
                )

    def abort(self) -> None:
        """Abort it. Nothing of it becomes visible. Raises :class:`ConfigError` once it is prepared."""
        self._check_open()
        self._end()
        if self._added:
            end(self._client, self._identity, commit=False, deadline=self._deadline())

    def _end(self) -> None:
        self._ended = True
        self._on_end(self._added, self._prepared, self._looked)

    def _check_open(self) -> None:
        if self._process != os.getpid():
            raise ConfigError(
                f"the transaction {self._identity.transactional_id!r} was begun in process {self._process}, and this is"
                " a fork of it. Nothing was sent. Begin another one here: producer.transaction().",
                tag="FORKED",
            )
        if self._ended:
            done = "prepared" if self._prepared is not None else "aborted"
            raise ConfigError(
                f"the transaction {self._identity.transactional_id!r} is {done} already. Nothing was changed. Begin"
                " another one; what is prepared, the cluster commits or aborts: cluster.commit(prepared).",
                tag="ILLEGAL_STATE",
            )


def _newest_ms(rows: pa.Table) -> int:
    """Return the newest time of the rows in milliseconds: a segment goes when all of its rows are old."""
    if "timestamp" in rows.column_names:
        newest = pc.max(rows["timestamp"].cast(pa.timestamp("ms"), safe=False).cast(pa.int64())).as_py()
        if newest is not None:
            return int(newest)
    return int(time.time() * 1000)
