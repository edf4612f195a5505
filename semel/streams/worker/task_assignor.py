"""An assignor that shares tasks among the members of a group so that tasks stay with their state.

A task is one partition of each topic of a sub-topology. Each member reports the tasks that it ran, those that it has
state of, and how far its copies are behind. All members get equally many tasks: first the ones that they ran, then
those that they have a recent copy of.

With standby tasks, as in Kafka Streams (KIP-441), a task stays where its state is. If equal numbers want it elsewhere,
that member warms up first: it gets a copy, and the leader shares out again after a while. The standby tasks are placed
last, each on a member that does not run the task. All members must offer this assignor: it is for the workers of one
streams application.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from semel.streams.settings import Settings
from semel.strict_json import read_object, write_object
from semel.wire.consumer_protocol import Subscription
from semel.wire.metadata import TopicPartition

__all__ = ["Claims", "Standbys", "TaskAssignor", "place_standbys", "share_out", "stay_ready", "with_lags"]

Task = tuple[int, int]
#: Returns the topics of each sub-topology, of those that exist.
Topics = Callable[[Collection[str]], Sequence[Sequence[str]]]
#: The kinds of claims: what a member runs, has a recent copy of, has an older copy of, and has a folder of.
_FOLDER = 3
_KINDS = 4


class Claims(NamedTuple):
    """The claims of a member: the tasks that it runs, and those that it has a folder of. ``lags`` are the changelogs'
    offsets that its open copies lack: those of standby tasks, and of tasks that restore. ``offsets`` are those that its
    state has reached, in folders too.
    """

    running: Sequence[Task] = ()
    stored: Sequence[Task] = ()
    lags: Mapping[Task, int] = {}
    offsets: Mapping[Task, int] = {}


class Standbys(NamedTuple):
    """The settings of standby tasks, as :class:`~semel.streams.settings.Settings` has them, and the sub-topologies that
    have state.
    """

    replicas: int = 0
    recovery_lag: int = 10_000
    warmups: int = 2
    probing_ms: int = 600_000
    stateful: Collection[int] = ()

    @classmethod
    def of(cls, settings: Settings, stateful: Collection[int]) -> Standbys:
        """Return the settings of an application."""
        return cls(
            settings.num_standby_replicas,
            settings.acceptable_recovery_lag,
            settings.max_warmup_replicas,
            settings.probing_rebalance_interval_ms,
            stateful,
        )


class TaskAssignor:
    """An assignor for a session. ``topics`` returns those of each sub-topology, of the names that it is given.
    ``held()`` returns this member's claims at each rebalance.

    Members of one group may know different topics, where a pattern finds them. The leader shares out all that one of
    them knows, and says which those are. So the others need not find them by themselves.
    """

    name = "semel-streams"

    def __init__(self, topics: Topics, held: Callable[[], Claims], settings: Standbys | None = None) -> None:
        self._topics = topics
        self._held = held
        self._settings = settings or Standbys()
        self._placed: Mapping[str, Sequence[Task]] = {}
        #: When the leader shares out again, by the clock: members warm up.
        self._probe_at: float | None = None
        #: The standby tasks of this member, by the last assignment.
        self.standbys: frozenset[Task] = frozenset()
        #: The topics that the leader has shared out. None: the leader is of a version that does not say so.
        self.topics: frozenset[str] | None = None
        self._shared_out: list[str] = []
        self._asked = 0

    def ask(self) -> None:
        """Make the next join another one than the last: the group then shares out again."""
        self._asked += 1

    def user_data(self) -> bytes:
        """Return the claims of this member for its join."""
        claims = self._held()
        rows = {"running": _rows(claims.running), "stored": _rows(claims.stored)}
        numbers = {"lags": _numbers(claims.lags), "offsets": _numbers(claims.offsets)}
        return write_object({"v": 1, **rows, **numbers, "asked": self._asked})

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> Mapping[str, Collection[TopicPartition]]:
        """Return the partitions of each member. Called in the group's leader."""
        topics, self._shared_out = self._topics(partitions.keys()), sorted(partitions)
        counts = [max((partitions[name] for name in names), default=0) for names in topics]
        claims = with_lags({member: _read(subscription.user_data) for member, subscription in members.items()})
        shared = share_out(counts, claims, self._settings.recovery_lag)
        shared, warmups = stay_ready(shared, claims, self._settings)
        self._placed = place_standbys(shared, claims, self._settings, warmups)
        self._probe_at = time.monotonic() + self._settings.probing_ms / 1000 if warmups else None
        return {
            member: [(topic, index) for part, index in tasks for topic in topics[part] if index < partitions[topic]]
            for member, tasks in shared.items()
        }

    def assignment_data(self, member: str) -> bytes:
        """Return the standby tasks of a member, and all topics that were shared out."""
        return write_object({"v": 1, "standbys": _rows(self._placed.get(member, ())), "topics": self._shared_out})

    def on_assignment(self, data: bytes) -> None:
        """Take the standby tasks of this member, and the topics. A leader of an older version names none."""
        self.standbys, self.topics = frozenset(), None
        with suppress(ValueError, KeyError, TypeError):
            said = read_object(data)
            self.standbys = frozenset(_tasks(said["standbys"]))
            self.topics = frozenset(map(str, said["topics"]))

    def is_due(self) -> bool:
        """Return True if members have had time to warm up."""
        return self._probe_at is not None and time.monotonic() >= self._probe_at


