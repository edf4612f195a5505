"""The explored settings: the procedure under faults, in which nothing may be found wrong, and the controls, each of
which must be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from model.mutations import Breaks
from model.requests import OFFSETS, OUT0, PROGRESS
from model.world import Fault, Setting, Start, When

__all__ = ["CONTROLS", "LONG", "SHORT", "WALKS", "by_name"]

_ONE = (Start(),)
_TWO = (Start(), Start(When.CRASHED))
_THREE = (*_TWO, Start(When.CRASHED))
_AT_ONCE = (Start(), Start())
_BACKUP = (Start(), Start(checkpoint=1, copies=True))
_BACKUP_AFTER_CRASH = (Start(), Start(When.CRASHED, checkpoint=1, copies=True))
_NEW = (Start(), Start(checkpoint=2, query=2))
_NEW_AFTER_CRASH = (Start(), Start(When.CRASHED, checkpoint=2, query=2))
_LAST = Start(When.LAST)

_CRASH, _LOST, _LATE, _FAILS = Fault.CRASH, Fault.LOST, Fault.LATE, Fault.TASK_FAILS
_EXPIRES, _ID_EXPIRES, _LEADERLESS, _DEPOSED = Fault.EXPIRES, Fault.ID_EXPIRES, Fault.LEADERLESS, Fault.DEPOSED
_HANGS, _STRANGER, _MOVES = Fault.HANGS, Fault.STRANGER, Fault.COORDINATOR_MOVES

#: Each of them completely, in less than a minute together.
SHORT = (
    Setting("no fault", group=True),
    Setting("crashes", _THREE, {_CRASH: 2}, group=True),
    Setting("leaderless, crash", _TWO, {_LEADERLESS: 1, _CRASH: 1}, group=True),
    Setting("leaderless, timeout", _ONE, {_LEADERLESS: 1, _EXPIRES: 1}, group=True),
    Setting("lost answer, crash", _TWO, {_LOST: 1, _CRASH: 1}, group=True),
    Setting("late request, crash", _TWO, {_LATE: 1, _CRASH: 1}),
    Setting("failed task, crash", _TWO, {_FAILS: 1, _CRASH: 1}),
    Setting("expired id, crash", _TWO, {_ID_EXPIRES: 1, _CRASH: 1}, group=True),
    Setting("moving coordinator, crash", _TWO, {_MOVES: 1, _CRASH: 1}),
    Setting("epochs run out, leaderless, crash", _TWO, {_LEADERLESS: 1, _CRASH: 1}, last_epoch=3),
    Setting("a stranger in the group, crash", _TWO, {_STRANGER: 1, _CRASH: 1}, group=True),
    Setting(
        "a group that progress does not show, leaderless, crash",
        _TWO,
        {_LEADERLESS: 1, _CRASH: 1},
        group=True,
        group_in_view=False,
    ),
    Setting(
        "offsets at times, leaderless, crash", _TWO, {_LEADERLESS: 1, _CRASH: 1}, group=True, offsets_at_times=True
    ),
    Setting("an output that is found later, leaderless, crash", _TWO, {_LEADERLESS: 1, _CRASH: 1}, outputs=(OUT0,)),
    Setting("placement varies, leaderless, crash", _TWO, {_LEADERLESS: 1, _CRASH: 1}, placement_varies=True),
    Setting("one writer, failed task, crash", _TWO, {_FAILS: 1, _CRASH: 1}, group=True, one_writer=True),
    Setting("one writer, late request, crash", _TWO, {_LATE: 1, _CRASH: 1}, one_writer=True),
    Setting("one writer, leaderless, crash", _TWO, {_LEADERLESS: 1, _CRASH: 1}, group=True, one_writer=True),
    Setting("one writer, expired id, crash", _TWO, {_ID_EXPIRES: 1, _CRASH: 1}, group=True, one_writer=True),
    Setting("late markers, moving coordinator, crash", _TWO, {_MOVES: 1, _CRASH: 1}, group=True, late_markers=True),
    Setting("late markers, late request, crash", _TWO, {_LATE: 1, _CRASH: 1}, late_markers=True),
    Setting(
        "late markers, lost answer, moving coordinator", _ONE, {_LOST: 1, _MOVES: 1}, group=True, late_markers=True
    ),
    Setting(
        "late markers, one writer, moving coordinator, timeout",
        _ONE,
        {_MOVES: 1, _EXPIRES: 1},
        group=True,
        one_writer=True,
        late_markers=True,
    ),
    Setting("a backup of the checkpoint, crash", _BACKUP_AFTER_CRASH, {_CRASH: 1}, rows=3, sizes=(1, 2)),
    Setting("a new checkpoint, crash", _NEW_AFTER_CRASH, {_CRASH: 1}),
)

#: What takes minutes.
LONG = (
    Setting("two at once", _AT_ONCE),
    Setting("leaderless twice, crash", _TWO, {_LEADERLESS: 2, _CRASH: 1}, group=True),
    Setting("leaderless, timeout, crash", _TWO, {_LEADERLESS: 1, _EXPIRES: 1, _CRASH: 1}, group=True),
    Setting("leaderless, crashes", _THREE, {_LEADERLESS: 1, _CRASH: 2}),
    Setting("moving coordinator, timeout, crash", _TWO, {_MOVES: 1, _EXPIRES: 1, _CRASH: 1}),
    Setting("late request, leaderless, crash", _TWO, {_LATE: 1, _LEADERLESS: 1, _CRASH: 1}),
    Setting("late and lost requests, timeout", _ONE, {_LATE: 1, _LOST: 1, _EXPIRES: 1}),
    Setting("epochs run out, leaderless twice, crash", _TWO, {_LEADERLESS: 2, _CRASH: 1}, last_epoch=3, group=True),
    Setting("a stranger in the group, leaderless, crash", _TWO, {_STRANGER: 1, _LEADERLESS: 1, _CRASH: 1}, group=True),
    Setting(
        "a backup of the checkpoint, leaderless, crash",
        _BACKUP_AFTER_CRASH,
        {_LEADERLESS: 1, _CRASH: 1},
        rows=3,
        sizes=(1, 2),
    ),
    Setting("a new checkpoint, leaderless, crash", _NEW_AFTER_CRASH, {_LEADERLESS: 1, _CRASH: 1}),
    Setting(
        "offsets at times, leaderless, timeout, crash",
        _TWO,
        {_LEADERLESS: 1, _EXPIRES: 1, _CRASH: 1},
        group=True,
        offsets_at_times=True,
    ),
    Setting("one writer, two at once, crash", _AT_ONCE, {_CRASH: 1}, one_writer=True),
    Setting(
        "one writer, late request, leaderless, crash", _TWO, {_LATE: 1, _LEADERLESS: 1, _CRASH: 1}, one_writer=True
    ),
    Setting("one writer, leaderless twice, crash", _TWO, {_LEADERLESS: 2, _CRASH: 1}, group=True, one_writer=True),
    Setting(
        "late markers, moving coordinator, timeout, crash",
        _TWO,
        {_MOVES: 1, _EXPIRES: 1, _CRASH: 1},
        late_markers=True,
    ),
    Setting(
        "late markers, late request, leaderless, crash",
        _TWO,
        {_LATE: 1, _LEADERLESS: 1, _CRASH: 1},
        late_markers=True,
    ),
    Setting("late markers, two at once, moving coordinator", _AT_ONCE, {_MOVES: 1}, late_markers=True),
    Setting("two at once, timeout", _AT_ONCE, {_EXPIRES: 1}),
    Setting("two at once, crash", _AT_ONCE, {_CRASH: 1}),
    Setting("a new checkpoint at once", _NEW),
    Setting("a backup at once", _BACKUP),
)

_ALL_FAULTS = {_CRASH: 2, _LOST: 2, _LATE: 2, _FAILS: 1, _EXPIRES: 1, _LEADERLESS: 2, _STRANGER: 1, _MOVES: 1}

#: For random walks: too much for all states. The last owner finds nobody beside it, and has to finish.
WALKS = (
    Setting(
        "walk: three owners at once",
        (*_AT_ONCE, Start(), _LAST),
        {**_ALL_FAULTS, _ID_EXPIRES: 1},
        rows=3,
        sizes=(1, 2),
        group=True,
    ),
    Setting("walk: a backup", (*_BACKUP, Start(), _LAST), _ALL_FAULTS, rows=4, sizes=(1, 2), group=True),
    Setting("walk: epochs run out", (*_AT_ONCE, _LAST), _ALL_FAULTS, rows=4, sizes=(1, 2), group=True, last_epoch=4),
    Setting("walk: one writer", (*_AT_ONCE, _LAST), _ALL_FAULTS, rows=3, sizes=(1, 2), group=True, one_writer=True),
    Setting(
        "walk: offsets at times",
        (*_AT_ONCE, _LAST),
        _ALL_FAULTS,
        rows=4,
        sizes=(1, 2),
        group=True,
        offsets_at_times=True,
    ),
    Setting(
        "walk: late markers",
        (*_AT_ONCE, _LAST),
        {**_ALL_FAULTS, _MOVES: 3, _ID_EXPIRES: 1},
        rows=4,
        sizes=(1, 2),
        group=True,
        late_markers=True,
    ),
    Setting(
        "walk: placement varies",
        (*_AT_ONCE, _LAST),
        _ALL_FAULTS,
        rows=3,
        sizes=(1, 2),
        outputs=(OUT0,),
        placement_varies=True,
    ),
)

_LOSES_A_MARKER = {_LEADERLESS: 1, _CRASH: 1}


def _control(
    name: str,
    breaks: Breaks,
    finds: str,
    owners: tuple[Start, ...],
    faults: Mapping[Fault, int] | None = None,
    **more: Any,
) -> Setting:
    """Return the procedure, broken in one place. ``finds`` is how the expected harm begins."""
    return Setting(
        f"control: {name}", owners, faults or {}, breaks=breaks, finds=finds, needless_stops=finds == _REFUSES, **more
    )


_DUPLICATE, _LOSS, _TORN, _REFUSES = "a duplicate", "loss", "torn", "B refuses"
_BATCHES = {"rows": 3, "sizes": (1, 2)}

#: Each must be found.
CONTROLS = (
    _control("claim before InitProducerId", Breaks(claim_first=True), _DUPLICATE, _AT_ONCE),
    _control(
        "progress read up to the last stable offset",
        Breaks(read_to_stable=True),
        _DUPLICATE,
        _TWO,
        {_HANGS: 1, _CRASH: 1},
    ),
    _control(
        "progress read up to a high watermark",
        Breaks(read_to_high=True),
        _DUPLICATE,
        _TWO,
        {_DEPOSED: 1, _CRASH: 1},
        deposed=(PROGRESS,),
    ),
    _control("lost markers written as aborts", Breaks(heal_as_abort=True), _TORN, _ONE, {_LEADERLESS: 1}),
    _control("no wait for markers", Breaks(no_wait=True), _TORN, _ONE, {_LEADERLESS: 1, _EXPIRES: 1}, rows=3),
    _control("InitProducerId a second time", Breaks(init_again=True), _DUPLICATE, _AT_ONCE),
    _control(
        "batches skipped by number", Breaks(skip_by_number=True), _LOSS, _BACKUP_AFTER_CRASH, {_CRASH: 1}, **_BATCHES
    ),
    _control("no proof", Breaks(no_proof=True), _LOSS, _ONE, {_FAILS: 1}),
    _control(
        "a deposed leader is heard",
        Breaks(deposed_is_heard=True),
        _TORN,
        _ONE,
        {_DEPOSED: 1, _LEADERLESS: 1, _EXPIRES: 1},
        rows=3,
    ),
    _control("no healing", Breaks(no_healing=True), _TORN, _TWO, _LOSES_A_MARKER),
    _control("nobody looks for markers", Breaks(no_markers=True), _TORN, _TWO, _LOSES_A_MARKER),
    _control("no precedence", Breaks(no_precedence=True), _DUPLICATE, _TWO, {_CRASH: 1}),
    _control("progress is not read again after healing", Breaks(no_rereading=True), _DUPLICATE, _TWO, _LOSES_A_MARKER),
    _control("rows at our own epoch stop nobody", Breaks(no_rival_check=True), _TORN, _AT_ONCE, {_EXPIRES: 1}),
    _control(
        "a successor that has the id since it expired is healed",
        Breaks(no_id_check=True),
        _TORN,
        _AT_ONCE,
        {_ID_EXPIRES: 1},
    ),
    _control(
        "offsets without a progress record",
        Breaks(offsets_alone=True),
        _TORN,
        _THREE,
        {_STRANGER: 1, _LEADERLESS: 1, _CRASH: 2},
        rows=1,
        group=True,
        leaderless=(OFFSETS,),
    ),
    _control(
        "a new checkpoint begins at unsettled progress",
        Breaks(unsettled_start=True),
        _REFUSES,
        _NEW_AFTER_CRASH,
        {_CRASH: 1},
    ),
    _control(
        "no epoch is skipped on brokers that take late markers",
        Breaks(no_skipped_epoch=True),
        _TORN,
        _TWO,
        {_MOVES: 1, _CRASH: 1},
        late_markers=True,
    ),
)


def by_name(name: str) -> Setting:
    """Return the setting of that name. Raise :class:`KeyError`."""
    return {setting.name: setting for setting in (*SHORT, *LONG, *WALKS, *CONTROLS)}[name]
