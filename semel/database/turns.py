"""``Turns``: units of an outbox run side by side, each with a worker of its own. A recovery runs alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from semel.errors import ConfigError

__all__ = ["Turns"]

WorkerT = TypeVar("WorkerT")


class Turns(Generic[WorkerT]):
    """Lend each unit one of the workers, and a recovery all of them. For any number of threads."""

    def __init__(self, prefix: str, workers: Sequence[WorkerT]) -> None:
        self._prefix = prefix
        self._workers = list(workers)
        self._free = list(workers)
        self._changed = threading.Condition()
        #: The threads that wait for all workers: units that come later wait behind them.
        self._alone_next = 0
        self._threads: set[int] = set()

    @contextmanager
    def one(self) -> Iterator[WorkerT]:
        """Wait for a worker. Raise :class:`ConfigError` in the middle of a turn of this thread."""
        lent: list[WorkerT] = []
        with self._taking(lent):
            with self._changed:
                self._changed.wait_for(lambda: self._free and not self._alone_next)
                lent.append(self._free.pop())
            yield lent[0]

    @contextmanager
    def all(self) -> Iterator[list[WorkerT]]:
        """Wait until no unit runs. Raise :class:`ConfigError` in the middle of a turn of this thread."""
        lent: list[WorkerT] = []
        with self._taking(lent):
            with self._changed:
                self._alone_next += 1
                try:
                    self._changed.wait_for(lambda: len(self._free) == len(self._workers))
                    lent += self._workers
                    self._free.clear()
                finally:
                    self._alone_next -= 1
            yield lent

    @contextmanager
    def _taking(self, lent: list[WorkerT]) -> Iterator[None]:
        """Give back what was lent, however the block ends."""
        thread = threading.get_ident()
        if thread in self._threads:
            raise ConfigError(
                f"a unit of the outbox {self._prefix!r} is open already in this thread. Nothing was written. End it"
                " first, or make another outbox with a prefix of its own.",
                tag="ILLEGAL_STATE",
            )
        self._threads.add(thread)
        try:
            yield
        finally:
            self._threads.discard(thread)
            with self._changed:
                self._free += lent
                self._changed.notify_all()
