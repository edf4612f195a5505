"""The possible next moves, in any order: owners ask and are answered, markers land late or never, and faults come while
some are left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from model.broker import COMPLETE, EMPTY, ONGOING, PREPARE, Kafka, Wrong, open_of
from model.process import Done, Goto, Process, Stop
from model.query import QueryRun
from model.requests import (
    ABORT,
    COMMIT,
    FAILED,
    NAMES,
    OFFSETS,
    OUT1,
    PROGRESS,
    Add,
    Choose,
    CommitBatch,
    Decide,
    End,
    Init,
    LogBatch,
    OpenRows,
    Produce,
    ReadCheckpoint,
    ReadToHigh,
    Request,
    WriteMarker,
)
from model.world import DEAD, OFF, Checkpoint, Fault, Program, Start, When, World, owner_name
from semel.steps import OwnerStep

__all__ = ["NEVER", "Move", "moves"]

#: What the network can lose the answer of, or hold back.
_CHANGES = (Init, Add, Produce, End, WriteMarker, Decide)
_HELD_BACK = (Init, Add, Produce, End, WriteMarker)
#: The answer that is still out.
NEVER = "no answer"


class Move(NamedTuple):
    """One thing that happened: whose, what, with which answer, and the steps that its owner passed by it."""

    actor: str
    what: Request | str
    reply: Any = None
    note: str = ""
    steps: tuple[OwnerStep, ...] = ()
    fault: bool = False


Next = tuple[Move, World | Wrong]


def moves(program: Program, world: World) -> list[Next]:
    """All that may happen in this state, always in the same order."""
    found = [
        *_owners(program, world),
        *_starts(program, world),
        *_late(program, world),
        *_markers(program.kafka, world),
        *_cluster(program, world),
    ]
    if world.broker.coordinator.state == ONGOING and all(move.fault for move, _ in found):
        # in the end the timeout comes, whatever else does not
        expired = world._replace(broker=program.kafka.prepare(world.broker, ABORT))
        found.append((Move("coordinator", "the abandoned transaction times out"), expired))
    return found


# ---- owners


def _owners(program: Program, world: World) -> Iterator[Next]:
    for index, owner in enumerate(world.owners):
        if not isinstance(owner, Process):
            continue
        request = program.routines.wants(owner)
        assert not isinstance(request, (OwnerStep, Goto, Stop, Done))
        name = owner_name(index)
        yield from _answered(program, world, index, owner, request)
        if (
            isinstance(request, _HELD_BACK)
            and world.left(Fault.LATE)
            and program.setting.owners[index].when is not When.LAST
        ):
            held = world.spend(Fault.LATE)._replace(late=tuple(sorted([*world.late, request], key=repr)))
            yield Move(name, request, NEVER, "held back, sent again", fault=True), held
            if _of_a_task(request):
                steps, failed = _go_on(program, held, index, owner.hears(FAILED))
                yield Move(name, request, FAILED, "held back, and its task failed", steps, fault=True), failed
        if _of_a_task(request) and world.left(Fault.TASK_FAILS):
            steps, failed = _go_on(program, world.spend(Fault.TASK_FAILS), index, owner.hears(FAILED))
            yield Move(name, request, FAILED, "its task failed before", steps, fault=True), failed
        if world.left(Fault.CRASH) and program.setting.owners[index].when is not When.LAST:
            yield Move(name, "crashes", fault=True), world.spend(Fault.CRASH).with_owner(index, DEAD)


def _answered(program: Program, world: World, index: int, owner: Process, request: Request) -> Iterator[Next]:
    name = owner_name(index)
    try:
        answers = list(_answers(program, world, request))
    except Wrong as wrong:
        yield Move(name, request), wrong
        return
    for note, after, reply in answers:
        if reply is None:
            yield Move(name, request, NEVER, note), after
            continue
        steps, gone_on = _go_on(program, after, index, owner.hears(reply))
        yield Move(name, request, reply, note, (*_sent(request), *steps)), gone_on
        if not isinstance(request, _CHANGES) or after == world:
            continue
        if world.left(Fault.LOST):
            yield (
                Move(name, request, NEVER, "done, its answer lost", _sent(request), fault=True),
                after.spend(Fault.LOST),
            )
        if _of_a_task(request) and world.left(Fault.TASK_FAILS):
            steps, failed = _go_on(program, after.spend(Fault.TASK_FAILS), index, owner.hears(FAILED))
            yield Move(name, request, FAILED, "written, and its task failed", steps, fault=True), failed


def _answers(program: Program, world: World, request: Request) -> Iterator[tuple[str, World, Any]]:
    """Yield the possible answers to a request: a note for the trace, the world after it, the reply."""
    if isinstance(request, Choose):
        for option in request.options:
            yield "", world, option
    elif isinstance(request, LogBatch):
        checkpoint = world.checkpoints[request.checkpoint]
        if len(checkpoint.offsets) != request.number:
            yield "", world, False
        else:
            yield (
                "",
                _with_checkpoint(
                    world, request.checkpoint, (*checkpoint.offsets, (request.start, request.end)), checkpoint.committed
                ),
                True,
            )
    elif isinstance(request, CommitBatch):
        checkpoint = world.checkpoints[request.checkpoint]
        yield (
            "",
            _with_checkpoint(
                world, request.checkpoint, checkpoint.offsets, max(checkpoint.committed, request.number + 1)
            ),
            True,
        )
    else:
        for reply, broker, note in program.kafka.answers(world.broker, request):
            yield note, world if broker is world.broker else world._replace(broker=broker), reply
        if world.deposed is not None:
            yield from _deposed(program, world, request, *world.deposed)


def _deposed(
    program: Program, world: World, request: Request, index: int, partition: Any
) -> Iterator[tuple[str, World, Any]]:
    """Yield the answer of the deposed leader. The procedure does not ask it, the controls do."""
    if isinstance(request, ReadToHigh) and index == PROGRESS:
        yield "by a deposed leader", world, partition.log
    if isinstance(request, OpenRows) and index == request.partition and program.setting.breaks.deposed_is_heard:
        yield "by a deposed leader", world, open_of(partition, request.producers)


def _with_checkpoint(world: World, index: int, offsets: tuple[tuple[int, int], ...], committed: int) -> World:
    checkpoints = (*world.checkpoints[:index], Checkpoint(offsets, committed), *world.checkpoints[index + 1 :])
    return world._replace(checkpoints=checkpoints)


def _go_on(program: Program, world: World, index: int, process: Process) -> tuple[tuple[OwnerStep, ...], World]:
    """Let an owner pass its steps up to its next request."""
    steps: list[OwnerStep] = []
    while True:
        wanted = program.routines.wants(process)
        if isinstance(wanted, OwnerStep):
            steps.append(wanted)
            process = process.hears(None)
        elif isinstance(wanted, Goto):
            process = Process(*wanted)
        elif isinstance(wanted, ReadCheckpoint):
            process = process.hears(world.checkpoints[wanted.checkpoint])
        else:
            owner = str(wanted[0]) if isinstance(wanted, (Stop, Done)) else process
            return tuple(steps), world.with_owner(index, owner)


def _sent(request: Request) -> tuple[OwnerStep, ...]:
    if isinstance(request, End) and request.announced:
        return (OwnerStep.COMMIT_SENT if request.decision == COMMIT else OwnerStep.ABORT_SENT,)
    return ()


def _of_a_task(request: Request) -> bool:
    return isinstance(request, Produce) and request.partition <= OUT1


def _starts(program: Program, world: World) -> Iterator[Next]:
    """Yield the start of the next owner, if its turn has come."""
    if OFF not in world.owners:
        return
    index = world.owners.index(OFF)
    start, before = program.setting.owners[index], world.owners[:index]
    if start.when is When.CRASHED and before[-1] != DEAD:
        return
    if start.when is When.LAST and (world.late or any(isinstance(owner, Process) for owner in before)):
        return
    run = QueryRun(index, start.checkpoint, start.query)
    for note, given in _backups(world, start):
        _, started = _go_on(program, given, index, Process("start", (run,)))
        yield Move(owner_name(index), "starts", note=note), started


def _backups(world: World, start: Start) -> Iterator[tuple[str, World]]:
    if not start.copies:
        yield "", world
        return
    original = world.checkpoints[0]
    for count in range(len(original.offsets) + 1):
        for committed in sorted({count, max(count - 1, 0)}):
            if committed <= original.committed:
                note = f"from a backup with {count} planned and {committed} committed batches"
                yield note, _with_checkpoint(world, start.checkpoint, original.offsets[:count], committed)


# ---- the network and the cluster


def _late(program: Program, world: World) -> Iterator[Next]:
    """Yield the arrival of what was held back."""
    for at, request in enumerate(world.late):
        rest = world._replace(late=(*world.late[:at], *world.late[at + 1 :]))
        try:
            answers = program.kafka.answers(rest.broker, request)
        except Wrong as wrong:
            yield Move("network", request, note="comes late"), wrong
            continue
        if not answers:
            yield Move("network", request, NEVER, "comes late, to nobody"), rest
        for reply, broker, _ in answers:
            yield (
                Move("network", request, NEVER if reply is None else reply, "comes late"),
                rest._replace(broker=broker),
            )


def _markers(kafka: Kafka, world: World) -> Iterator[Next]:
    """Yield the markers of the transaction that the coordinator has decided, in any order. A partition without a leader
    never gets one.
    """
    now = world.broker.coordinator
    if now.state != PREPARE or now.former is None:
        return
    for index in now.pending:
        partition = world.broker.partitions[index]
        what = f"the marker {now.decision} on {NAMES[index]}"
        try:
            broker = kafka.land(world.broker, index, now.former, now.decision) if partition.led else world.broker
        except Wrong as wrong:
            yield Move("coordinator", what), wrong
            continue
        pending = tuple(other for other in now.pending if other != index)
        after = broker._replace(coordinator=now._replace(state=PREPARE if pending else COMPLETE, pending=pending))
        yield (
            Move("coordinator", what, note="" if partition.led else "is lost: no leader"),
            world._replace(broker=after),
        )
        if world.left(Fault.COORDINATOR_MOVES):
            again = WriteMarker(index, now.former, now.decision)
            twice = world.spend(Fault.COORDINATOR_MOVES)._replace(
                broker=after, late=tuple(sorted([*world.late, again], key=repr))
            )
            yield Move("coordinator", what, note="and it moves: the marker is sent a second time", fault=True), twice


def _cluster(program: Program, world: World) -> Iterator[Next]:
    broker, now = world.broker, world.broker.coordinator
    if now.state == ONGOING and world.left(Fault.EXPIRES):
        yield (
            Move("coordinator", "the transaction times out", fault=True),
            world.spend(Fault.EXPIRES)._replace(broker=program.kafka.prepare(broker, ABORT)),
        )
    if now.known and now.state in (EMPTY, COMPLETE) and world.left(Fault.ID_EXPIRES):
        unknown = now._replace(known=False, state=EMPTY, decision="", former=None, added=(), pending=())
        yield (
            Move("coordinator", "the unused id expires", fault=True),
            world.spend(Fault.ID_EXPIRES)._replace(broker=broker._replace(coordinator=unknown)),
        )
    yield from _leaders(program, world)
    if world.left(Fault.HANGS):
        yield (
            Move("cluster", "another query's transaction hangs on progress", fault=True),
            world.spend(Fault.HANGS)._replace(broker=Kafka.hang(broker)),
        )
    if world.left(Fault.STRANGER):
        strange = broker.partitions[OFFSETS]._replace(log=(-1,))
        yield (
            Move("cluster", "somebody else commits to the group", fault=True),
            world.spend(Fault.STRANGER)._replace(broker=broker.with_partition(OFFSETS, strange)),
        )


def _leaders(program: Program, world: World) -> Iterator[Next]:
    setting, may_go, may_be_deposed = program.setting, world.left(Fault.LEADERLESS), world.left(Fault.DEPOSED)
    for index in range(OFFSETS + 1 if setting.group else OFFSETS):
        partition, name = world.broker.partitions[index], NAMES[index]
        if not partition.led:
            yield Move("cluster", f"{name} has a leader again"), _with_leader(world, index, led=True)
        elif may_go and (setting.leaderless is None or index in setting.leaderless):
            yield (
                Move("cluster", f"{name} has no leader", fault=True),
                _with_leader(world.spend(Fault.LEADERLESS), index, led=False),
            )
        if partition.led and may_be_deposed and (setting.deposed is None or index in setting.deposed):
            yield (
                Move("cluster", f"a frozen leader keeps {name} as it is", fault=True),
                world.spend(Fault.DEPOSED)._replace(deposed=(index, partition)),
            )


def _with_leader(world: World, index: int, *, led: bool) -> World:
    return world._replace(broker=world.broker.with_partition(index, world.broker.partitions[index]._replace(led=led)))
