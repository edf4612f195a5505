"""The topics of a flow that was taken over: found on the source, made on the target, begun, and stopped one by one.

What is wrong with one topic stops that topic. Each stop is committed with its reason, and looked at again when topics
are looked for again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from semel.errors import Fenced, Retriable, SemelError
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.losses import advice, losses_of, recreated_targets, rows_without_position, targets_gone
from semel.mirror.positions import OffsetAndEpoch, Positions
from semel.mirror.stops import WHOLE_TOPIC, Stop, Stops, names_source
from semel.mirror.topics import MirroredTopic, find, follow, sync_configs, wants, with_limit_read
from semel.read.data_loss import loss_error
from semel.read.ranges import id_text
from semel.steps import MirrorStep, reached
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import Topic, TopicPartition

__all__ = ["TopicFollower", "is_due"]

#: The target of each source partition.
_Targets: TypeAlias = Mapping[TopicPartition, TopicPartition]

log = logging.getLogger("semel.mirror")

#: So often what is stopped is tried again where the file has topics looked for once.
_TRY_AGAIN_S = 600


def is_due(last: float | None, interval_s: int) -> bool:
    """Return whether a periodic step is due. An interval of 0 means never."""
    return interval_s > 0 and (last is None or time.monotonic() - last > interval_s)


class TopicFollower:
    """Follows the topics of a flow. ``topics`` are those that can be copied; ``stops`` has what cannot."""

    def __init__(self, source: Client, target: Client, config: FlowConfig, id: str, producer: Producer) -> None:
        self._source, self._target, self._config, self._id = source, target, config, id
        self._producer = producer
        #: Each change makes another mapping: what follows from it is kept until then.
        self.topics: Mapping[str, MirroredTopic] = {}
        self.stops = Stops({})
        #: Source topics that an operator has paused alone.
        self.paused: frozenset[str] = frozenset()
        #: Something failed since: topics may be gone, or created again, and metadata would show that minutes later.
        self.doubtful = False
        self._left: frozenset[str] = frozenset()
        #: The newest progress, and the positions in it.
        self._read: tuple[Progress, Positions] | None = None
        self._followed: float | None = None
        self._tried: float | None = None
        self._synced: float | None = None
        #: Where source partitions were last seen to end.
        self._seen: dict[TopicPartition, int] = {}
        self._partitions: tuple[Mapping[str, MirroredTopic], _Targets] | None = None
        self._active: tuple[_Targets, Positions, tuple[object, ...], _Targets] | None = None

    @property
    def positions(self) -> Positions:
        """The committed positions."""
        progress = self._producer.progress
        if progress is None:
            return Positions.begin(self._source.cluster, self._config.policy)
        if self._read is None or self._read[0] is not progress:
            self._read = progress, Positions.of(progress, self._id)
        return self._read[1]

    @property
    def partitions(self) -> _Targets:
        """Each source partition, and the one that it is copied to. The same object until the topics change."""
        if self._partitions is None or self._partitions[0] is not self.topics:
            targets = {
                (name, index): (topic.target, index)
                for name, topic in self.topics.items()
                for index in range(topic.partitions)
            }
            self._partitions = self.topics, targets
        return self._partitions[1]

    @property
    def active(self) -> _Targets:
        """The partitions that are copied now, each with its target. The same object until something changes."""
        partitions, positions, others = self.partitions, self.positions, (self.stops, self.stops.changes, self.paused)
        known = self._active
        if known is None or known[0] is not partitions or known[1] is not positions or known[2] != others:
            active = {p: target for p, target in partitions.items() if p in positions.at and self.copies(p)}
            known = self._active = partitions, positions, others, active
        return known[3]

    def copies(self, partition: TopicPartition) -> bool:
        """Return whether a partition is copied now: it is neither stopped nor paused."""
        return not self.stops.has(partition) and partition[0] not in self.paused

    def next_trial(self, there: Iterable[TopicPartition]) -> TopicPartition | None:
        """Return a stopped partition that is to be tried again, among those that can be read now."""
        return self.stops.next_trial(partition for partition in there if partition[0] not in self.paused)

    def resume(self) -> None:
        """Take from the progress what is stopped. All of it is tried again."""
        positions = self.positions
        self.stops, self._left = Stops(positions.stopped), positions.left

    def see(self, ends: Mapping[TopicPartition, int]) -> None:
        """Remember where source partitions end now."""
        self._seen |= ends

    def keep_up(self) -> None:
        """Find topics and sync their settings, where that is due."""
        to_try = bool(self.stops.found) and is_due(self._tried, self._config.refresh_s or _TRY_AGAIN_S)
        if self._followed is None or self.doubtful or to_try or is_due(self._followed, self._config.refresh_s):
            self._follow()
        if is_due(self._synced, self._config.configs_s):
            self._synced = time.monotonic()
            for name in sync_configs(self._source, self._target, self._config, self.topics.values()):
                self.limit_changed(name)

    def knows(self, error: SemelError) -> bool:
        """Return whether an error is about a source topic of this flow."""
        topic = error.partition[0] if error.partition is not None else None
        return topic in self.topics or topic in self.positions.ids

    def limit_changed(self, topic: str) -> bool:
        """Read again how large a batch a target topic accepts. Return whether that is another size than before."""
        before = self.topics[topic]
        self.topics = {**self.topics, topic: with_limit_read(self._target, before)}
        return self.topics[topic] != before

    def stop(self, partition: TopicPartition, error: SemelError) -> None:
        """Stop a partition or topic, and name it once."""
        self.check_not_fenced()
        topic, index = partition
        name = topic if index == WHOLE_TOPIC else f"{topic}-{index}"
        if self.stops.add(partition, error):
            log.warning("%s: %s is stopped, the others are copied: %s", self._config.title, name, error)
        else:
            log.info("%s: %s is still stopped: %s", self._config.title, name, error.tag)
        if index == WHOLE_TOPIC:
            self.topics = {name: one for name, one in self.topics.items() if name != topic}

    def clear(self, partition: TopicPartition) -> None:
        """Have a partition or topic copied with the others again."""
        if self.stops.clear(partition):
            log.info("%s: %s is not stopped any more", self._config.title, partition[0])

    def check_not_fenced(self) -> None:
        """Raise :class:`Fenced` if another mirror has taken over. To one that was frozen, what its successor has done
        looks like a loss, and what to do then would do harm.
        """
        try:
            self._producer.check_owner()
        except Fenced:
            raise
        except SemelError as second:
            log.debug("%s: whether another has taken over could not be asked: %s", self._config.title, second)

    def record(self, groups: Mapping[str, Stop] | None) -> None:
        """Commit what is stopped, if that has changed since the last commit. ``groups`` is None if it is not known."""
        positions, stopped = self.positions, self.stops.found
        groups = positions.stopped_groups if groups is None else groups
        kept = (_tags(positions.stopped), _tags(positions.stopped_groups), positions.left)
        if kept != (_tags(stopped), _tags(groups), self._left):
            now = replace(positions.moved({}), stopped=stopped, stopped_groups=dict(groups), left=self._left)
            with self._producer.transaction() as txn:
                txn.commit(now.progress())

    # ---- following

    def _follow(self) -> None:
        """Find topics and partitions, have them on the target, and commit where those begin that were not there before.

        If a mirrored topic is gone, or was created again, it is not known whether all of it was copied.
        """
        if is_due(self._tried, self._config.refresh_s or _TRY_AGAIN_S):
            self.stops.try_again()
            self._tried = time.monotonic()
        positions, before, policy = self.positions, self.topics, self._config.policy
        all_found = find(self._source, self._config)
        # else each topic of a flow would be gone, or another one
        positions.check_same_flow(self._source.cluster, policy)
        known = all_found.keys() | (positions.ids.keys() - self._left)
        for topic in {topic for topic, _ in self.stops.found}:
            if topic not in known or not wants(self._config, topic):
                self.stops.forget(topic)
        found = {name: topic for name, topic in all_found.items() if not self.stops.topic_is_out(name)}
        same = {name for name, topic in found.items() if positions.ids.get(name) == id_text(topic.id)}
        self._left -= same
        moment = self._doubts(positions, all_found, same)
        gone = targets_gone(self._target, policy, {name: positions.targets[name][0] for name in same})
        wanted = {name: topic for name, topic in found.items() if name in same or name not in positions.ids}
        followed = follow(
            self._source, self._target, self._config, {n: t for n, t in wanted.items() if n not in gone}, before
        )
        again = recreated_targets(policy, followed.topics, positions)
        self.topics = {name: topic for name, topic in followed.topics.items() if name not in again}
        for name, error in {**gone, **again}.items():
            self.stop((name, WHOLE_TOPIC), error)
        for partition, refused in followed.refused.items():
            self.stop(partition, refused)
        for name in self.topics:
            self.clear((name, WHOLE_TOPIC))
        reached(MirrorStep.TOPICS_FOLLOWED, self._id)
        self._begin(positions)
        if moment:
            raise Retriable(f"{min(moment)} seemed to be another topic, or gone, for a moment. Nothing was copied.")
        if self._followed is None or self.topics != before:
            log.info("%s: %d topics, of %d partitions", self._config.title, len(self.topics), len(self.partitions))
        self._followed, self.doubtful = time.monotonic(), False

    def _doubts(self, positions: Positions, found: Mapping[str, Topic], same: set[str]) -> set[str]:
        """Stop the topics that are gone from the source, or are others now. Return those that only seemed to be.

        A topic of which all was copied when it was last seen leaves the flow.
        """
        doubtful = {
            name
            for name in positions.ids.keys() - same
            if wants(self._config, name)
            and not self.stops.topic_is_out(name)
            and (name in found or name not in self._left)
        }
        lost = losses_of(self._source, {p: at for p, at in positions.at.items() if p[0] in doubtful}, positions)
        for name in sorted(doubtful):
            losses = [loss for (topic, _), row in sorted(lost.items()) if topic == name for loss in row]
            if losses and name not in found and self._caught_up(positions, name):
                log.warning("%s: %s was deleted on the source, and leaves the flow: all was copied", self._id, name)
                self._left |= {name}
                self.stops.forget(name)
            elif losses:
                self.stop((name, WHOLE_TOPIC), loss_error(losses, advice(self._config.policy)))
        return doubtful - {topic for topic, _ in lost}

    def _caught_up(self, positions: Positions, topic: str) -> bool:
        """Return whether all of a topic was copied when this mirror last saw it."""
        at = {partition: one.offset for partition, one in positions.at.items() if partition[0] == topic}
        return all(partition in self._seen and self._seen[partition] <= offset for partition, offset in at.items())

    # ---- beginning

    def _begin(self, positions: Positions) -> None:
        """Commit where partitions begin that have no position, before the first of their batches is written."""
        partitions = self.partitions
        found = partitions.keys() - positions.at.keys()
        if found:
            written = {partitions[each]: each for each in found}
            with names_source(partitions):
                filled = rows_without_position(self._target, self._config.policy.target, self.topics, written)
            for partition, error in filled.items():
                self.stop(partition, error)
            found -= filled.keys()
        if not found:
            if self._producer.progress is None:  # topics that come from now on are found later
                with self._producer.transaction() as txn:
                    txn.commit(positions.begun({}, {}, {}).progress())
            return
        with names_source(partitions):
            begins = self._beginnings(found, first=self._producer.progress is None)
        topics = {topic: self.topics[topic] for topic, _ in found}
        ids = {name: topic.id for name, topic in topics.items()}
        targets = {name: (topic.target, id_text(topic.ticket.id)) for name, topic in topics.items()}
        with names_source(partitions), self._producer.transaction() as txn:
            txn.send_offsets({partitions[partition]: at.offset for partition, at in begins.items()}, self._id)
            txn.commit(positions.begun(begins, ids, targets).progress())
        for partition in found:
            self.clear(partition)
        reached(MirrorStep.BEGINNINGS_COMMITTED, self._id)

    def _beginnings(self, found: set[TopicPartition], *, first: bool) -> dict[TopicPartition, OffsetAndEpoch]:
        """Return where partitions begin. Those that are found later begin at their earliest offset: all of them are the
        mirror's.
        """
        at = LATEST if first and self._config.start == "latest" else EARLIEST
        listed = list_offsets(self._source, dict.fromkeys(found, at), read_committed=self._config.read_committed)
        targets = self.partitions
        there = list_offsets(
            self._target, {targets[partition]: LATEST for partition in found}, read_committed=False
        )  # what was aborted there has taken offsets too
        return {
            partition: OffsetAndEpoch(row.offset, target=there[targets[partition]].offset)
            for partition, row in listed.items()
        }


def _tags(stops: Mapping[Any, Stop]) -> dict[Any, str]:
    return {key: stop.tag for key, stop in stops.items()}
