"""What a process of semel does when: steps, requests and calls of Java, a line each, for ``bench.timeline``.

``SEMEL_STEPS=bench.trace:observe`` has each Python process write ``<pid>.jsonl`` in the folder that ``SEMEL_TRACE``
names. Times are seconds since the epoch, as Spark's event log has them, so that both fit on one axis. Writing a line
takes some 10 µs: the picture shows where time goes, and no figure of the bench is measured with it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from semel.steps import Step
from semel.testing.step_log import step_name

__all__ = ["Span", "observe", "read"]


@dataclass(frozen=True, slots=True)
class Span:
    """One thing that a process did. A step has no length. ``kind`` is ``step``, ``request`` or ``java``."""

    kind: str
    name: str
    begin: float
    end: float
    pid: int = 0
    thread: int = 0


class _Log:
    """The file of this process. A fork begins its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid, self._handle = 0, -1

    def write(self, kind: str, name: str, begin: float) -> None:
        span = Span(kind, name, begin, time.time(), os.getpid(), threading.get_ident())
        with self._lock:
            if self._pid != os.getpid():
                file = Path(os.environ["SEMEL_TRACE"]) / f"{os.getpid()}.jsonl"
                self._pid, self._handle = os.getpid(), os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            os.write(self._handle, (json.dumps(asdict(span)) + "\n").encode())


_log = _Log()
_watched: set[str] = set()


def observe(step: Step, detail: str = "") -> None:
    """Write the step down. ``SEMEL_STEPS`` names this function. From its first step on, a process's requests, and the
    driver's calls of Java, are written too.
    """
    _watch()
    _log.write("step", step_name(step), time.time())


def read(folder: Path) -> list[Span]:
    """Return what all processes wrote, in the order of its beginning."""
    lines = [line for file in folder.glob("*.jsonl") for line in file.read_text().splitlines()]
    return sorted((Span(**json.loads(line)) for line in lines), key=lambda span: span.begin)


def _watch() -> None:
    """Wrap what sends requests and calls Java, once each is imported."""
    for module, cls, attribute, wrap in (
        ("semel.wire.connection", "Connection", "_send_frame", _sent),
        ("semel.wire.connection", "Connection", "_take", _answered),
        ("py4j.clientserver", "JavaClient", "send_command", _called),
    ):
        if attribute not in _watched and module in sys.modules:
            _watched.add(attribute)
            owner = getattr(sys.modules[module], cls)
            setattr(owner, attribute, wrap(getattr(owner, attribute)))


def _sent(original: Callable[..., Any]) -> Callable[..., Any]:
    def send_frame(self: Any, pieces: Any, due: Any) -> Any:
        self.__dict__.setdefault("_sent_at", {})[due.correlation] = time.time()
        return original(self, pieces, due)

    return send_frame


def _answered(original: Callable[..., Any]) -> Callable[..., Any]:
    def take(self: Any) -> Any:
        due = self._waiting[0] if self._waiting else None
        try:
            return original(self)
        finally:
            begin = self.__dict__.get("_sent_at", {}).pop(due.correlation, None) if due is not None else None
            if due is not None and begin is not None:
                _log.write("request", due.request_type.__name__.removesuffix("Request"), begin)

    return take


def _called(original: Callable[..., Any]) -> Callable[..., Any]:
    def send_command(self: Any, command: str, *arguments: Any, **named: Any) -> Any:
        begin = time.time()
        try:
            return original(self, command, *arguments, **named)
        finally:
            words = command.split("\n", 3)
            _log.write("java", words[2] if words[0] == "c" and len(words) > 2 else words[0], begin)

    return send_command
