"""The progress topic: compacted, checked before it is trusted, with one partition for each prefix (PROTOCOL 1)."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from enum import Enum
from uuid import UUID, uuid4

import pyarrow as pa

from semel.errors import ConfigError, DataLoss, Retriable, SemelError
from semel.read.internal_topic import COMPACTED, InternalTopic
from semel.read.raw_log import EndMarker, LogRecord, read_raw
from semel.records.arrays import binary, joined
from semel.records.encode import encode
from semel.records.partitioner import partition_of
from semel.transaction.progress.log import ProgressLog, parse_progress_log
from semel.transaction.progress.record import (
    LOOK,
    Progress,
    RecordedOutcome,
    claim_key,
    claim_value,
    claimed_from,
    decided_key,
    ended_key,
    ended_value,
    key_head,
    look_key,
    progress_key,
)
from semel.transaction.progress.settings import OF_THE_BROKERS, OF_THE_TOPIC, PARTITIONS, faults
from semel.transaction.ticket import Written
from semel.wire.api import topics
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.api.produce import Appender
from semel.wire.api.transactions import Identity, idempotent_producer
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import Topic, TopicPartition, named
from semel.wire.metadata_cache import newest_leaders

__all__ = ["DEFAULT_TOPIC", "Presence", "ProgressTopic"]

DEFAULT_TOPIC = "semel-progress"
#: What a claim names that says nothing of other scopes: no log begins there.
_NOWHERE = -1

log = logging.getLogger("semel.transaction")


class Presence(Enum):
    """The progress left by earlier owners of a prefix, for one scope: never any, all of it, or less than that."""

    NEVER_USED = "none"
    COMPLETE = "there"
    LOST = "lost"


class ProgressTopic:
    """The progress of one prefix and scope."""

    def __init__(
        self, client: Client, prefix: str, scope: str, name: str = DEFAULT_TOPIC, *, resumes: bool = False
    ) -> None:
        self._client = client
        self._prefix = prefix
        self.name = name
        self.key = progress_key(prefix, scope)
        self.partition: TopicPartition = (name, partition_of(prefix.encode(), PARTITIONS))
        #: Whether a later read resumes where nothing before is open: for an owner that takes over again and again.
        self._resumes = resumes
        self._read_to = (UUID(int=0), 0, ProgressLog(()))
        self._topic = InternalTopic(
            name,
            f"the progress topic {name!r}",
            "Nothing was written. Change it, or name another with progressTopic.",
            COMPACTED,
            tag="PROGRESS_TOPIC",
        )
        self.topic_id = UUID(int=0)
        #: The topic that was checked, as far as that is allowed.
        self._checked = UUID(int=0)
        self._checked_at = -math.inf
        #: Where the log began when it was looked at; one that is made begins at 0. Compaction does not move it: what
        #: does so, has cut records off.
        self._begins = 0
        #: The beginning that a claim of this owner names: an older one than the log has, where that may have taken
        #: other scopes' progress away.
        self._claim_begins = 0

    def check(self, deadline: Deadline) -> None:
        """Raise :class:`ConfigError` for a topic that could lose progress or is another program's, before all of it is
        read. It may be missing.
        """
        if self._is_known:
            return
        topic = self._client.existing({self.name}, deadline).get(self.name)
        if topic is not None:
            self._check(topic, self._readable_broker_settings(deadline), deadline)

    def ensure(self, deadline: Deadline) -> None:
        """Have the topic: one that is missing is made, and one that was not there when it was checked is checked.
        Raises :class:`ConfigError`.

        What was seen of another one, by its id, is not true of it: it wants a :meth:`presence` of its own.
        """
        if self._is_known:
            return
        existing_topics = self._client.existing({self.name}, deadline)
        topic = existing_topics.get(self.name) or self._create(self._readable_broker_settings(deadline), deadline)
        if topic.id != self._checked:
            self._check(topic, self._readable_broker_settings(deadline), deadline)
        self.topic_id = topic.id

    @property
    def _is_known(self) -> bool:
        """True if this owner has read this very topic, and has checked its settings a short while ago."""
        age_s = time.monotonic() - self._checked_at
        fresh = age_s < self._client.config.metadata_max_age_ms / 1000
        return self._resumes and fresh and self._read_to[1] > 0 and self._read_to[0] == self.topic_id == self._checked

    def exists(self, deadline: Deadline) -> bool:
        """Look for the topic without creating it, for who only reads.

        Raises :class:`ConfigError` for one that cannot be ours.
        """
        topic = self._client.existing({self.name}, deadline).get(self.name)
        if topic is None or topic.id != self.topic_id or not self._resumes:
            self._begins = self._claim_begins = 0  # one that is read on begins where it did
        if topic is None:
            return False
        if self.partition[1] not in topic.partitions:
            self._topic.check_partitions(topic, least=PARTITIONS)
        self.topic_id = topic.id
        return True

    def _create(self, log_settings: dict[str, str | None], deadline: Deadline) -> Topic:
        wanted = int(log_settings.get(OF_THE_BROKERS[0]) or 3)
        replication = min(wanted, len(self._client.brokers(deadline)))
        min_isr = min(int(log_settings.get(OF_THE_BROKERS[1]) or 1), replication)
        config = {
            **COMPACTED,
            "unclean.leader.election.enable": "false",
            "min.insync.replicas": str(min_isr),
        }
        try:
            return replace(self._topic, config=config).find_or_make(self._client, PARTITIONS, replication, deadline)
        except SemelError as error:
            settings = " ".join(f"--config {key}={value}" for key, value in config.items())
            servers = ",".join(f"{host}:{port}" for host, port in self._client.config.bootstrap_servers)
            raise ConfigError(
                f"the progress topic {self.name!r} is missing and could not be created ({error.message}). Nothing was"
                f" written. Have an administrator run: bin/kafka-topics.sh --bootstrap-server {servers}"
                f" --create --topic {self.name} --partitions {PARTITIONS} --replication-factor {wanted} {settings}",
                tag="PROGRESS_TOPIC",
            ) from None

    def _check(self, topic: Topic, log_settings: dict[str, str | None], deadline: Deadline) -> None:
        self._topic.check_partitions(topic, least=PARTITIONS)
        self._checked, self._checked_at = topic.id, time.monotonic()
        settings = self._topic.settings(self._client, OF_THE_TOPIC, deadline)
        for fault in faults(topic, settings, log_settings) if settings is not None else ():
            raise self._topic.refused(fault)

    def _readable_broker_settings(self, deadline: Deadline) -> dict[str, str | None]:
        try:
            return topics.broker_config(self._client, OF_THE_BROKERS, deadline)
        except ConfigError as error:
            log.warning(
                "the replication of progress topic %s is not checked against the transaction log's: %s",
                self.name,
                error.message,
            )
            return {}

    def claim(self) -> int:
        """Write a claim and return its offset: everything that was acknowledged before is below it, on every broker
        that can answer.

        It stays, and says that nothing of this prefix was missing when the log began at the offset that it names: who
        does not know that writes a :meth:`write_read_barrier`.
        """
        return self._append({claim_key(self._prefix): claim_value(self._claim_begins)}, None).last

    def write_read_barrier(self) -> int:
        """Bound a read as :meth:`register` does, without a claim."""
        return self._append({look_key(self._prefix): LOOK}, None).last

    def record_ended(self, producer_id: int, epoch: int) -> None:
        """Note that all has ended that the record of this identity enlists: no later owner looks for it again."""
        self._append({ended_key(self._prefix): ended_value(producer_id, epoch)}, None)

    def record_outcome(self, decided: RecordedOutcome, deadline: Deadline) -> bool:
        """Record how a transaction ended, and return the outcome that counts: that of the first such record, which may
        be another writer's.

        Two writers may decide at once, and each read before the other has written. So everything up to this record is
        read back: a writer that finds another outcome before its own must write no marker. That cannot change later,
        because the first record stays the first. Each has its own key, so compaction keeps it. A retry does not double
        it: of a doubled record, compaction would drop the earlier one.
        """
        record = {decided_key(self._prefix, uuid4().hex): decided.encode()}
        wrote = self._append(record, None, plain=idempotent_producer(self._client, deadline))
        counts = self.read(wrote.last + 1, deadline).decided_of(decided.producer_id, decided.epoch)
        if counts is None:
            raise DataLoss(
                f"the progress topic {self.name!r} has lost the record of how a transaction of {self._prefix!r} was"
                " ended: its log was truncated. No marker was written, and readers still wait before its rows. Find"
                " out who deletes records there, then start again.",
                tag="PROGRESS_LOST",
            )
        return counts

    def read(self, end: int, deadline: Deadline) -> ProgressLog:
        """All records of this key below offset ``end``, settled by the markers below it."""
        where = f"{self.partition[0]}-{self.partition[1]}"
        topic, start, before = self._read_to
        resumed = self._resumes and topic == self.topic_id and start <= end
        events = read_raw(self._client, self.partition, end, deadline, start=start if resumed else None)
        log = parse_progress_log(events, self.key, where)
        log = log.after(before) if resumed else log
        if self._resumes:
            settled = min((record.offset for record in log.open), default=end)
            self._read_to = (self.topic_id, settled, log.newest_below(settled))
        return log

    def presence(self, deadline: Deadline) -> Presence:
        """Return whether earlier progress is complete. Every owner leaves a claim, of which compaction keeps the
        newest, and a record when it commits.

        Three things do not count as complete: open or aborted records (a reset of lost progress that died leaves them),
        a claim before which records were deleted since, and another scope's record. They show that there was more. If
        the record of this key exists all the same, it proves its own scope. Later claims keep the older beginning,
        because nothing is known of other scopes. A missing topic is not created.
        """
        if not self.exists(deadline):
            return Presence.NEVER_USED
        if self._is_known:
            return Presence.COMPLETE
        begins = self._begins = self._claim_begins = self._beginning(deadline)
        where = f"{self.partition[0]}-{self.partition[1]}"
        head, claims, claimed = key_head(self.key), claim_key(self._prefix), None
        unsettled, committed, others = set(), False, False
        for event in self._all(deadline):
            if isinstance(event, EndMarker):
                committed |= event.commit and event.producer_id in unsettled
                unsettled.discard(event.producer_id)
            elif event.key == claims and event.value is not None:
                names = claimed_from(event.value, f"{where} offset {event.offset}")
                claimed = names if claimed is None else max(claimed, names)
                if claimed >= begins:
                    self._claim_begins = claimed
                    return Presence.COMPLETE
            elif event.transactional and event.offset >= begins:
                if event.key == self.key:
                    unsettled.add(event.producer_id)
                others |= (event.key or b"").startswith(head)
        if committed:
            self._claim_begins = _NOWHERE if claimed is None else claimed
            return Presence.COMPLETE
        return Presence.LOST if others or claimed is not None else Presence.NEVER_USED

    def was_cut(self, deadline: Deadline) -> bool:
        """Return whether the log begins later than when it was read: records have been deleted meanwhile."""
        return self._beginning(deadline) > self._begins

    def _beginning(self, deadline: Deadline) -> int:
        return list_offsets(self._client, {self.partition: EARLIEST}, read_committed=False, deadline=deadline)[
            self.partition
        ].offset

    def _all(self, deadline: Deadline) -> Iterator[LogRecord | EndMarker]:
        """Up to the end that the leader of the highest epoch names: a deposed one would name an older one."""
        for _ in deadline.attempts():
            leaders = newest_leaders(self._client, [self.partition], deadline)
            ends = list_offsets(
                self._client, {self.partition: LATEST}, read_committed=False, leaders=leaders, deadline=deadline
            )
            if ends:
                return read_raw(self._client, self.partition, ends[self.partition].offset, deadline)
        raise Retriable(
            f"no leader of {named([self.partition])} has said in {deadline.timeout_ms:.0f} ms where it ends."
            " Nothing was written."
        )

    def write(
        self, progress: Progress, identity: Identity, *, meanwhile: Callable[[], None] = lambda: None
    ) -> dict[TopicPartition, Written]:
        """Append the record to the transaction of ``identity``, as its last one on this partition. Returns what was
        written, and where.

        ``meanwhile`` is called once when it has been sent, mostly with the answer still on its way, and what it raises
        is raised.
        """
        return self.append({self.key: None if progress.forgotten else progress.encode()}, identity, meanwhile)

    def append(
        self, records: Mapping[bytes, bytes | None], identity: Identity, meanwhile: Callable[[], None] = lambda: None
    ) -> dict[TopicPartition, Written]:
        """Append records, by key, to the transaction of ``identity``, as one batch. As :meth:`write`."""
        try:
            return {self.partition: self._append(records, identity, meanwhile)}
        except (ConfigError, Retriable):
            self.check_not_deleted()
            raise

    def check_not_deleted(self) -> None:
        """Raise :class:`DataLoss` if the topic is gone, for who could not write a transaction's record: it answers like
        one that is new.
        """
        try:
            existing_topics = self._client.existing({self.name})
        except Retriable:  # then what is raised already is what there is to say
            return
        self.check_same_topic(existing_topics)

    def check_same_topic(self, existing_topics: Mapping[str, Topic]) -> None:
        """Check as :meth:`check_not_deleted` does, against the topics that exist."""
        if self.name not in existing_topics or existing_topics[self.name].id != self.topic_id:
            raise DataLoss(
                f"the progress topic {self.name!r} was deleted or created again while {self._prefix!r} was at work,"
                " and the progress in it is gone. Nothing of the transaction at hand is visible. A new start is"
                " refused, and says what to do, as long as the cluster remembers this prefix. Find out who deletes"
                " such topics, and where the output stands.",
                tag="PROGRESS_LOST",
            )

    def _append(
        self,
        records: Mapping[bytes, bytes | None],
        identity: Identity | None,
        meanwhile: Callable[[], None] = lambda: None,
        *,
        plain: tuple[int, int] | None = None,
    ) -> Written:
        """Append to the transaction of ``identity``, or to none: then ``plain`` is a producer id and epoch with which
        nothing is there twice.
        """
        keys, values = joined(list(records), pa.binary()), binary(list(records.values()))
        rows = pa.RecordBatch.from_arrays([keys, values], ["key", "value"])
        producer = (identity.producer_id, identity.epoch) if identity is not None else plain
        if producer is None:
            batches = encode(rows, where=self.name)
        else:
            producer_id, epoch = producer
            transactional = identity is not None
            batches = encode(
                rows,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=0,
                transactional=transactional,
                where=self.name,
            )
        appender = Appender(self._client, {self.name: self.topic_id}, identity.transactional_id if identity else None)
        appender.submit((self.partition, batch) for batch in batches)
        appender.flush(meanwhile)
        (done,) = appender.acknowledged[self.partition]
        return Written(done.first, done.last, done.records, done.size)
