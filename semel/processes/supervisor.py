"""The supervision of processes: launch, watch, and launch again when one is lost.

If a connection breaks, the supervisor waits, since Spark restarts the task. A process that stays away for ``silent_s``,
or answers no pings for that long, is lost: its job is cancelled, and after a back-off a new one is launched. Spark
itself would wait two minutes. A process that reports a failure is not launched again, unless its error asks for it
(:class:`~semel.errors.Retriable`, :class:`~semel.errors.AbortAndRetry`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from semel.processes.channel import Channel, Ended, Launch
from semel.processes.launcher import JobFailed, Launcher, SparkGone
from semel.wire.backoff import Backoff

__all__ = ["State", "Status", "Supervisor"]

log = logging.getLogger("semel.processes")

_WATCH_S = 0.2
_FIRST_BACKOFF_S, _LAST_BACKOFF_S = 0.5, 30.0
#: A process that was connected for this long has recovered: its next back-off is the first one again.
_RECOVERED_S = 60.0
#: How often a process that has not connected is looked at again.
_LOOK_S = 1.0
#: Why a process has not connected, by whether it has a slot.
_WAITS = {
    False: "no slot of Spark is its own yet. It waits, and nothing is lost. Spark may still be starting. If it stays,"
    " no slot is free: raise the slots (--master local[N,4], more executors or cores), or stop another process.",
    True: "it has a slot of Spark, and its Python has not connected to the driver yet. Nothing is lost. If it stays,"
    " look at the load of its executor, and whether that reaches the driver.",
    None: "Spark does not say whether it has a slot. It waits, and nothing is lost. Look at Spark's driver.",
}


class State(Enum):
    """The state of a process. The names are Kafka Connect's."""

    UNASSIGNED = "waits for a slot"
    RUNNING = "runs"
    RESTARTING = "was lost, and is launched again"
    STOPPED = "has ended, as it was asked to"
    FAILED = "has failed, and is not launched again"


@dataclass(frozen=True, slots=True)
class Status:
    """The known state of a process. ``where`` is ``host:pid``. ``reason`` explains why it is not running."""

    name: str
    state: State = State.UNASSIGNED
    where: str = ""
    launches: int = 0
    reason: str = ""
    trace: str = ""


class _Supervised:
    def __init__(self, name: str, entry: str, settings: Mapping[str, Any]) -> None:
        self.name, self.entry, self.settings = name, entry, settings
        self.status = Status(name)
        self.launch: Launch | None = None
        self.group = ""
        self.stopping = threading.Event()
        self.thread: threading.Thread | None = None
        self.connected_at = 0.0
        #: When to look, in monotonic seconds, why it has not connected.
        self.look_at = 0.0
        #: Held while a state is reported: the newest one is reported last.
        self.reporting = threading.RLock()
        #: Set once its name is free again: nothing is reported of it any more.
        self.forgotten = False


