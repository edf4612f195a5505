"""Groups of the source on the target: MirrorMaker 2's checkpoints, and offsets that follow.

In a thread of its own beside the rounds. It reads what they have committed, and never holds them up: what does not go
well is logged, and done at the next time. A group that cannot be followed is named, and the others follow.

Checkpoints are plain records, written after the commit that they speak of. Offsets are committed for groups that have
no member on the target, and never backwards.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from semel.config import ClientConfig
from semel.errors import ConfigError, SemelError
from semel.mirror.background.internal_topics import ensure_compacted, write
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.formats import Checkpoint
from semel.mirror.meter import FlowMeter, FollowedGroup
from semel.mirror.offsets.checkpoints import Checkpoints, read_checkpoints
from semel.mirror.offsets.segments import Translated
from semel.mirror.offsets.translation import Translator
from semel.mirror.positions import Positions
from semel.mirror.stops import Stop
from semel.mirror.topics import wants
from semel.steps import MirrorStep, reached
from semel.wire.api import groups
from semel.wire.api.offsets import committed, live_members
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["GroupFollower", "check_checkpoints_topic", "is_followed"]

log = logging.getLogger("semel.mirror")

_JOIN_S = 30.0
#: How often it is looked whether something is committed, before there is.
_FIRST_LOOK_S = 0.1
_SOURCE_GROUP_S = 60

#: Of a group, by source partition: its next offset there, and what that is on the target.
_Offsets = dict[TopicPartition, tuple[groups.GroupOffset, Translated]]
_Problems = dict[str, Stop]


def is_followed(config: FlowConfig, group: str) -> bool:
    """Return whether the file asks for a group, and the mirror does not keep it for itself."""
    source = re.escape(config.policy.source)
    own = re.fullmatch(rf"mirror\.(?:{source}\..+|.+\.{source})", group)
    return own is None and config.groups.matches(group)


def check_checkpoints_topic(target: Client, config: FlowConfig) -> None:
    """Raise :class:`ConfigError` for a topic of checkpoints that would ask for more brokers than there are."""
    name, wanted = config.policy.checkpoints_topic, config.checkpoints_replication or -1
    brokers = len(target.brokers(target.deadline()))
    if config.checkpoints_s and wanted > brokers and name not in target.existing({name}):
        raise ConfigError(
            f"checkpoints.topic.replication.factor={wanted}, and {config.policy.target} has {brokers} brokers. Nothing"
            f" was copied. Set it to {brokers} at most, or -1 for the brokers' default.",
            tag="INVALID_REPLICATION_FACTOR",
        )


class GroupFollower:
    """Follows the groups of a flow, in the intervals that the file names. :meth:`tell` says what was committed."""

    def __init__(self, config: FlowConfig, id: str, meter: FlowMeter) -> None:
        self._config, self._id = config, id
        self._source = Client(ClientConfig.parse(config.source))
        self._target = Client(ClientConfig.parse(config.target))
        self._translator: Translator | None = None
        #: Those that were there at the first look.
        self._checkpoints: Checkpoints = {}
        self._newest: tuple[Positions, int] | None = None
        self._told: dict[str, _Offsets] = {}
        self._meter = meter
        #: Why groups were not read or translated at the last look, and why their offsets were not committed.
        self._unread: _Problems | None = None if config.checkpoints_s or config.sync_groups_s else {}
        self._unsynced: _Problems = {}
        self._stop = threading.Event()
        #: At the end of a copy the flow's own thread follows too: two at once would take each run in twice.
        self._following = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"{config.title} groups", daemon=True)

    @property
    def problems(self) -> _Problems | None:
        """The reason of each group that does not follow, or None before the first look. Any thread may ask."""
        return None if self._unread is None else {**self._unsynced, **self._unread}

    def start(self) -> None:
        """Follow from now on, in a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, and close the clients."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)
        self._source.close()
        self._target.close()

    def tell(self, positions: Positions, segments_end: int) -> None:
        """Report that these positions are committed, and the runs up to ``segments_end`` with them."""
        self._newest = positions, segments_end

    def _run(self) -> None:
        config = self._config
        last = dict.fromkeys(("checkpoints", "groups", "source"), 0.0)
        intervals = {"checkpoints": config.checkpoints_s, "groups": config.sync_groups_s, "source": _SOURCE_GROUP_S}
        pause = _FIRST_LOOK_S
        while not self._stop.wait(pause):
            now = time.monotonic()
            due = {name for name, seconds in intervals.items() if seconds > 0 and now - last[name] >= seconds}
            if due and self._newest is not None:
                last.update(dict.fromkeys(due, now))
                self.follow(checkpoints="checkpoints" in due, sync="groups" in due, own="source" in due)
            if self._newest is not None:
                next_due = min(last[name] + seconds for name, seconds in intervals.items() if seconds > 0)
                pause = max(next_due - time.monotonic(), 0)

    def follow(self, *, checkpoints: bool, sync: bool, own: bool) -> None:
        """Follow the groups once, now. Any thread may call it. Errors are logged."""
        with self._following:
            if self._newest is None:
                return
            positions, end = self._newest
            if own:
                with self._logged():
                    self._commit_source_group(positions)
            if checkpoints or sync:
                with self._logged():
                    self._follow(positions, end, checkpoints=checkpoints, sync=sync)

    @contextmanager
    def _logged(self) -> Iterator[None]:
        try:
            yield
        except SemelError as error:
            if not self._stop.is_set():
                log.warning("%s: records are copied, and groups are not followed: %s", self._config.title, error)

    def _follow(self, positions: Positions, end: int, *, checkpoints: bool, sync: bool) -> None:
        """Follow group by group: one that cannot be followed is named, and the others follow."""
        if self._translator is None:
            self._checkpoints = read_checkpoints(self._target, self._config.policy)
            self._translator = Translator(self._source, self._target, self._id)
        self._translator.update(positions, end)
        gone = self._targets_gone(positions)
        unread: _Problems = {}
        began = time.monotonic()
        found: dict[str, _Offsets] = {}
        for group in sorted(groups.list_groups(self._source)):
            if is_followed(self._config, group):
                with self._named(group, unread):
                    found[group] = self._translated(group, self._translator, gone, unread)
        self._unread = unread
        if checkpoints:
            with self._logged():
                self._write_checkpoints(found, began)
        if sync:
            unsynced: _Problems = {}
            for group, offsets in found.items():
                with self._named(group, unsynced):
                    self._sync(group, offsets)
            self._unsynced = unsynced
        self._show(found)

    def _show(self, found: Mapping[str, _Offsets]) -> None:
        """Tell the meter which groups follow."""
        shown = {
            group: FollowedGroup(len(offsets), sum(bool(one.note) for _, one in offsets.values()))
            for group, offsets in found.items()
        }
        self._meter.set_groups(shown, self.problems or {})

    @contextmanager
    def _named(self, group: str, problems: _Problems) -> Iterator[None]:
        """Note the error of one group."""
        try:
            yield
        except SemelError as error:
            self._note(group, Stop.of(error), problems)

    def _note(self, group: str, problem: Stop, problems: _Problems) -> None:
        before = (self.problems or {}).get(group)
        problems[group] = problem
        if (before is None or before.tag != problem.tag) and not self._stop.is_set():
            log.warning(
                "%s: group %s does not follow, and the others do: [SEMEL_%s] %s",
                self._config.title,
                group,
                problem.tag,
                problem.message,
            )

    def _targets_gone(self, positions: Positions) -> set[str]:
        """Return the mirrored source topics whose target topic is gone."""
        wanted = {topic: name for topic, (name, _) in positions.targets.items() if wants(self._config, topic)}
        there = self._target.existing(wanted.values())
        return {topic for topic, name in wanted.items() if name not in there}

    def _translated(self, group: str, translator: Translator, gone: set[str], unread: _Problems) -> _Offsets:
        """Return the translated offsets. They go back only if the group has gone back."""
        offsets = groups.all_committed(self._source, group)
        lacking = sorted({topic for topic, _ in offsets} & gone)
        if lacking:
            text = (
                f"the target topic of {lacking[0]} is gone. Only the group's other topics follow. Resolve that topic."
            )
            self._note(group, Stop("TARGET_GONE", text), unread)
        translated = translator.forward(
            {partition: one.offset for partition, one in offsets.items()}, self._checkpoints.get(group, {})
        )
        found = {partition: (offsets[partition], one) for partition, one in translated.items()}
        for partition, (upstream, before) in self._told.get(group, {}).items():
            if partition in found:
                now_upstream, now = found[partition]
                if upstream.offset <= now_upstream.offset and before.topic == now.topic and now.offset < before.offset:
                    found[partition] = now_upstream, before
        return found

    def _write_checkpoints(self, found: Mapping[str, _Offsets], began: float) -> None:
        """Write what has changed. ``began`` is when the groups' offsets were read."""
        made = [
            Checkpoint(group, one.topic, one.partition, upstream.offset, one.offset, upstream.metadata)
            for group, offsets in found.items()
            for partition, (upstream, one) in offsets.items()
            if self._told.get(group, {}).get(partition) != (upstream, one)
        ]
        if not made:
            return
        name = self._config.policy.checkpoints_topic
        ensure_compacted(self._target, name, self._config.checkpoints_replication)
        write(self._target, name, made)
        keys = [(one.group, one.topic, one.partition) for one in made]
        self._meter.add_checkpoints(keys, (time.monotonic() - began) * 1000)
        for group, offsets in found.items():
            self._told.setdefault(group, {}).update(offsets)
        reached(MirrorStep.CHECKPOINTS_WRITTEN, self._id)

    def _sync(self, group: str, found: _Offsets) -> None:
        """Commit for a group without members on the target what it has not reached there."""
        wanted = {(one.topic, one.partition): one.offset for _, one in found.values()}
        if not wanted or live_members(self._target, group):
            return
        there = committed(self._target, group, wanted, require_stable=False)
        ahead = {partition: offset for partition, offset in wanted.items() if offset > there.get(partition, -1)}
        if ahead:
            texts = {(one.topic, one.partition): upstream.metadata for upstream, one in found.values()}
            groups.commit(self._target, group, ahead, metadata=texts)
            reached(MirrorStep.GROUP_SYNCED, self._id)

    def _commit_source_group(self, positions: Positions) -> None:
        """For lag tools: the group of the flow's name, on the source. It is a view, and may be old."""
        offsets = {partition: at.offset for partition, at in positions.at.items()}
        there = self._source.existing({topic for topic, _ in offsets})
        known = {p: at for p, at in offsets.items() if p[0] in there and p[1] in there[p[0]].partitions}
        if known:
            groups.commit(self._source, self._id, known)
