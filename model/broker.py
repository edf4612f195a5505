"""Kafka as it was measured: the coordinator of one transactional id, and the leaders of four partitions (PROTOCOL 2 to
5).

Everything is a value: an answer comes with the broker as it is afterwards. What a request may be answered, and what it
changes, is all here; when markers land, who crashes and what gets lost is in :mod:`model.faults`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from model.progress import FOREIGN, Decided, Marker, Record, log_to_stable, reading
from model.requests import (
    ABORT,
    ALL,
    COMMIT,
    FENCED,
    NAMES,
    NOT_OURS,
    OFFSETS,
    OK,
    OUT1,
    PENDING,
    PROGRESS,
    STALE_EPOCH,
    WRONG_STATE,
    Add,
    Claim,
    Decide,
    Describe,
    End,
    Identity,
    Init,
    MarkerBehind,
    OpenRows,
    Position,
    Produce,
    ReadToHigh,
    ReadToStable,
    SettledPosition,
    StableOffset,
    WriteMarker,
)

__all__ = [
    "COMPLETE",
    "EMPTY",
    "ONGOING",
    "PREPARE",
    "Answer",
    "Broker",
    "Coordinator",
    "Kafka",
    "Partition",
    "Rows",
    "Wrong",
]

EMPTY, ONGOING, PREPARE, COMPLETE = "Empty", "Ongoing", "Prepare", "Complete"


class Wrong(Exception):
    """The promise is broken: what was seen, in a sentence."""


class Coordinator(NamedTuple):
    """The coordinator's log for our id.

    ``former`` is the transaction that it ended last: a repeated EndTxn names that one.
    """

    known: bool = True
    state: str = COMPLETE
    decision: str = COMMIT
    identity: Identity = Identity(1, 0)
    former: Identity | None = None
    added: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()


class Rows(NamedTuple):
    """Rows on a partition that no marker has settled."""

    identity: Identity
    value: Any


class Partition(NamedTuple):
    """A partition's log as far as it matters.

    ``log``: on outputs the numbers of the rows that readers see, on ``progress`` the whole log, on ``offsets`` the
    committed offset. ``producers`` has the newest epoch of each producer id and whether it has written at it;
    ``behind`` which marker stands behind rows.
    """

    led: bool = True
    open: tuple[Rows, ...] = ()
    log: tuple[Any, ...] = ()
    producers: tuple[tuple[int, int, bool], ...] = ()
    behind: tuple[tuple[Identity, str], ...] = ()

    def newest(self, producer: int) -> tuple[int, bool]:
        """Return the newest epoch of a producer id, and whether there are rows of that epoch."""
        return next(((epoch, wrote) for known, epoch, wrote in self.producers if known == producer), (-1, False))

    def producers_with(self, producer: int, epoch: int, wrote: bool) -> tuple[tuple[int, int, bool], ...]:
        """All producers, this one as said."""
        return tuple(sorted([*(row for row in self.producers if row[0] != producer), (producer, epoch, wrote)]))


class Broker(NamedTuple):
    """The cluster.

    ``truth`` is what the coordinator decided of each transaction: nobody in the model can ask for it, the checks do.
    """

    coordinator: Coordinator = Coordinator()
    partitions: tuple[Partition, ...] = (Partition(),) * len(ALL)
    truth: tuple[tuple[Identity, str], ...] = ()
    next_producer: int = 2

    def decided(self, identity: Identity) -> str | None:
        """Return the coordinator's decision on a transaction."""
        return next((decision for known, decision in self.truth if known == identity), None)

    def with_partition(self, index: int, partition: Partition) -> Broker:
        """Return the same cluster with one partition replaced."""
        return self._replace(partitions=(*self.partitions[:index], partition, *self.partitions[index + 1 :]))

    def visible(self) -> tuple[int, ...]:
        """Return the rows that readers of the output see."""
        return tuple(row for partition in self.partitions[: OUT1 + 1] for row in partition.log)


class Answer(NamedTuple):
    """One way in which a request may be answered.

    ``reply`` None: none yet (51, or the coordinator has moved), it is asked again.
    """

    reply: Any
    broker: Broker
    note: str = ""


