"""The position of each partition of a flow that is adopted, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from semel.errors import ConfigError
from semel.mirror.adoption.origins import Origin, Standing, Trust
from semel.mirror.adoption.placing import Place, Unsure
from semel.mirror.adoption.windows import Log, Sought, find_places
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.offsets.groups import is_followed
from semel.mirror.offsets.segments import Runs
from semel.mirror.positions import Positions
from semel.mirror.topics import find
from semel.read.ranges import id_text
from semel.wire.api.groups import all_committed, list_groups
from semel.wire.client import Client
from semel.wire.metadata import Topic, TopicPartition

__all__ = ["Plan", "PlannedPartition", "make_plan"]


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """The beginning of one source partition.

    ``position`` is None where the flow finds the partition later, and begins at its earliest offset. ``beyond`` counts
    records of the target after the origin's position, None if that is not known. ``refused`` says why nothing is done.
    ``target_end`` is where the target's log ended then, None if it was not there.
    """

    partition: TopicPartition
    target: TopicPartition
    position: int | None = None
    origin: str = "-"
    beyond: int | None = None
    runs: Runs = field(default_factory=Runs.none)
    refused: str = ""
    target_end: int | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """The beginnings of all partitions that the file asks for. ``topics`` are the source's."""

    title: str
    origin: str
    topics: Mapping[str, Topic]
    partitions: tuple[PlannedPartition, ...]

    @property
    def begun(self) -> list[PlannedPartition]:
        """The partitions that get a position."""
        return [one for one in self.partitions if one.position is not None]

    def is_done(self, positions: Positions) -> bool:
        """Return whether a flow has exactly these positions, of these topics, and none of them is stopped: it was
        adopted already, and has copied nothing since.
        """
        at = {p: (one.offset, positions.ids.get(p[0])) for p, one in positions.at.items() if p[0] in self.topics}
        begun = {one.partition: (one.position, id_text(self.topics[one.partition[0]].id)) for one in self.begun}
        return at == begun and not any(topic in self.topics for topic, _ in positions.stopped)

    def check(self) -> None:
        """Raise :class:`ConfigError` if a partition is refused, or none has a position."""
        refused = [one for one in self.partitions if one.refused]
        if refused:
            (topic, index), more = refused[0].partition, len(refused) - 1
            raise ConfigError(
                f"{topic}-{index} cannot be adopted: {refused[0].refused}{f' ({more} more)' if more else ''}. Nothing"
                " was changed. `--dry-run` shows all. (1) Give its offset in a file: --from file:PATH."
                " (2) Leave its topic out: topics.exclude.",
                tag="NOT_ADOPTED",
            )
        if not self.begun:
            raise ConfigError(
                f"{self.origin} has no position of a topic that {self.title} mirrors. Nothing was changed. Correct"
                " --from, or `topics` in the file.",
                tag="NO_OFFSETS",
            )


def make_plan(source: Client, target: Client, config: FlowConfig, origin: Origin) -> Plan:
    """Return what would be done now. Writes nothing. Raises :class:`ConfigError` if the origin has no positions."""
    topics = find(source, config)
    names = {name: config.policy.format_remote_topic(name) for name in topics}
    there = target.existing(names.values())
    ids = {(name, index): id_text(topic.id) for name, topic in topics.items() for index in topic.partitions}
    standing = origin.positions(source, target, config, ids)
    sources = Log.of(source, ids)
    targets = Log.of(
        target,
        {
            (names[name], index): id_text(there[names[name]].id)
            for name, index in ids
            if names[name] in there and index in there[names[name]].partitions
        },
    )
    since = _group_offsets(source, config)
    sought = [
        Sought(
            log,
            targets[names[p[0]], p[1]],
            standing[p].position - 1 if p in standing else None,
            p in standing and standing[p].in_transaction,
            origin.by_rows,
            since.get(p, log.end),
        )
        for p, log in sources.items()
        if (names[p[0]], p[1]) in targets
    ]
    places = find_places(source, target, sought)
    named = {topic for topic, _ in standing}
    planned = []
    for p, log in sources.items():
        to = (names[p[0]], p[1])
        end = targets[to].end if to in targets else None
        here, place, one = PlannedPartition(p, to, target_end=end), places.get(p), standing.get(p)
        if one is None:
            planned.append(_without_position(origin, log, here, place, is_named=p[0] in named))
        else:
            planned.append(_with_position(origin, log, targets.get(to), here, place, one))
    return Plan(config.title, origin.title, topics, tuple(planned))


def _group_offsets(source: Client, config: FlowConfig) -> dict[TopicPartition, int]:
    """Return the lowest offset of a partition at which a group stands that the file asks for."""
    lowest: dict[TopicPartition, int] = {}
    for group in list_groups(source):
        if is_followed(config, group):
            with suppress(ConfigError):  # the login may not read it: it is not followed either
                for partition, one in all_committed(source, group).items():
                    lowest[partition] = min(lowest.get(partition, one.offset), one.offset)
    return lowest


def _with_position(
    origin: Origin,
    log: Log,
    target: Log | None,
    here: PlannedPartition,
    place: Place | Unsure | None,
    standing: Standing,
) -> PlannedPartition:
    here = replace(here, origin=standing.where)
    position, runs, trust = standing.position, Runs.none(), standing.trust
    beyond: int | None = None
    if trust is Trust.TRAILING and isinstance(place, Unsure):
        return replace(here, refused=place.reason)
    if trust is Trust.TRAILING and origin.lists_all and place is None and (target is None or not target.end):
        return replace(here, refused="the target has no records of it")
    if isinstance(place, Place):
        position = position if trust is Trust.CHOSEN else place.position
        beyond, runs = place.beyond, place.runs.before(position)
    elif place is None:
        beyond = 0
    if not log.first <= position <= log.end:
        where = f"below the beginning, {log.first}" if position < log.first else f"beyond the end, {log.end}"
        return replace(here, refused=f"offset {position} is {where}")
    return replace(here, position=position, beyond=beyond, runs=runs)


def _without_position(
    origin: Origin, log: Log, here: PlannedPartition, place: Place | Unsure | None, *, is_named: bool
) -> PlannedPartition:
    if isinstance(place, Unsure):
        return replace(here, refused=f"{origin.title} has no offset of it, and {place.reason}")
    if isinstance(place, Place):
        if not origin.lists_all:
            return replace(here, refused=f"{origin.title} has no offset of it, and the target has records")
        return replace(here, position=place.position, beyond=place.beyond, runs=place.runs, origin="target's records")
    if not origin.lists_all and is_named and log.first < log.end:
        return replace(here, refused=f"{origin.title} has no offset of it, but of other partitions of the topic")
    return replace(here, beyond=0)