def with_lags(claims: Mapping[str, Claims]) -> dict[str, Claims]:
    """Return claims with the lags of all copies, also those in folders: the farthest one of the group says how many
    offsets there are.
    """
    sizes = _sizes(claims.values())
    found = {}
    for member, one in claims.items():
        lags = {task: sizes[task] - offset for task, offset in one.offsets.items() if task not in one.running}
        found[member] = one._replace(lags={**lags, **one.lags})
    return found


def _sizes(claims: Iterable[Claims]) -> dict[Task, int]:
    sizes: dict[Task, int] = {}
    for one in claims:
        for task, offset in one.offsets.items():
            sizes[task] = max(sizes.get(task, 0), offset + one.lags.get(task, 0))
    return sizes


def share_out(counts: Sequence[int], claims: Mapping[str, Claims], recovery_lag: int = 10_000) -> dict[str, list[Task]]:
    """Return the tasks of each member. Within a sub-topology the numbers of tasks differ by one at most."""
    found: dict[str, list[Task]] = {member: [] for member in claims}
    wishes = {member: _wishes(one, recovery_lag) for member, one in claims.items()}
    elsewhere = {task for kinds in wishes.values() for task in kinds[1]}
    for kinds in wishes.values():
        kinds[0].sort(key=lambda task: task in elsewhere)  # of too many, those go that another member is ready for
    for part, count in enumerate(counts):
        least, extra = divmod(count, len(claims))
        free = {(part, index) for index in range(count)}
        got = dict.fromkeys(claims, 0)

        def take(member: str, tasks: Iterable[Task], most: int) -> None:
            for task in tasks:
                if task in free and got[member] < most:  # noqa: B023  # it does not outlive the turn
                    free.remove(task)  # noqa: B023
                    got[member] += 1  # noqa: B023
                    found[member].append(task)

        for kind in range(_KINDS):
            for most in (least, least + 1):
                for member in sorted(claims, key=lambda one: len(found[one])):
                    if most == least or sum(number > least for number in got.values()) < extra:
                        take(member, wishes[member][kind], most)
        for task in sorted(free):
            member = min(claims, key=lambda one: (got[one], len(found[one])))
            take(member, [task], least + 1)
    return found


def _wishes(claims: Claims, recovery_lag: int) -> list[list[Task]]:
    """Return the tasks of each kind, the most recent copies first."""
    by_lag = sorted(claims.lags, key=lambda task: (claims.lags[task], task))
    recent = [task for task in by_lag if claims.lags[task] <= recovery_lag]
    return [list(claims.running), recent, by_lag[len(recent) :], list(claims.stored)]


