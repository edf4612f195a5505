"""An assignor that shares tasks among the members of a group so that tasks stay with their state.

A task is one partition of each topic of a sub-topology. Each member reports the tasks that it ran, and those that it
has state of. All members get equally many tasks, first the ones that they ran. All members must offer this assignor: it
is for the workers of one streams application.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from semel.strict_json import read_object, write_object
from semel.wire.consumer_protocol import Subscription
from semel.wire.metadata import TopicPartition

__all__ = ["TaskAssignor", "share_out"]

Task = tuple[int, int]
#: The tasks that a member ran, then those that it has state of.
Claims = tuple[Sequence[Task], Sequence[Task]]


class TaskAssignor:
    """An assignor for a session. ``topics`` are those of each sub-topology. ``held()`` returns this member's claims at
    each rebalance.
    """

    name = "semel-streams"

    def __init__(self, topics: Sequence[Sequence[str]], held: Callable[[], Claims]) -> None:
        self._topics = topics
        self._held = held

    def user_data(self) -> bytes:
        """Return the claims of this member for its join."""
        running, stored = self._held()
        return write_object({"v": 1, "running": [list(task) for task in running], "stored": list(map(list, stored))})

    def assign(
        self, partitions: Mapping[str, int], members: Mapping[str, Subscription]
    ) -> Mapping[str, Collection[TopicPartition]]:
        """Return the partitions of each member. Called in the group's leader."""
        counts = [max((partitions.get(name, 0) for name in names), default=0) for names in self._topics]
        claims = {member: _read(subscription.user_data) for member, subscription in members.items()}
        return {
            member: [
                (topic, index)
                for part, index in tasks
                for topic in self._topics[part]
                if index < partitions.get(topic, 0)
            ]
            for member, tasks in share_out(counts, claims).items()
        }


def share_out(counts: Sequence[int], claims: Mapping[str, Claims]) -> dict[str, list[Task]]:
    """Return the tasks of each member. Within a sub-topology the numbers of tasks differ by one at most."""
    found: dict[str, list[Task]] = {member: [] for member in claims}
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

        for most in (least, least + 1):
            for kind in (0, 1):
                for member in sorted(claims, key=lambda one: len(found[one])):
                    if most == least or sum(number > least for number in got.values()) < extra:
                        take(member, claims[member][kind], most)
        for task in sorted(free):
            member = min(claims, key=lambda one: (got[one], len(found[one])))
            take(member, [task], least + 1)
    return found


def _read(data: bytes) -> Claims:
    """Return the claims of a member. If they cannot be read, return none: the member then gets the rest."""
    try:
        row = read_object(data)
        running, stored = ([(int(part), int(index)) for part, index in row[name]] for name in ("running", "stored"))
    except (ValueError, KeyError, TypeError):
        return (), ()
    return running, stored
