"""The topics of a source in the cluster: partitions, their current ends, and where to start.

Partitions are looked for once a second at most: Spark asks for the latest offsets every few milliseconds while a query
has nothing to do. Not promised: that a pattern finds a topic in the very trigger in which it was created.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from semel.errors import ConfigError
from semel.read import NO_END, Committed, Earliest, EndSpec, Loss, id_text, resolve
from semel.read.data_loss import report
from semel.spark.source.batch_ranges import PartitionPlan
from semel.spark.source.options import Resume, SourceOptions, Start
from semel.spark.source.selection import Assign, Subscribe, SubscribePattern
from semel.spark.source.unsubscribed import drop_unsubscribed
from semel.transaction.progress.reader import committed_progress, holds_progress
from semel.transaction.progress.record import KafkaSource, Progress
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import Topic, TopicPartition

__all__ = ["GONE", "LatestOffset", "SourceTopics"]

log = logging.getLogger("semel.spark")

_FRESH_SECONDS = 1.0
#: A topic or partition may go away between two requests; after so many looks the answer is believed.
_LOOKS = 3
#: The tags of what is not there.
GONE = ("UNKNOWN_TOPIC", "UNKNOWN_PARTITION")


@dataclass(frozen=True, slots=True)
class LatestOffset:
    """A partition as the cluster shows it: the id of its topic, where a reader may read to, and the epoch of the leader
    that said so.

    Under read_committed that is the last stable offset.
    """

    topic_id: str
    latest: int
    epoch: int


class SourceTopics:
    """The topics of one source. One thread at a time."""

    def __init__(self, client: Client, options: SourceOptions) -> None:
        self._client = client
        self._options = options
        self._selected: dict[TopicPartition, str] = {}
        self._looked = float("-inf")
        self._resumed: Progress | None = None
        #: Of topics that a pattern matches, by id: whether they keep progress; None while they are empty.
        self._keeps_progress: dict[UUID, bool | None] = {}
        self._looked_up_to: dict[UUID, dict[int, int]] = {}
        self._warned = False

    @property
    def cluster(self) -> str:
        """The cluster's id."""
        return self._client.cluster

    def select(self, *, ready: Collection[TopicPartition] | None = None) -> dict[TopicPartition, str]:
        """Return the partitions to read, each with the id of its topic. Raise :class:`ConfigError` for a topic or
        partition that does not exist.

        With ``ready``, only these and others that have a leader: a partition that is being created is left for the next
        look.
        """
        topics = self._topics(ready)
        listed = self._options.selection.partitions if isinstance(self._options.selection, Assign) else _all_of(topics)
        selected: dict[TopicPartition, str] = {}
        for name, index in listed:
            found = topics[name].partitions.get(index)
            if found is None:
                raise ConfigError(
                    f"topic {name} has no partition {index}: it has {len(topics[name].partitions)}. Nothing was read."
                    " Correct assign, or add it.",
                    tag="UNKNOWN_PARTITION",
                )
            if ready is None or (name, index) in ready or found.leader >= 0:
                selected[name, index] = id_text(topics[name].id)
        self._looked = time.monotonic()
        self._selected = selected
        return selected

    def _topics(self, ready: Collection[TopicPartition] | None) -> dict[str, Topic]:
        selection = self._options.selection
        if isinstance(selection, SubscribePattern):
            known = self._client.refresh(None).topics
            matched = {
                name: topic
                for name, topic in known.items()
                if not topic.error and not topic.internal and self.selects((name, 0))
            }
            rows = {name: topic for name, topic in matched.items() if self._holds_rows(topic, ready)}
            nothing = all(self._keeps_progress.get(topic.id) for topic in matched.values())
            if not rows and nothing and not self._warned:
                self._warned = True
                only = ": those that it matches keep progress, and are never read" if matched else ""
                log.warning("subscribePattern=%s matches no topic yet%s", selection.pattern, only)
            return rows
        names = selection.topics if isinstance(selection, Subscribe) else {name for name, _ in selection.partitions}
        known = self._client.refresh(set(names)).topics
        return {name: known[name] for name in names}

    def _holds_rows(self, topic: Topic, ready: Collection[TopicPartition] | None) -> bool:
        """Return whether a topic that matches a pattern holds rows.

        One that may yet become a progress topic, since it is empty, is left for the next look: nothing is missed of it.
        One whose leaders are not there yet is left for the next look too, where there will be one. A first look, the
        only one of a batch query, waits for them.
        """
        if self._keeps_progress.get(topic.id) is None and ready is not None:
            if any((topic.name, index) in ready for index in topic.partitions):
                return True  # it was read before
            if any(partition.leader < 0 for partition in topic.partitions.values()):
                return False
        if self._keeps_progress.get(topic.id) is None:
            looked = self._looked_up_to.setdefault(topic.id, {})
            found = self._keeps_progress[topic.id] = holds_progress(self._client, topic, looked)
            if found:
                log.info("%s keeps progress: subscribePattern leaves it out", topic.name)
        return self._keeps_progress[topic.id] is False

    def selects(self, partition: TopicPartition) -> bool:
        """Return whether the options ask for this partition, even if it does not exist."""
        match self._options.selection:
            case Subscribe(topics):
                return partition[0] in topics
            case Assign(partitions):
                return partition in partitions
            case SubscribePattern(pattern):
                # its own progress would be new input for a query that reads everything, for ever
                return partition[0] != self._options.progress_topic and re.fullmatch(pattern, partition[0]) is not None

    def latest(self, known: Collection[TopicPartition], *, fresh: bool = False) -> dict[TopicPartition, LatestOffset]:
        """Return the partitions to read and their current ends.

        ``known`` are those that were read before; what of them is gone is left out.
        """
        fresh = fresh or time.monotonic() - self._looked > _FRESH_SECONDS
        for look in range(_LOOKS):
            try:
                selected = self._still_there(known) if fresh or look else self._selected
                found = list_offsets(
                    self._client, dict.fromkeys(selected, LATEST), read_committed=self._options.read_committed
                )
                return {
                    partition: LatestOffset(selected[partition], row.offset, row.leader_epoch)
                    for partition, row in found.items()
                }
            except ConfigError as error:
                if error.tag not in GONE or look == _LOOKS - 1:
                    raise
        raise AssertionError("the last look returns or raises")

    def _still_there(self, known: Collection[TopicPartition]) -> dict[TopicPartition, str]:
        try:
            return self.select(ready=known)
        except ConfigError as error:
            # with nothing left to read it is a wrong name, and no topic that was deleted
            if error.tag not in GONE or not any(self.selects(partition) for partition in known):
                raise
            unknown = error
        # one of several topics was deleted: the others are read on, and what is missing is the caller's to judge
        known_topics = self._client.refresh(None).topics
        there = {(name, index): id_text(topic.id) for name, topic in known_topics.items() for index in topic.partitions}
        if self._options.fail_on_data_loss and self._never_seen({*there, *known}):
            raise unknown
        self._selected = {partition: topic_id for partition, topic_id in there.items() if self.selects(partition)}
        self._looked = time.monotonic()
        return self._selected

    def _never_seen(self, seen: Collection[TopicPartition]) -> bool:
        """Return whether the options name a topic or partition that does not exist and was not read before."""
        match self._options.selection:
            case Subscribe(topics):
                return not set(topics) <= {name for name, _ in seen}
            case Assign(partitions):
                return not set(partitions) <= set(seen)
        return False

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each log."""
        return resolve(self._client, partitions, Earliest(), read_committed=self._options.read_committed)

    def starts(self, selected: Mapping[TopicPartition, str], start: Start) -> dict[TopicPartition, int]:
        """Return where reading starts in each partition."""
        if isinstance(start, Resume):
            return self._resume(selected, start)
        return resolve(self._client, selected, start, read_committed=self._options.read_committed)

    def ends(self, selected: Mapping[TopicPartition, str], end: EndSpec) -> dict[TopicPartition, int]:
        """Return where reading ends in each partition."""
        return resolve(self._client, selected, end, read_committed=self._options.read_committed, ending=True)

    # ---- startingOffsets=committed

    def _resume(self, selected: Mapping[TopicPartition, str], resume: Resume) -> dict[TopicPartition, int]:
        """Return where to resume: by the progress of the prefix if it knows these topics, else by the group (PROTOCOL
        6).
        """
        progress = (
            committed_progress(self._client, resume.prefix, progress_topic=resume.progress_topic)
            if resume.prefix is not None
            else None
        )
        positions = self._positions(progress, selected) if progress is not None else None
        if positions is not None:
            self._resumed = progress
            return self.earliest([partition for partition in selected if partition not in positions]) | positions
        if resume.group is not None:
            return resolve(self._client, selected, Committed(resume.group), read_committed=self._options.read_committed)
        raise ConfigError(
            f"transactionalIdPrefix {resume.prefix!r} has no progress of these topics in {resume.progress_topic}, and"
            " there is no kafka.group.id to ask instead. Nothing was read. Correct the prefix, name the group, or"
            " start from earliest, latest or given offsets.",
            tag="NOTHING_COMMITTED",
        )

    def left_out(self, selected: Mapping[TopicPartition, str]) -> dict[TopicPartition, PartitionPlan]:
        """Return the partitions of the resumed progress that the options do not ask for, even if they are gone: the
        sink compares all of them with the first batch.

        Nothing of a progress of several sources, which does not say which of them this one is. Raises :class:`DataLoss`
        as :func:`~semel.spark.source.unsubscribed.drop_unsubscribed`.
        """
        sources = self._resumed.sources if self._resumed is not None else ()
        if len(sources) != 1 or not isinstance(sources[0], KafkaSource) or sources[0].cluster != self.cluster:
            return {}
        anew = {
            name
            for (name, _), topic_id in selected.items()
            if name in sources[0].topics and sources[0].topics[name].id != topic_id
        }
        rows = [(name, at, index) for name, at in sources[0].topics.items() if name not in anew for index in at.end]
        unread = {(name, index): at for name, at, index in rows if not self.selects((name, index))}
        ends = {(name, index): at.end[index] for (name, index), at in unread.items()}
        if self._options.fail_on_data_loss:
            drop_unsubscribed(ends, fail_on_data_loss=True)
        return {p: PartitionPlan(at.id, ends[p], ends[p], ends[p]) for p, at in unread.items()}

    def _positions(
        self, progress: Progress, selected: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, int] | None:
        """Return the lowest position of each partition among the sources that read it, or None if none of them reads
        these topics.
        """
        ids = {name: topic_id for (name, _), topic_id in selected.items()}
        positions = progress.positions(self.cluster, ids)
        found = {partition: end for partition, end in positions.items() if partition in selected}
        lost = [
            Loss(
                name,
                index,
                end,
                NO_END,
                f"the topic was deleted and created again: its id was {at.id} and is {now}",
                anew=True,
            )
            for source in progress.sources
            if isinstance(source, KafkaSource) and source.cluster == self.cluster
            for name, at in source.topics.items()
            for index, end in at.end.items()
            if (now := selected.get((name, index), at.id)) != at.id
        ]
        report(lost, fail_on_data_loss=self._options.fail_on_data_loss)
        return found if found or lost else None


def _all_of(topics: Mapping[str, Topic]) -> list[TopicPartition]:
    return [(name, index) for name, topic in topics.items() for index in topic.partitions]
