"""Threads of one owner take turns: what is asked of it is changed in the same breath, and two tickets for one partition would lose rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from semel.transaction.ownership import Ownership

__all__ = ["in_turn"]


class _Owned(Protocol):
    _own: Ownership


_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S", bound=_Owned)


def in_turn(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """A method that waits for those of other threads on the same owner."""

    @wraps(method)
    def taken(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        self._own.states.refuse_forked()  # another thread may have had the turn when this process was forked, and never gives it back
        with self._own.turn:
            return method(self, *args, **kwargs)

    return taken