def stay_ready(
    shared: Mapping[str, Sequence[Task]], claims: Mapping[str, Claims], settings: Standbys
) -> tuple[dict[str, list[Task]], dict[Task, str]]:
    """Return the tasks of each member, changed so that a task with state is on a member that has it, if there is one.
    Return also the members that warm up for such tasks.
    """
    found = {member: list(tasks) for member, tasks in shared.items()}
    warmups: dict[Task, str] = {}
    if not settings.replicas:
        return found, warmups
    sizes = _sizes(claims.values())

    def lag(member: str, task: Task) -> float:
        known = claims[member]
        return 0 if task in known.running else known.lags.get(task, sizes.get(task, math.inf))

    for member, tasks in shared.items():
        for task in tasks:
            if task[0] not in settings.stateful or lag(member, task) <= settings.recovery_lag:
                continue
            ready = [one for one in shared if lag(one, task) <= settings.recovery_lag]
            if ready:
                there = min(ready, key=lambda one: (task not in claims[one].running, len(found[one])))
                found[member].remove(task)
                found[there].append(task)
                if len(warmups) < settings.warmups:
                    warmups[task] = member
    return found, warmups


def place_standbys(
    shared: Mapping[str, Collection[Task]],
    claims: Mapping[str, Claims],
    settings: Standbys,
    warmups: Mapping[Task, str] | None = None,
) -> dict[str, list[Task]]:
    """Return the standby tasks of each member: those that warm up, then where copies are, then evenly.

    Those of one member's tasks are spread over the others, so that each of them takes over a part.
    """
    placed: dict[str, list[Task]] = {member: [] for member in shared}
    for task, member in (warmups or {}).items():
        placed[member].append(task)
    owners = {task: member for member, tasks in shared.items() for task in tasks if task[0] in settings.stateful}
    replicas = min(settings.replicas, len(shared) - 1)
    most = -(-len(owners) * replicas // len(shared))
    missing = dict.fromkeys(sorted(owners), replicas)
    kinds = {member: _kinds(claims[member], settings.recovery_lag) for member in shared}
    of_owner: Counter[tuple[str, str]] = Counter()

    def place(task: Task, member: str) -> None:
        placed[member].append(task)
        missing[task] -= 1
        of_owner[owners[task], member] += 1

    for task, owner in sorted(owners.items()):
        there = [one for one in shared if one != owner and kinds[one].get(task, _KINDS) < _FOLDER]
        there = [one for one in there if task not in placed[one]]
        for member in sorted(there, key=lambda one: (kinds[one][task], len(placed[one])))[:replicas]:
            if len(placed[member]) < most:
                place(task, member)
    for task, owner in sorted(owners.items()):
        while missing[task] and (others := [one for one in shared if one != owner and task not in placed[one]]):
            place(
                task,
                min(
                    others,
                    key=lambda one: (
                        len(placed[one]) >= most,
                        kinds[one].get(task, _KINDS),  # it does not outlive the turn
                        of_owner[owner, one],
                        len(placed[one]),
                    ),
                ),
            )
    return placed


def _kinds(claims: Claims, recovery_lag: int) -> dict[Task, int]:
    """Return the best kind of each task that a member claims."""
    found: dict[Task, int] = {}
    for kind, tasks in reversed(list(enumerate(_wishes(claims, recovery_lag)))):
        found.update(dict.fromkeys(tasks, kind))
    return found


def _rows(tasks: Iterable[Task]) -> list[list[int]]:
    return [list(task) for task in sorted(tasks)]


def _numbers(numbers: Mapping[Task, int]) -> list[list[int]]:
    return [[*task, number] for task, number in sorted(numbers.items())]


def _tasks(rows: Iterable[Sequence[int]]) -> list[Task]:
    return [(int(part), int(index)) for part, index in rows]


def _read(data: bytes) -> Claims:
    """Return the claims of a member. If they cannot be read, return none: the member then gets the rest."""
    try:
        row = read_object(data)
        lags, offsets = (
            {(int(part), int(index)): int(number) for part, index, number in row.get(name, ())}
            for name in ("lags", "offsets")
        )
        return Claims(_tasks(row["running"]), _tasks(row["stored"]), lags, offsets)
    except (ValueError, KeyError, TypeError):
        return Claims()
