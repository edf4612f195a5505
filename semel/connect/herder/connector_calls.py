"""Calls of a connector's own code on the driver: none of them holds up the worker, whatever it does.

A connector that does not answer in time is given up: its thread is left where it stands, and is looked at no more. What
it answers later is thrown away with it.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Generic, TypeVar

from semel.errors import ConfigError, SemelError

__all__ = ["ask_connector", "within"]

T = TypeVar("T")


class _Work(threading.Thread, Generic[T]):
    """One piece of work, on a thread that nobody needs afterwards."""

    def __init__(self, name: str, work: Callable[[], T]) -> None:
        super().__init__(name=f"semel-connector-{name:.100}", daemon=True)
        self._work = work
        #: What it is asked now.
        self.what = "its configuration"
        self.answer: T
        self.raised: BaseException | None = None

    def run(self) -> None:
        """Do the work."""
        try:
            self.answer = self._work()
        except BaseException as error:  # it is raised where the work was asked for
            self.raised = error


def within(timeout_ms: int, name: str, work: Callable[[], T]) -> T:
    """Do work that calls a connector's code, and wait for it no longer than that.

    Raises :class:`ConfigError` where it does not end in time, with the stack of its thread, and for whatever else than
    a :class:`SemelError` it raises.
    """
    doing = _Work(name, work)
    doing.start()
    doing.join(timeout_ms / 1000)
    if doing.is_alive():
        raise _blocked(name, doing, timeout_ms)
    if doing.raised is None:
        return doing.answer
    if isinstance(doing.raised, SemelError):
        raise doing.raised
    raise _raised(name, doing.what, doing.raised) from doing.raised


def ask_connector(name: str, what: str, ask: Callable[[], T]) -> T:
    """Call a connector's own code. Raises :class:`ConfigError`, with what it raised as the cause."""
    thread = threading.current_thread()
    if isinstance(thread, _Work):
        thread.what = what
    try:
        return ask()
    except SemelError:
        raise
    except (Exception, SystemExit) as error:
        raise _raised(name, what, error) from error


def _blocked(name: str, doing: _Work[T], timeout_ms: int) -> ConfigError:
    what, frame = doing.what, sys._current_frames().get(doing.ident or 0)
    error = ConfigError(
        f"connector {name!r}: {what} did not return within {timeout_ms} ms. Nothing new was started. Correct the"
        " connector and restart it, or raise semel.connector.timeout.ms in the worker's file.",
        tag="CONNECTOR_BLOCKED",
    )
    if frame is not None:  # it may have ended just now
        error.add_note(f"It stands here:\n{''.join(traceback.format_stack(frame))}")
    return error


def _raised(name: str, what: str, error: BaseException) -> ConfigError:
    return ConfigError(
        f"connector {name!r}: {what} raised {type(error).__name__}: {error}. Nothing was started. Correct its"
        " properties, or the connector.",
        tag="CONNECTOR_RAISED",
    )
