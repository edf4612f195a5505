"""The position of each source partition, in the progress record of each round's transaction.

The record lies on the target cluster (DESIGN rule 5), under the id and scope that :func:`flow_id` and :data:`SCOPE`
name. Beside the next offset of each partition it has what later rounds compare: the source cluster's id, each topic's
id on both sides, the leader epoch of the last batch that was read, and how topics are named; and the target offset that
each position stands for. Topics that the file no longer names keep their positions.

Beside them it names what is stopped and why, for ``semel mirror status``: partitions, topics and groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from semel.errors import ConfigError, DataLoss
from semel.mirror.policy import ReplicationPolicy
from semel.mirror.stops import Stop
from semel.strict_json import of_kind
from semel.transaction.progress.reader import read_everything
from semel.transaction.progress.record import KafkaSource, Progress, TopicEnd
from semel.transaction.progress.topic import ProgressTopic
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["SCOPE", "OffsetAndEpoch", "Positions", "flow_id", "last_known"]

SCOPE = "mirror"
#: The key of what the progress record has beside a source's offsets.
_EXTRA = "mirror"
#: So many stops have their text in a record; the others have their tag alone, so that the record stays small.
_STOPS_WITH_TEXT = 100
_Key = TypeVar("_Key", str, TopicPartition)


def flow_id(source: str, target: str) -> str:
    """Return the transactional id of a flow, which is also the key of its progress."""
    return f"mirror.{source}.{target}"


@dataclass(frozen=True, slots=True)
class OffsetAndEpoch:
    """The next offset to copy of one partition. ``epoch`` is the leader epoch of the last batch before it, or -1.

    ``target`` is the offset after the last record that was written to its target partition, or -1 if that is unknown.
    """

    offset: int
    epoch: int = -1
    target: int = -1


@dataclass(frozen=True, slots=True)
class Positions:
    """The positions of a flow. ``ids`` are of source topics; ``targets`` has name and id of each one's target topic.

    ``stopped`` has the partitions and whole topics that are not copied, ``stopped_groups`` the groups that do not
    follow. Topics that have ``left`` were deleted on the source when all of them was copied. ``set_by`` is the command
    that has set these positions; the next round's are its own again.
    """

    cluster: str
    policy: str
    ids: Mapping[str, str] = field(default_factory=dict)
    targets: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    at: Mapping[TopicPartition, OffsetAndEpoch] = field(default_factory=dict)
    round: int = -1
    stopped: Mapping[TopicPartition, Stop] = field(default_factory=dict)
    stopped_groups: Mapping[str, Stop] = field(default_factory=dict)
    left: frozenset[str] = frozenset()
    set_by: str = ""

    @classmethod
    def begin(cls, cluster: str, policy: ReplicationPolicy) -> Positions:
        """Return the positions of a flow that has copied nothing yet."""
        return cls(cluster, policy.recorded_name)

    @classmethod
    def of(cls, progress: Progress, where: str) -> Positions:
        """From a progress record.

        Raises :class:`DataLoss` for one that is no mirror's; ``where`` is for the message.
        """
        try:
            (source,) = progress.sources
            if not isinstance(source, KafkaSource):
                raise TypeError("its source is none of Kafka's")
            extra = of_kind(dict, progress.extra[_EXTRA])
            epochs, ends = _by_topic(extra["epochs"]), _by_topic(extra.get("ends", {}))
            targets = {topic: _name_and_id(row) for topic, row in extra["targets"].items()}
            at = {
                (topic, index): OffsetAndEpoch(
                    offset, epochs.get(topic, {}).get(index, -1), ends.get(topic, {}).get(index, -1)
                )
                for topic, end in source.topics.items()
                for index, offset in end.end.items()
            }
            ids = {topic: end.id for topic, end in source.topics.items()}
            policy, number = of_kind(str, extra["policy"]), of_kind(int, progress.batch)
            stopped = {
                (topic, int(index)): _stop(row)
                for topic, rows in extra.get("stopped", {}).items()
                for index, row in rows.items()
            }
            groups = {group: _stop(row) for group, row in extra.get("groups", {}).items()}
            left = frozenset(of_kind(str, topic) for topic in extra.get("left", []))
            known = {topic: targets[topic] for topic in ids}
            set_by = of_kind(str, extra.get("set_by", ""))
            return cls(source.cluster, policy, ids, known, at, number, stopped, groups, left, set_by)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataLoss(
                f"the progress of {where} is not that of a mirror ({error!r:.200}). Nothing was copied."
                " Find out which other program uses that transactional id.",
                tag="PROGRESS_DAMAGED",
            ) from None

    def progress(self) -> Progress:
        """Return the progress record for a transaction."""
        offsets: dict[str, dict[int, int]] = {topic: {} for topic in sorted(self.ids)}
        epochs: dict[str, dict[str, int]] = {}
        ends: dict[str, dict[str, int]] = {}
        for (topic, index), position in sorted(self.at.items()):
            if topic in offsets:
                offsets[topic][index] = position.offset
            for rows, number in ((epochs, position.epoch), (ends, position.target)):
                if number >= 0:
                    rows.setdefault(topic, {})[str(index)] = number
        targets = {topic: list(target) for topic, target in self.targets.items()}
        extra: dict[str, Any] = {"policy": self.policy, "targets": targets, "epochs": epochs, "ends": ends}
        stopped: dict[str, dict[str, list[str]]] = {}
        for (topic, index), row in _rows(self.stopped):
            stopped.setdefault(topic, {})[str(index)] = row
        extra |= {"stopped": stopped} if stopped else {}
        extra |= {"groups": dict(_rows(self.stopped_groups))} if self.stopped_groups else {}
        extra |= {"left": sorted(self.left)} if self.left else {}
        extra |= {"set_by": self.set_by} if self.set_by else {}
        topics = {topic: TopicEnd(self.ids[topic], rows) for topic, rows in offsets.items()}
        return Progress(batch=self.round, sources=(KafkaSource(self.cluster, topics),), extra={_EXTRA: extra})

    def moved(self, ends: Mapping[TopicPartition, OffsetAndEpoch]) -> Positions:
        """Return the positions of the next round, which has copied up to these ends. Without written records, the end
        on the target stays.
        """
        kept = {
            p: at if at.target >= 0 or p not in self.at else replace(at, target=self.at[p].target)
            for p, at in ends.items()
        }
        return replace(self, at={**self.at, **kept}, round=self.round + 1, set_by="")

    def begun(
        self,
        found: Mapping[TopicPartition, OffsetAndEpoch],
        ids: Mapping[str, str],
        targets: Mapping[str, tuple[str, str]],
    ) -> Positions:
        """With the beginnings of partitions that were found, and what their topics are."""
        return replace(self.moved(found), ids={**self.ids, **ids}, targets={**self.targets, **targets})

    def without(self, topic: str) -> Positions:
        """Return the positions without those of a topic, and without what has stopped it."""
        return replace(
            self,
            ids={name: id for name, id in self.ids.items() if name != topic},
            targets={name: one for name, one in self.targets.items() if name != topic},
            at={p: one for p, one in self.at.items() if p[0] != topic},
            stopped={p: one for p, one in self.stopped.items() if p[0] != topic},
            left=self.left - {topic},
        )

    def check_same_flow(self, cluster: str, policy: ReplicationPolicy) -> None:
        """Raise :class:`ConfigError` where the file leads to another source cluster, or names topics another way."""
        if cluster != self.cluster:
            raise ConfigError(
                f"{policy.source} was cluster {self.cluster} until now, and {policy.source}.bootstrap.servers leads to"
                f" {cluster}, where the positions of {flow_id(policy.source, policy.target)} mean nothing. Nothing was"
                " copied. Correct the address, or give the other cluster an alias of its own.",
                tag="OTHER_CLUSTER",
            )
        if policy.recorded_name != self.policy:
            raise ConfigError(
                f"{flow_id(policy.source, policy.target)} has copied with {self.policy} until now, and the file says"
                f" {policy.recorded_name}: the same records would go to other topics from here on. Nothing was copied."
                " Go back to the replication policy and separator that it began with.",
                tag="OTHER_POLICY",
            )


def last_known(target: Client, id: str) -> Positions | None:
    """Return the newest committed positions of a flow, read without ownership. None if it has none."""
    deadline = target.deadline()
    topic = ProgressTopic(target, id, SCOPE)
    if not topic.exists(deadline):
        return None
    newest = read_everything(topic, deadline).newest
    return None if newest is None or not newest.progress.sources else Positions.of(newest.progress, id)


def _rows(stops: Mapping[_Key, Stop]) -> Iterator[tuple[_Key, list[str]]]:
    for number, (key, stop) in enumerate(sorted(stops.items(), key=lambda row: row[0])):
        yield key, [stop.tag, stop.message if number < _STOPS_WITH_TEXT else ""]


def _stop(row: Any) -> Stop:
    tag, message = of_kind(list, row)
    return Stop(of_kind(str, tag), of_kind(str, message))


def _by_topic(rows: Any) -> dict[str, dict[int, int]]:
    return {topic: {int(i): of_kind(int, number) for i, number in row.items()} for topic, row in rows.items()}


def _name_and_id(row: Any) -> tuple[str, str]:
    name, id = of_kind(list, row)
    return of_kind(str, name), of_kind(str, id)