class Supervisor:
    """Keeps processes running on a launcher.

    ``on_change`` is called for each new status, ``on_message`` for each message of a process. Both are called in other
    threads, and must not wait. An error of theirs is logged, and the process runs on. ``on_ask`` answers the questions
    of a process, and may wait.
    """

    def __init__(
        self,
        launcher: Launcher,
        *,
        on_change: Callable[[Status], None] = lambda _: None,
        on_message: Callable[[str, Mapping[str, Any]], None] = lambda _name, _message: None,
        on_ask: Callable[[str, Mapping[str, Any]], Mapping[str, Any]] = lambda _name, _question: {},
        silent_s: float = 10.0,
    ) -> None:
        self._launcher = launcher
        self._channel = Channel(self._launcher.host, self._launcher.bind, silent_s)
        self._on_change, self._on_message, self._on_ask, self._silent_s = on_change, on_message, on_ask, silent_s
        self._all: dict[str, _Supervised] = {}
        self._lock = threading.RLock()
        self._closed = threading.Event()
        #: Set when Spark itself has ended.
        self.spark_gone = threading.Event()
        threading.Thread(target=self._watch, name="semel-supervisor", daemon=True).start()

    def start(self, name: str, entry: str, settings: Mapping[str, Any]) -> None:
        """Keep ``entry`` (``module:function``) running under this name, which must be free."""
        one = _Supervised(name, entry, settings)
        with self._lock:
            if name in self._all:
                raise ValueError(f"a process named {name!r} is there already")
            self._all[name] = one
        one.thread = self._launcher.thread(lambda: self._supervise(one), f"semel-{name}")

    @property
    def statuses(self) -> list[Status]:
        """The states of all processes, in the order of their start."""
        return [one.status for one in list(self._all.values())]

    def stop(self, graceful_s: float, names: Collection[str] | None = None) -> list[str]:
        """Ask all processes, or those of these names, to end; wait this long; then end them. Return the names of those
        that did not end by themselves.
        """
        chosen = [one for one in list(self._all.values()) if names is None or one.name in names]
        for one in chosen:
            one.stopping.set()
            if one.launch is not None:
                self._channel.stop(one.launch)
        end = time.monotonic() + graceful_s
        ended_by_force = [one for one in chosen if not self._ends(one, end)]
        for one in ended_by_force:
            self._discard(one)
        end = time.monotonic() + self._silent_s
        for one in ended_by_force:
            self._ends(one, end)
        return [one.name for one in ended_by_force]

    def forget(self, names: Collection[str]) -> None:
        """Forget these stopped processes: their names are free."""
        with self._lock:
            for name in names:
                one = self._all.pop(name, None)
                if one is not None:
                    one.forgotten = True

    def _ends(self, one: _Supervised, end: float) -> bool:
        """Wait for its end. Return True if nothing of it was lost on the way.

        A process that waits for a slot ends at once. One that has just connected is asked to, as every other.
        """
        if one.launch is not None and self._channel.withdraw(one.launch):
            self._cancel(one)
        assert one.thread is not None
        one.thread.join(max(end - time.monotonic(), 0))
        return not one.thread.is_alive() and one.status.state in (State.STOPPED, State.FAILED)

    def close(self) -> None:
        """End the processes that still run, and stop listening. Spark stays."""
        self._closed.set()
        for one in self._all.values():
            one.stopping.set()
            self._discard(one)
        self._channel.close()

    def _discard(self, one: _Supervised) -> None:
        if one.launch is not None:
            self._channel.discard(one.launch)
            self._cancel(one)

    def _cancel(self, one: _Supervised) -> None:
        with suppress(Exception):  # Spark may have ended
            self._launcher.cancel(one.group)

    # ---- a thread for each process

    def _supervise(self, one: _Supervised) -> None:
        backoff = Backoff(_FIRST_BACKOFF_S, _LAST_BACKOFF_S)
        while not one.stopping.is_set():
            ended, reason = self._launch(one)
            if self.spark_gone.is_set():
                return
            if ended is not None and not ended.error:
                self._change(one, state=State.STOPPED, where="", reason="")
                return
            if ended is not None and not ended.again:
                self._change(one, state=State.FAILED, where="", reason=ended.error, trace=ended.trace)
                return
            if one.connected_at and time.monotonic() - one.connected_at > _RECOVERED_S:
                backoff.reset()
            reason = ended.error if ended is not None else reason
            if one.stopping.is_set() and one.launch is not None and one.launch.attempt < 0:
                break  # its job was cancelled before it ran: nothing was lost
            self._change(one, state=State.RESTARTING, where="", reason=reason)
            one.stopping.wait(backoff.next())
        if one.launch is None or one.launch.attempt < 0:  # it never ran, and left nothing
            self._change(one, state=State.STOPPED, where="", reason="")

    def _launch(self, one: _Supervised) -> tuple[Ended | None, str]:
        """Run one launch to its end. Return the process's own report, and Spark's reason."""
        launch = Launch(
            one.entry,
            one.settings,
            lambda: self._see(one, launch),
            lambda message: self._hear(one, message),
            lambda question: self._on_ask(one.name, question),
        )
        number = one.status.launches + 1
        one.group, one.launch, one.connected_at = f"semel-{one.name}-{number}", launch, 0.0
        one.look_at = time.monotonic() + self._silent_s
        self._change(one, state=State.UNASSIGNED, where="", launches=number)
        self._channel.open(launch)
        reason = "its job ended, and the process has not said why"
        try:
            if one.stopping.is_set():
                launch.over = True
            self._launcher.run(one.group, one.name, self._channel.address, launch.token)
        except JobFailed as failed:
            reason = failed.message
        except SparkGone as gone:
            self._change(one, state=State.FAILED, where="", reason=gone.message)
            self.spark_gone.set()
        finally:
            self._channel.forget(launch)
        return launch.ended, reason

    def _see(self, one: _Supervised, launch: Launch) -> None:
        if one.launch is not launch:
            return
        if launch.where:
            one.connected_at = one.connected_at or time.monotonic()
            self._change(one, state=State.RUNNING, where=launch.where, reason="", trace="")
            if one.stopping.is_set():
                self._channel.stop(launch)
        elif launch.ended is None and not launch.over:
            self._change(one, state=State.RESTARTING, where="", reason="its process was lost")

    def _hear(self, one: _Supervised, message: Mapping[str, Any]) -> None:
        if not one.forgotten:
            with _logged(one.name):
                self._on_message(one.name, message)

    def _change(self, one: _Supervised, *, only_in: State | None = None, **what: Any) -> None:
        """Set a new status and report it; with ``only_in``, only if this is still its state."""
        with one.reporting:
            with self._lock:
                if only_in is not None and one.status.state is not only_in:
                    return
                one.status = status = replace(one.status, **what)
                forgotten = one.forgotten
            if not forgotten:
                with _logged(one.name):
                    self._on_change(status)

    # ---- one thread for all

    def _watch(self) -> None:
        while not self._closed.wait(_WATCH_S):
            for one in list(self._all.values()):
                launch = one.launch
                if launch is not None and launch.attempt < 0 and one.status.state is State.UNASSIGNED:
                    self._say_why_it_waits(one)
                if launch is None or launch.over or launch.ended is not None or launch.silent_since is None:
                    continue
                if time.monotonic() - launch.silent_since >= self._silent_s:
                    self._discard(one)

    def _say_why_it_waits(self, one: _Supervised) -> None:
        if time.monotonic() < one.look_at:
            return
        launch, reason = one.launch, _WAITS[self._launcher.has_slot(one.group)]
        one.look_at = time.monotonic() + _LOOK_S
        # it may have connected, or been stopped, while Spark was asked
        waits = launch is not None and launch.attempt < 0 and not one.stopping.is_set()
        if waits and one.status.reason != reason:
            self._change(one, only_in=State.UNASSIGNED, reason=reason)


@contextmanager
def _logged(name: str) -> Iterator[None]:
    """Log an error of the owner's callback. It says nothing about the process, whose state the next report brings."""
    try:
        yield
    except Exception:
        log.exception("the driver failed to take in what process %s reported. The process runs on", name)
