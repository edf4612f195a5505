"""The properties that hold if nothing more happens by itself.

What must hold always, no tear and no duplicate, the broker sees where it would arise.
"""

from __future__ import annotations

from collections.abc import Mapping

from model.process import Process
from model.progress import Record
from model.query import DISAGREE
from model.requests import ABORT, COMMIT, NAMES, OFFSETS, OUT1, PROGRESS
from model.world import DEAD, OFF, Fault, Program, When, World, owner_name

__all__ = ["ends", "wrong_at_the_end"]

DONE = "done"
#: A final owner may end so, after faults that take away what it would have to know, or that hand it a checkpoint which
#: does not fit.
_LOUD = ("refused", "unknown", "retriable", "the group's offsets stay pending")


def ends(world: World) -> tuple[str, ...]:
    """Return how each owner ended."""
    return tuple(owner if isinstance(owner, str) else "at work" for owner in world.owners)


def wrong_at_the_end(program: Program, world: World) -> str | None:
    """Return what is wrong in a state in which only faults could still happen, or None."""
    return (
        _stuck(program, world)
        or _wrong_stop(program, world)
        or (_incomplete(program, world) if DONE in world.owners else _silent_loss(world))
    )


def _stuck(program: Program, world: World) -> str | None:
    for index, owner in enumerate(world.owners):
        if isinstance(owner, Process):
            return f"stuck: {owner_name(index)} waits for ever for {program.routines.wants(owner)}"
    return None


def _used(program: Program, world: World) -> Mapping[Fault, int]:
    return {
        fault: most - world.left(fault) for fault, most in program.setting.faults.items() if most > world.left(fault)
    }


def _wrong_stop(program: Program, world: World) -> str | None:
    if not program.setting.needless_stops:
        return None
    used = _used(program, world)
    starts = program.setting.owners
    alone = sum(owner != OFF for owner in world.owners) == 1
    for index, owner in enumerate(world.owners):
        stop = str(owner)
        if stop in (OFF, DEAD, DONE):
            continue
        if stop.startswith("broken"):
            return f"{owner_name(index)} stops: {stop}"
        # a request of its own that came late, and a second timeout, look like another owner
        if stop.startswith("fenced") and alone and Fault.LATE not in used and used.get(Fault.EXPIRES, 0) < 2:
            return f"{owner_name(index)} stops though nobody else was there: {stop}"
        if not used and stop.startswith("unknown"):
            return f"{owner_name(index)} stops without any fault: {stop}"
        if stop == DISAGREE and not any(
            start.copies or (start.checkpoint and start.when is When.ANY) for start in starts
        ):
            return f"{owner_name(index)} refuses a checkpoint that fits: {stop}"
        if starts[index].when is When.LAST and not stop.startswith(_LOUD):
            return f"the last owner, with nobody beside it, stops: {stop}"
    return None


def _incomplete(program: Program, world: World) -> str | None:
    """Somebody has finished the work: all rows are there, nothing is open, and the group agrees with the progress."""
    broker = world.broker
    last_was_done = world.owners[-1] == DONE or program.setting.owners[-1].when is not When.LAST
    # a group that progress does not show, or that is not in each transaction, is looked at by whoever writes to it next
    at_times = program.setting.offsets_at_times
    in_view = program.setting.group and program.setting.group_in_view and not at_times
    for index in range(OFFSETS + 1 if in_view else OFFSETS):
        for rows in broker.partitions[index].open:
            # of a transaction that was aborted under a producer id that is gone no record tells: its rows hold readers
            # back, and are named (5.6)
            if last_was_done and not (
                broker.decided(rows.identity) == ABORT
                and rows.identity.producer != broker.coordinator.identity.producer
            ):
                return f"rows stay open on {NAMES[index]}, though an owner has finished"
    visible = sorted(broker.visible())
    if visible != list(range(program.setting.rows)):
        return f"loss or duplicate: of {program.setting.rows} rows readers see {visible}"
    offset = broker.partitions[OFFSETS].log
    moved = Fault.STRANGER in _used(program, world)
    if at_times and not moved and offset and offset[0] > _progress(world):  # it may be behind until its next turn
        return f"the group's offset is {offset}, beyond the progress, which is {_progress(world)}"
    if in_view and last_was_done and not moved and offset != (_progress(world),):
        return f"the group's offset is {offset}, and the progress is {_progress(world)}"
    return None


def _silent_loss(world: World) -> str | None:
    """Return a loss without an error. If no owner has finished and each has said so, what was committed is visible or
    waits for its marker.
    """
    waiting = {
        row for partition in world.broker.partitions[: OUT1 + 1] for rows in partition.open for row in rows.value
    }
    lost = sorted(set(range(_progress(world))) - set(world.broker.visible()) - waiting)
    return f"rows {lost} are lost, and nobody has said so" if lost else None


def _progress(world: World) -> int:
    """Up to which row the coordinator has committed."""
    log = world.broker.partitions[PROGRESS].log
    committed = [
        entry.position.end
        for entry in log
        if isinstance(entry, Record) and world.broker.decided(entry.identity) == COMMIT
    ]
    return committed[-1] if committed else 0
