"""The explored settings of prepared transactions: the procedure under faults, and each mistake that must be found."""

from __future__ import annotations

from collections.abc import Mapping

from model.two_phase import Prepares, Trouble
from model.two_phase_owner import Mistakes
from model.world import Start, When

__all__ = ["CONTROLS", "SHORT", "WALKS"]

_LAST = Start(When.LAST)
_ONE = (Start(), _LAST)
_TWO = (Start(), Start(), _LAST)
_CRASH, _INIT, _COMMIT, _END, _EXPIRES = Trouble

#: The procedure. Nothing is found.
SHORT = (
    Prepares("prepared: no fault", _ONE),
    Prepares("prepared: a crash, lost answers", _ONE, {_CRASH: 1, _INIT: 1, _COMMIT: 1, _END: 1}),
    Prepares("prepared: two owners at once", _TWO, units=1),
    Prepares("prepared: two owners at once, a COMMIT lost", _TWO, {_COMMIT: 1}, units=1),
    Prepares("prepared: two owners at once, a crash", _TWO, {_CRASH: 1}, units=1),
    Prepares("prepared: expiry, a crash", _ONE, {_CRASH: 1, _EXPIRES: 1}),
    Prepares("prepared: late markers, lost answers", _ONE, {_INIT: 1, _COMMIT: 1, _END: 2}, 3, late_markers=True),
    Prepares("prepared: late markers, two owners at once, an EndTxn lost", _TWO, {_END: 1}, late_markers=True),
)

WALKS = (
    Prepares("walk: prepared, all faults", _TWO, dict.fromkeys((_CRASH, _INIT, _COMMIT, _END), 2), units=3),
    Prepares(
        "walk: prepared, late markers",
        _TWO,
        dict.fromkeys((_CRASH, _INIT, _COMMIT, _END), 2),
        units=3,
        late_markers=True,
    ),
    Prepares("walk: prepared, bounded", _TWO, dict.fromkeys(Trouble, 2), units=2),
)


def _control(
    name: str,
    breaks: Mistakes,
    finds: str,
    faults: Mapping[Trouble, int] | None = None,
    owners: tuple[Start, ...] = _ONE,
    units: int = 2,
    *,
    late_markers: bool = False,
) -> Prepares:
    return Prepares(f"control: prepared, {name}", owners, faults or {}, units, late_markers, finds, breaks)


_TORN, _LOSS = "torn", "loss"

#: Each must be found.
CONTROLS = (
    _control("listed after the number was raised", Mistakes(list_last=True), _TORN, owners=_TWO),
    _control("texts read before the number is raised", Mistakes(read_first=True), _TORN, owners=_TWO, units=1),
    _control("a COMMIT whatever the number is", Mistakes(no_guard=True), _TORN, owners=_TWO, units=1),
    _control("a COMMIT that is not answered counts as refused", Mistakes(abort_on_lost=True), _TORN, {_COMMIT: 1}),
    _control("Kafka before the database", Mistakes(commit_first=True), _TORN),
    _control("InitProducerId sent again", Mistakes(init_again=True), _TORN, {_INIT: 1}),
    _control(
        "an epoch skipped by InitProducerId", Mistakes(skip_by_init=True), _TORN, {_INIT: 1}, units=3, late_markers=True
    ),
    _control("an id used again early", Mistakes(reuse_early=True), _TORN, {_END: 1}),
    _control("two transactions of one epoch", Mistakes(old_epoch=True), _TORN, {}, _TWO),
    _control("the text removed before Kafka follows", Mistakes(forget_first=True), _TORN, {_CRASH: 1}),
    _control("aborted by the newest epoch", Mistakes(newest_epoch=True), _TORN, {_END: 1}, _TWO),
    _control("expiry is passed over", Mistakes(silent=True), _LOSS, {_CRASH: 1, _EXPIRES: 1}),
)
