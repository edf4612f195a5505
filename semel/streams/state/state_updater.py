"""A thread that reads changelogs into stores: those of tasks that restore, and the copies of standby tasks.

The worker's other tasks go on meanwhile. A store belongs to this thread from :meth:`StateUpdater.add` on, until
:meth:`StateUpdater.remove` returns or :meth:`StateUpdater.finished` hands it over. Restores come first: copies are read
on once no store restores any more. Only what is committed is read, so a copy never says more than its changelog.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from semel.config import ClientConfig
from semel.read.cursor import Taken
from semel.read.reader import Reader
from semel.steps import StreamsStep, reached
from semel.streams.clock import now_ms
from semel.streams.state.changelog import BATCH_ROWS, Restore
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["StateUpdater"]

log = logging.getLogger("semel.streams")

#: How often a restore that takes long is logged.
_REPORT_S = 10.0
_CLOSE_S = 5.0
#: How often a copy to which nothing comes is written again.
_REFRESH_MS = 3_600_000
#: How long a fetch waits for new records: what else is wanted meanwhile waits, too.
_WAIT_MS = 100


class StateUpdater:
    """One thread uses it. Its connections are its own. ``restored`` is called in the thread that reads, with the number
    of records that a store has taken.
    """

    def __init__(self, config: ClientConfig, restored: Callable[[Restore, int], None]) -> None:
        self._client = Client(replace(config, fetch_max_wait_ms=min(config.fetch_max_wait_ms, _WAIT_MS)))
        self._restored = restored
        self._thread: threading.Thread | None = None
        #: Held while a store is written.
        self._writing = threading.Lock()
        self._changed = threading.Condition()
        # ---- under this lock
        self._open: dict[TopicPartition, Restore] = {}
        self._finished: list[Restore] = []
        self._error: Exception | None = None
        self._version = 0
        self._closing = False

    @property
    def open(self) -> list[Restore]:
        """What it reads for, as of now."""
        with self._changed:
            return list(self._open.values())

    def add(self, restores: Iterable[Restore]) -> None:
        """Read for these, too."""
        with self._changed:
            self._open |= {one.partition: one for one in restores}
            self._change()
            if self._open and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="semel-state-updater", daemon=True)
                self._thread.start()

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        """Give the stores of these partitions back. What they have taken stays in them. After an error it reads on for
        the others.
        """
        with self._changed:
            for partition in partitions:
                self._open.pop(partition, None)
            self._finished = [one for one in self._finished if one.partition not in partitions]
            self._error = None  # what it was about is read again, if it is still wanted
            self._change()
        with self._writing:  # a write that had begun is over
            pass

    def finished(self) -> list[Restore]:
        """Return the stores that have come to their end since the last call: they are the caller's again.

        Raises what reading or a store has raised: :class:`~semel.errors.Retriable` while brokers stay away or a
        transaction stays open, and :class:`~semel.streams.state.backend.DamagedStore`. What was taken until then stays.
        """
        with self._changed:
            if self._error is not None:
                raise self._error
            finished, self._finished = self._finished, []
        return finished

    def wait(self, timeout: float) -> None:
        """Wait until there is something for :meth:`finished`."""
        with self._changed:
            self._changed.wait_for(lambda: self._finished or self._error, timeout)

    def close(self) -> None:
        """End the thread. The stores are the caller's again."""
        with self._changed:
            partitions, self._closing = list(self._open), True
        self.remove(partitions)
        if self._thread is None:
            self._client.close()
        else:
            self._thread.join(_CLOSE_S)

    def _change(self) -> None:
        self._version += 1
        self._changed.notify_all()

    # ---- the thread

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: (self._open and self._error is None) or self._closing)
                version, wanted = self._version, list(self._open.values())
                if self._closing:
                    break
            try:
                self._read(version, wanted)
            except Exception as error:  # whatever it is: the worker raises it
                with self._changed:
                    if self._version == version:
                        self._error = error
                        self._changed.notify_all()
        self._client.close()

    def _read(self, version: int, wanted: Collection[Restore]) -> None:
        """Read until other stores are wanted, or all are at their end."""
        mine = {one.partition: one for one in wanted if not one.follows} or {one.partition: one for one in wanted}
        for one in mine.values():
            self._reach(one, one.position, version)
        report_at = time.monotonic() + _REPORT_S
        with Reader(self._client, [one.range for one in mine.values()], advice="reset the application") as reader:
            for taken in reader.answers(idle=True):
                for one in mine.values():
                    one.check_fresh()
                for rows in taken:
                    self._take(mine[rows.part.range.topic_partition], rows, version)
                if self._version != version:
                    return
                for partition, one in mine.items():
                    one.lag = reader.left(partition) if one.follows else one.end - one.position
                    if one.follows and one.lag == 0:
                        self._keep_fresh(one, version)
                if time.monotonic() >= report_at:
                    report_at = time.monotonic() + _REPORT_S
                    _report(mine.values())

    def _take(self, one: Restore, rows: Taken, version: int) -> None:
        """Put the rows of an answer into the store, while it is this thread's."""
        for batch, position in rows.decode(headers=False, max_rows=BATCH_ROWS):
            with self._writing:
                if self._version != version:
                    return
                one.take(batch, position)
            self._restored(one, batch.num_rows)
            reached(StreamsStep.RESTORING, f"{one.range.name} {position}")
        self._reach(one, rows.end, version, at_end=one.follows and rows.part.lag == 0)

    def _keep_fresh(self, one: Restore, version: int) -> None:
        """Take note that a store is at the end, and write that down once in a while: a quiet one must not look old."""
        one.fresh_ms = now_ms()
        if one.fresh_ms - one.written_ms > _REFRESH_MS:
            self._reach(one, one.position, version, at_end=True)

    def _reach(self, one: Restore, position: int, version: int, *, at_end: bool = False) -> None:
        """Take note of a store that has come to its end, or to that of the changelog that it follows."""
        if position < one.end and not at_end:
            return
        with self._writing:
            if self._version != version:
                return
            one.reach(position)
        if one.follows:
            reached(StreamsStep.COPIED, f"{one.range.name} {position}")
        with self._changed:
            if position >= one.end and self._open.get(one.partition) is one:
                del self._open[one.partition]
                self._finished.append(one)
                self._changed.notify_all()


def _report(restores: Iterable[Restore]) -> None:
    for one in restores:
        if not one.follows and one.lag:
            topic, index = one.partition
            log.info("restoring %s-%d: %d records were read, %d offsets are left", topic, index, one.count, one.lag)
