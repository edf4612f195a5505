"""One state of everything: the cluster, the owners, Spark's checkpoints, what the network holds back, and how many
faults may still come.

A *setting* says what is explored: who starts when, how many rows there are, and which faults may come how often.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, NamedTuple

from model.broker import Broker, Kafka, Partition
from model.mutations import Breaks
from model.owner import Owner
from model.process import Process, Routines
from model.query import Query
from model.requests import OUT0, OUT1, Add, End, Init, Produce, WriteMarker

__all__ = [
    "DEAD",
    "OFF",
    "Checkpoint",
    "Fault",
    "Program",
    "Setting",
    "Start",
    "When",
    "World",
    "first_world",
    "is_due",
    "owner_name",
]

#: An owner that has not been started, and one that crashed. One that ended has its reason in the place of its process.
OFF, DEAD = "off", "dead"
_CHECKPOINTS = 3


class Fault(IntEnum):
    """The faults that may happen although all keep to the procedure."""

    CRASH = 0  # an owner crashes between two requests
    LOST = 1  # a request is done, its answer lost: it is sent again
    LATE = 2  # a request stays in the network and comes later, behind its repetition
    TASK_FAILS = 3  # a task fails, having written or not
    EXPIRES = 4  # a transaction times out
    ID_EXPIRES = 5  # the unused id expires
    LEADERLESS = 6  # a partition loses its leader: markers that are due meanwhile never come (KAFKA-20734)
    DEPOSED = 7  # a frozen leader goes on answering what it last knew
    HANGS = 8  # another query's transaction hangs on the progress partition
    STRANGER = 9  # somebody else commits an offset to the group
    COORDINATOR_MOVES = 10  # the coordinator moves while markers are due: one is written twice, the second time late


class When(Enum):
    """The moment at which an owner starts."""

    ANY = "at any time"
    CRASHED = "when its predecessor has crashed"
    LAST = "when all others have ended; it is spared by crashes"


@dataclass(frozen=True, slots=True)
class Start:
    """An owner: when it starts, with which checkpoint, as which query.

    ``copies``: its checkpoint is a backup of checkpoint 0, of any age.
    """

    when: When = When.ANY
    checkpoint: int = 0
    query: int = 0
    copies: bool = False


@dataclass(frozen=True)
class Setting:
    """The explored setting."""

    name: str
    owners: tuple[Start, ...] = (Start(),)
    faults: Mapping[Fault, int] = field(default_factory=dict)
    rows: int = 2
    sizes: tuple[int, ...] = (1,)
    group: bool = False
    group_in_view: bool = True
    offsets_at_times: bool = False
    outputs: tuple[int, ...] = (OUT0, OUT1)
    placement_varies: bool = False
    #: One task writes: it adds the partitions that it writes to.
    one_writer: bool = False
    last_epoch: int = 32_766
    #: Brokers before 4.2: a marker that comes again ends the transaction that is open then.
    late_markers: bool = False
    leaderless: tuple[int, ...] | None = None
    deposed: tuple[int, ...] | None = None
    patience: int = 1
    #: Whether an owner that stops without need counts as wrong, beside harm to the data.
    needless_stops: bool = True
    #: How the problem begins that must be found, in a control.
    finds: str = ""
    breaks: Breaks = field(default_factory=Breaks)


class Checkpoint(NamedTuple):
    """Spark's offset log (start and end of each batch) and how many batches its commit log has."""

    offsets: tuple[tuple[int, int], ...] = ()
    committed: int = 0


class World(NamedTuple):
    """A state."""

    broker: Broker
    owners: tuple[Process | str, ...]
    checkpoints: tuple[Checkpoint, ...]
    late: tuple[Init | Add | Produce | End | WriteMarker, ...]
    faults_left: tuple[int, ...]
    deposed: tuple[int, Partition] | None

    def left(self, fault: Fault) -> int:
        """Return how often a fault may still come."""
        return self.faults_left[fault]

    def spend(self, fault: Fault) -> World:
        """Return the same world with one of these faults less to come."""
        left = self.faults_left
        return self._replace(faults_left=(*left[:fault], left[fault] - 1, *left[fault + 1 :]))

    def with_owner(self, index: int, owner: Process | str) -> World:
        """Return the same world with one owner replaced."""
        return self._replace(owners=(*self.owners[:index], owner, *self.owners[index + 1 :]))


class Program:
    """The procedures of a setting's owners, and the answers of its brokers."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.kafka = Kafka(last_epoch=setting.last_epoch, late_markers=setting.late_markers)
        owner = Owner(
            setting.breaks,
            outputs=setting.outputs,
            group=setting.group,
            one_writer=setting.one_writer,
            skips_epochs=(setting.late_markers and not setting.breaks.no_skipped_epoch,),
        )
        query = Query(
            owner,
            rows=setting.rows,
            sizes=setting.sizes,
            placement_varies=setting.placement_varies,
            group_in_view=setting.group_in_view,
            offsets_at_times=setting.offsets_at_times,
            patience=setting.patience,
        )
        self.routines = Routines(query.routines())


def is_due(when: When, owners: Sequence[Any], index: int) -> bool:
    """Return whether an owner that has not been started may start now. Those that have ended are texts."""
    if when is When.ANY:
        return True
    if when is When.CRASHED:
        return index > 0 and owners[index - 1] == DEAD
    others = [owner for at, owner in enumerate(owners) if at != index]
    return all(isinstance(owner, str) for owner in others) and all(owner != OFF for owner in owners[:index])


def first_world(setting: Setting) -> World:
    """Before anything has happened."""
    faults = tuple(setting.faults.get(fault, 0) for fault in Fault)
    return World(Broker(), (OFF,) * len(setting.owners), (Checkpoint(),) * _CHECKPOINTS, (), faults, None)


def owner_name(index: int) -> str:
    """Return ``A``, ``B``, and so on."""
    return chr(ord("A") + index)
