"""The log of one prefix's progress: which records count, as the markers after them say (PROTOCOL 2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from semel.errors import ConfigError
from semel.read.claimed_log import settle
from semel.read.raw_log import EndMarker, LogRecord
from semel.transaction.progress.record import Progress, RecordedOutcome, claimed_from, ended_by, key_head
from semel.transaction.ticket import Written
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.metadata import TopicPartition, by_topic

__all__ = ["ProgressLog", "ProgressRecord", "check_not_moved", "complete", "parse_progress_log"]


@dataclass(frozen=True, slots=True)
class ProgressRecord:
    """A progress record, with who wrote it and where. ``committed`` is None while it is open.

    ``ended_ms`` is the time of the marker, by its leader's clock; -1 where none was seen.
    """

    offset: int
    producer_id: int
    epoch: int
    progress: Progress
    committed: bool | None
    ended_ms: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class ProgressLog:
    """All that is known of one key: its records in order, each with how it was settled.

    ``others`` are the records of the same prefix in other scopes: one identity has written them all. ``decided`` is
    what owners and operators wrote down when markers were lost, in the order of the log. ``ended`` is the producer id
    and epoch of the newest record of which all that it enlists is known to have ended.
    """

    records: tuple[ProgressRecord, ...]
    others: tuple[ProgressRecord, ...] = ()
    decided: tuple[RecordedOutcome, ...] = ()
    ended: tuple[int, int] | None = None

    @property
    def newest(self) -> ProgressRecord | None:
        """The newest record that was committed: P. None where that one forgets."""
        return None if self.forgotten else self._last

    @property
    def forgotten(self) -> bool:
        """True if the newest committed record says that there is no progress (``semel progress reset``)."""
        return self._last is not None and self._last.progress.forgotten

    @property
    def _last(self) -> ProgressRecord | None:
        return next((record for record in reversed(self.records) if record.committed), None)

    @property
    def open(self) -> tuple[ProgressRecord, ...]:
        """Records that no marker has settled yet."""
        return tuple(record for record in self.everything if record.committed is None)

    @property
    def everything(self) -> tuple[ProgressRecord, ...]:
        """The records of all scopes."""
        return self.records + self.others

    @property
    def groups(self) -> dict[str, set[TopicPartition]]:
        """The partitions of each group into which the newest committed transaction and later ones have put offsets.
        Earlier ones were seen to be settled.
        """
        own = [record for record in self.everything if not record.progress.moved]  # that one was written by another id
        last = max((record.offset for record in own if record.committed), default=-1)
        by_group: dict[str, set[TopicPartition]] = {}
        for record in own:
            if record.offset >= last:
                for group, parts in record.progress.groups.items():
                    by_group.setdefault(group, set()).update(
                        (topic, index) for topic, indexes in parts.items() for index in indexes
                    )
        return by_group

    def after(self, before: ProgressLog) -> ProgressLog:
        """Return both, of which this one was read later."""
        return ProgressLog(
            before.records + self.records,
            before.others + self.others,
            before.decided + self.decided,
            self.ended or before.ended,
        )

    def newest_below(self, offset: int) -> ProgressLog:
        """Return what still matters of the records below ``offset``: the newest committed one, and what was decided."""
        mine, others = (
            tuple([one for one in records if one.committed and one.offset < offset][-1:])
            for records in (self.records, self.others)
        )
        return ProgressLog(mine, others, self.decided, self.ended)

    @property
    def enlisting(self) -> ProgressRecord | None:
        """The newest committed record of any scope, if it enlists what is not known to have ended.

        What older ones enlist has ended: each takeover ends it, and nothing is committed before that.
        """
        last = max((one for one in self.everything if one.committed), key=lambda one: one.offset, default=None)
        if last is None or not last.progress.enlisted or (last.producer_id, last.epoch) == self.ended:
            return None
        return last

    def outcome_of(self, producer_id: int, epoch: int) -> bool | None:
        """Return how the transaction of this identity ended, by its newest record: committed, aborted, or None without
        a record.
        """
        return next(
            (r.committed for r in reversed(self.everything) if (r.producer_id, r.epoch) == (producer_id, epoch)), None
        )

    def decided_of(self, producer_id: int, epoch: int) -> bool | None:
        """Return how the transaction of this identity was ended, by the first record: a later one that says otherwise
        does not count.
        """
        return next((d.committed for d in self.decided if (d.producer_id, d.epoch) == (producer_id, epoch)), None)


def complete(
    progress: Progress | None,
    before: ProgressRecord | None,
    wrote: Mapping[TopicPartition, Written],
    groups: Mapping[str, Collection[TopicPartition]],
    enlisted: Sequence[Prepared] = (),
) -> Progress:
    """Return the record that a transaction writes: the caller's position, or the previous number plus one; where its
    rows lie; the partitions whose offsets it commits; and what it decides for.
    """
    if progress is None:
        last = before.progress.batch if before is not None else None
        progress = Progress(batch=0 if last is None else last + 1)
    rows: dict[str, dict[int, tuple[int, int]]] = {}
    for (topic, index), one in sorted(wrote.items()):
        rows.setdefault(topic, {})[index] = (one.first, one.last)
    at = {group: {t: tuple(indexes) for t, indexes in by_topic(parts).items()} for group, parts in groups.items()}
    # what a later version of semel has put into the record stays in it (PROTOCOL 1)
    kept = before.progress.extra if before is not None else {}
    return replace(progress, wrote=rows, groups=at, enlisted=tuple(enlisted), extra={**kept, **progress.extra})


def parse_progress_log(events: Iterable[LogRecord | EndMarker], key: bytes, where: str) -> ProgressLog:
    """Pick one key's transactional records, each with how its transaction ended.

    A tombstone of a transaction is such a record: what it forgets is as it was until its transaction is committed.
    Older records stay in the log until compaction comes by, which removes them before the tombstone; so they count only
    as long as none follows them.
    """
    head, claims, looks, decisions, ends = _notes(key)
    ended: tuple[int, int] | None = None
    records: list[ProgressRecord] = []
    ours: list[bool] = []
    decided: list[RecordedOutcome] = []

    def is_of_prefix(event: LogRecord) -> bool:
        deleted = event.value is None and not event.transactional
        return event.key is not None and event.key.startswith(head) and event.key != looks and not deleted

    for one in settle(events, is_of_prefix):
        event = one.record
        at = f"{where} offset {event.offset}"
        if event.key == claims:
            claimed_from(event.value or b"", at)  # a newer semel's is refused: it may mean another thing
        elif (event.key or b"").startswith(decisions):  # in version 1 they had one key for all
            if event.value is not None:
                decided.append(RecordedOutcome.decode(event.value, at))
        elif event.key == ends and not event.transactional:
            ended = ended_by(event.value or b"", at)
        elif event.transactional:
            progress = Progress(forgotten=True) if event.value is None else Progress.decode(event.value, at)
            records.append(
                ProgressRecord(event.offset, event.producer_id, event.epoch, progress, one.committed, one.ended_ms)
            )
            ours.append(event.key == key)
    mine, others = (tuple(r for r, own in zip(records, ours, strict=True) if own is wanted) for wanted in (True, False))
    return ProgressLog(mine, others, tuple(decided), ended)


def check_not_moved(settled: ProgressLog, transactional_id: str) -> None:
    """Check that this id was not renamed (``semel progress rename``).

    Raises :class:`ConfigError` if it was: what is read or written under the old one would be done twice.
    """
    for record in settled.records:
        if record.committed and record.progress.moved:
            raise ConfigError(
                f"{transactional_id!r} was renamed to {record.progress.moved!r}. Nothing was written. Use that prefix.",
                tag="PREFIX_MOVED",
            )


def _notes(key: bytes) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """Return the common beginning of a prefix's keys, the keys of its claims and its looks, the common beginning of its
    decisions, and the key of its notes of what has ended.
    """
    head = key_head(key)
    return (
        head,
        head + b'"scope":"claim"}]',
        head + b'"scope":"look"}]',
        head + b'"scope":"decided"',
        head + b'"scope":"ended"}]',
    )
