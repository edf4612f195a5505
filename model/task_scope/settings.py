"""The explored settings of task scope: the procedure under faults, and each mistake that must be found."""

from __future__ import annotations

from collections.abc import Mapping

from model.task_scope.roles import Mistakes
from model.task_scope.scene import Tasks, Trouble
from model.world import Start, When

__all__ = ["CONTROLS", "SHORT", "WALKS"]

_LAST = Start(When.LAST)
_ONE = (Start(), _LAST)
_TWO = (Start(), Start(), _LAST)
_CRASH, _ATTEMPT, _DIES, _LOST, _EXPIRES = Trouble

#: The procedure. Nothing is found.
SHORT = (
    Tasks("tasks: no fault", _ONE),
    Tasks("tasks: a crash", _ONE, {_CRASH: 1}),
    Tasks("tasks: a second attempt, a crash", _ONE, {_ATTEMPT: 1, _CRASH: 1}, tasks=1),
    Tasks("tasks: an attempt dies, a crash", _ONE, {_DIES: 1, _CRASH: 1}, tasks=1),
    Tasks("tasks: the decision is not answered, a crash", _ONE, {_LOST: 2, _CRASH: 1}, tasks=1),
    Tasks("tasks: two drivers at once", _TWO, batches=1, tasks=1),
    Tasks("tasks: two drivers at once, the decision is not answered", _TWO, {_LOST: 2}, batches=1, tasks=1),
    Tasks("tasks: expiry, a crash", _ONE, {_EXPIRES: 1, _CRASH: 1}, tasks=1),
)

WALKS = (
    Tasks("walk: tasks, all faults", _TWO, dict.fromkeys((_CRASH, _ATTEMPT, _DIES, _LOST), 2), batches=3),
    Tasks("walk: tasks, bounded", _TWO, dict.fromkeys(Trouble, 2)),
)


def _control(
    name: str,
    breaks: Mistakes,
    finds: str,
    faults: Mapping[Trouble, int] | None = None,
    drivers: tuple[Start, ...] = _ONE,
    batches: int = 2,
) -> Tasks:
    return Tasks(f"control: tasks, {name}", drivers, faults or {}, batches, 1, finds, breaks)


#: Each must be found.
CONTROLS = (
    _control("parts committed before the decision", Mistakes(parts_first=True), "torn"),
    _control("listed after the progress was read", Mistakes(list_late=True), "loss", drivers=_TWO, batches=1),
    _control("listed behind the decision", Mistakes(list_behind=True), "loss", drivers=_TWO),
    _control("a batch is run whatever the progress says", Mistakes(always_run=True), "duplicate", {_CRASH: 1}),
    _control("what is enlisted is aborted", Mistakes(no_finish=True), "loss", {_CRASH: 1}),
    _control("decided without a look", Mistakes(no_look=True), "loss", {_EXPIRES: 1}),
    _control("aborted without the owner", Mistakes(abort_unasked=True), "loss", {_LOST: 2}),
    _control("fenced, and aborted unread", Mistakes(fenced_aborts=True), "loss", {_LOST: 1}, _TWO, 1),
    _control("no answer counts as refused", Mistakes(lost_aborts=True), "loss", {_LOST: 2}),
    _control("attempts that ask for no owner", Mistakes(no_owner_check=True), "held back", {_ATTEMPT: 1}),
    _control("an owner that lives as long as its parts", Mistakes(slow_owner=True), "loss", {_EXPIRES: 1}),
    _control("expiry is passed over", Mistakes(silent=True), "loss", {_EXPIRES: 1, _CRASH: 1}),
)