class Kafka:
    """The rules.

    ``last_epoch`` is where epochs run out; ``late_markers`` lets a repeated marker in, as Kafka did before
    4.2.
    """

    def __init__(self, *, last_epoch: int = 32_766, late_markers: bool = False) -> None:
        self.last_epoch = last_epoch
        self.late_markers = late_markers
        self._rules: dict[type, Callable[[Broker, Any], list[Answer]]] = {
            Describe: self._describe,
            Init: self._init,
            Add: self._add,
            End: self._end,
            Produce: self._produce,
            OpenRows: self._open_rows,
            MarkerBehind: self._marker_behind,
            WriteMarker: self._write_marker,
            StableOffset: self._stable_offset,
            Claim: self._claim,
            ReadToStable: self._read_to_stable,
            ReadToHigh: self._claim,
            SettledPosition: self._settled_position,
            Decide: self._decide,
        }

    def answers(self, broker: Broker, request: Any) -> list[Answer]:
        """All ways in which the request may be answered now.

        None: nobody answers, it is asked again. Raises :class:`Wrong`.
        """
        return self._rules[type(request)](broker, request)

    # ---- the coordinator

    def _describe(self, broker: Broker, _: Describe) -> list[Answer]:
        now = broker.coordinator
        return [Answer((now.identity if now.known else None, now.added if now.state == ONGOING else ()), broker)]

    def _init(self, broker: Broker, _: Init) -> list[Answer]:
        now = broker.coordinator
        if not now.known:
            fresh = Identity(broker.next_producer, 0)
            new = Coordinator(state=EMPTY, decision="", identity=fresh)
            return [Answer(fresh, broker._replace(coordinator=new, next_producer=fresh.producer + 1))]
        if now.state == ONGOING and now.added:
            return [Answer(None, self.prepare(broker, ABORT))]
        if now.state == PREPARE:
            return []
        following, broker = self._following(broker)
        return [
            Answer(following, broker._replace(coordinator=Coordinator(state=EMPTY, decision="", identity=following)))
        ]

    def _add(self, broker: Broker, request: Add) -> list[Answer]:
        now = broker.coordinator
        if not now.known or now.identity.producer != request.identity.producer:
            return [Answer(NOT_OURS, broker)]
        if now.identity != request.identity:
            return [Answer(FENCED, broker)]
        if now.state == PREPARE:
            return []
        return [Answer(OK, broker._replace(coordinator=_with_added(now, request.partitions)))]

    def _end(self, broker: Broker, request: End) -> list[Answer]:
        now = broker.coordinator
        if now.known and request.identity == now.former:  # a repeat
            if now.decision != request.decision:
                return [Answer((WRONG_STATE, None), broker)]
            return (
                []
                if now.state == PREPARE
                else [Answer((OK, now.identity), broker)]
                if now.state == COMPLETE
                else self._fenced(broker)
            )
        if not now.known or now.identity.producer != request.identity.producer:
            return [Answer((NOT_OURS, None), broker)]
        if request.identity != now.identity:
            return self._fenced(broker)
        if now.state == ONGOING:
            broker = self.prepare(broker, request.decision)
            return [Answer((OK, broker.coordinator.identity), broker)]
        if now.state == PREPARE:
            return []
        if request.decision == COMMIT:
            return [Answer((WRONG_STATE, None), broker)]
        # an abort with nothing in it: the epoch goes on all the same
        following, broker = self._following(broker)
        done = Coordinator(state=COMPLETE, decision=ABORT, identity=following, former=request.identity)
        return [Answer((OK, following), broker._replace(coordinator=done))]

    @staticmethod
    def _fenced(broker: Broker) -> list[Answer]:
        return [Answer((FENCED, None), broker)]

    def prepare(self, broker: Broker, decision: str) -> Broker:
        """Decide the open transaction, and take the next identity. Its markers are to be written from now on."""
        now = broker.coordinator
        if broker.decided(now.identity) is None:
            broker = broker._replace(truth=tuple(sorted([*broker.truth, (now.identity, decision)])))
        following, broker = self._following(broker)
        state = PREPARE if now.added else COMPLETE
        return broker._replace(
            coordinator=Coordinator(
                state=state, decision=decision, identity=following, former=now.identity, pending=now.added
            )
        )

    def _following(self, broker: Broker) -> tuple[Identity, Broker]:
        producer, epoch = broker.coordinator.identity
        if epoch + 1 < self.last_epoch:
            return Identity(producer, epoch + 1), broker
        return Identity(broker.next_producer, 0), broker._replace(next_producer=broker.next_producer + 1)

    # ---- partitions

    def _produce(self, broker: Broker, request: Produce) -> list[Answer]:
        identity, index = request.identity, request.partition
        partition = broker.partitions[index]
        if not partition.led:
            return []
        newest, wrote = partition.newest(identity.producer)
        if newest > identity.epoch:
            return [Answer(STALE_EPOCH, broker)]
        if newest == identity.epoch and wrote and index != OFFSETS:
            return [Answer(OK, broker)]  # the same sequence again: OK, and the first rows stay
        if not any(rows.identity.producer == identity.producer for rows in partition.open):
            # the leader asks the coordinator before the first rows of a transaction; behind those it asks nobody
            now = broker.coordinator
            if not now.known or now.identity != identity:
                return [Answer(STALE_EPOCH, broker)]
            if now.state == PREPARE:
                return []
            broker = broker._replace(coordinator=_with_added(now, (index,)))
        log, opened = partition.log, partition.open
        if index == PROGRESS:
            assert isinstance(request.value, Position)
            log = (*log, Record(identity, request.value))
        if index == OFFSETS:
            opened = tuple(rows for rows in opened if rows.identity != identity)
        written = partition._replace(
            open=(*opened, Rows(identity, request.value)),
            log=log,
            producers=partition.producers_with(identity.producer, identity.epoch, True),
        )
        return [Answer(OK, broker.with_partition(index, written))]

    def _open_rows(self, broker: Broker, request: OpenRows) -> list[Answer]:
        partition = broker.partitions[request.partition]
        return [Answer(open_of(partition, request.producers), broker)] if partition.led else []

    def _marker_behind(self, broker: Broker, request: MarkerBehind) -> list[Answer]:
        partition = broker.partitions[request.partition]
        if not partition.led:
            return []
        return [
            Answer(
                next((decision for identity, decision in partition.behind if identity == request.identity), ""), broker
            )
        ]

    def _write_marker(self, broker: Broker, request: WriteMarker) -> list[Answer]:
        if not broker.partitions[request.partition].led:
            return []
        return [Answer(OK, self.land(broker, *request))]

    def land(self, broker: Broker, index: int, ended: Identity, decision: str) -> Broker:
        """Write the marker of a transaction on a partition. It settles all open rows of its producer id there.

        Raises :class:`Wrong`.
        """
        partition = broker.partitions[index]
        newest, _ = partition.newest(ended.producer)
        if newest > ended.epoch and not (self.late_markers and newest == ended.epoch + 1):
            return broker  # WriteTxnMarkers v2: a marker that comes again is refused
        mine = [rows for rows in partition.open if rows.identity.producer == ended.producer]
        for rows in mine:
            truth = broker.decided(rows.identity)
            if truth != decision:
                fate = f"that was decided as {truth}" if truth else "that is not decided yet"
                raise Wrong(
                    f"torn: the rows of {said(rows.identity)} on {NAMES[index]}, of a transaction {fate}, met the"
                    f" marker {decision}"
                )
        log, behind = partition.log, partition.behind
        if index == PROGRESS:
            log = (*log, Marker(ended.producer, decision)) if mine else log
        elif index == OFFSETS:
            log = (mine[-1].value,) if mine and decision == COMMIT else log
        else:
            behind = tuple(sorted({*behind, *((rows.identity, decision) for rows in mine)}))
            if decision == COMMIT:
                log = tuple(sorted([*log, *(number for rows in mine for number in rows.value)]))
        opened = tuple(rows for rows in partition.open if rows.identity.producer != ended.producer)
        producers = partition.producers_with(ended.producer, max(newest, ended.epoch + 1), False)
        broker = broker.with_partition(
            index, partition._replace(open=opened, log=log, producers=producers, behind=behind)
        )
        if index <= OUT1 and decision == COMMIT and mine:
            visible = broker.visible()
            if len(set(visible)) < len(visible):
                raise Wrong(f"a duplicate: readers see the rows {', '.join(map(str, visible))}")
        return broker

    def _stable_offset(self, broker: Broker, _: StableOffset) -> list[Answer]:
        partition = broker.partitions[OFFSETS]
        if partition.led and partition.open:
            return _time_is_up(broker)
        return [Answer(partition.log[0] if partition.log else 0, broker)] if partition.led else []

    # ---- the progress partition

    def _claim(self, broker: Broker, _: Claim | ReadToHigh) -> list[Answer]:
        partition = broker.partitions[PROGRESS]
        return [Answer(partition.log, broker)] if partition.led else []

    def _read_to_stable(self, broker: Broker, _: ReadToStable) -> list[Answer]:
        partition = broker.partitions[PROGRESS]
        return [Answer(log_to_stable(partition.log), broker)] if partition.led else []

    def _settled_position(self, broker: Broker, _: SettledPosition) -> list[Answer]:
        partition = broker.partitions[PROGRESS]
        if partition.led and reading(partition.log).open:
            return _time_is_up(broker)
        return [Answer(partition.log, broker)] if partition.led else []

    def _decide(self, broker: Broker, request: Decide) -> list[Answer]:
        partition = broker.partitions[PROGRESS]
        if not partition.led:
            return []
        said_so = Decided(*request)
        log = partition.log if said_so in partition.log else (*partition.log, said_so)
        return [Answer(OK, broker.with_partition(PROGRESS, partition._replace(log=log)))]

    @staticmethod
    def hang(broker: Broker) -> Broker:
        """Another query's transaction hangs on the progress partition: the last stable offset stays below it."""
        partition = broker.partitions[PROGRESS]
        return broker.with_partition(PROGRESS, partition._replace(log=(*partition.log, FOREIGN)))


def _with_added(now: Coordinator, partitions: tuple[int, ...]) -> Coordinator:
    return now._replace(
        state=ONGOING, decision="", former=None, added=tuple(sorted({*now.added, *partitions})), pending=()
    )


def _time_is_up(broker: Broker) -> list[Answer]:
    """Somebody who waits for a marker gives up, unless the marker is on its way."""
    return [Answer(PENDING, broker)] if broker.coordinator.state != PREPARE else []


def open_of(partition: Partition, producers: tuple[int, ...]) -> tuple[Identity, ...]:
    """Return the identities of these producer ids that have open rows on a partition."""
    return tuple(sorted({rows.identity for rows in partition.open if rows.identity.producer in producers}))


def said(identity: Identity) -> str:
    """``1/3``: producer id and epoch."""
    return f"{identity.producer}/{identity.epoch}"
