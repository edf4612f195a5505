"""The ends of a task's transactions: after each poll, after an interval, or as the connector says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

from semel.connect.api import SourceRecord, SourceTask, TransactionContext
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.tasks.rows import Rows
from semel.connect.tasks.writers import Writer

__all__ = ["Boundary", "End", "boundary_of"]


class End(Enum):
    """What a connector asks for at the end of a part, by the value of :class:`TransactionContext`."""

    COMMIT = True
    ABORT = False
    NONE = None


def boundary_of(config: ConnectorConfig, writer: Writer, task: SourceTask) -> Boundary:
    """Make the boundary that a connector's configuration names."""
    if config.boundary == "interval":
        return _Interval(config, writer, task)
    return _Connector(config, writer, task) if config.boundary == "connector" else Boundary(config, writer, task)


class Boundary:
    """A transaction for each poll. The others differ in when they commit."""

    context: TransactionContext | None = None

    def __init__(self, config: ConnectorConfig, writer: Writer, task: SourceTask) -> None:
        self._config, self._writer, self._task = config, writer, task
        self._uncommitted: list[SourceRecord] = []
        #: How often it has committed.
        self.commits = 0

    def split(self, polled: Any) -> Iterator[tuple[Any, End]]:
        """Yield the parts of a poll, and what was asked for at the end of each."""
        yield polled, End.NONE

    def write(self, rows: Rows, part: Any) -> None:
        """Write a part."""
        self._writer.write(rows)
        if isinstance(part, Sequence):
            self._uncommitted += part

    def finish_part(self, end: End) -> None:
        """Do what is due after a part: commit, here."""
        self._commit()

    def idle(self) -> None:
        """Do what is due when nothing was polled."""
        self._writer.idle()

    def end(self) -> None:
        """Do what is due before the task ends by itself."""

    def _commit(self) -> None:
        self._writer.commit()
        self.commits += 1
        self._tell()

    def _tell(self) -> None:
        for record in self._uncommitted:
            self._task.commit_record(record)
        self._uncommitted.clear()
        self._task.commit()


class _Interval(Boundary):
    """All polls of an interval in one transaction."""

    def __init__(self, config: ConnectorConfig, writer: Writer, task: SourceTask) -> None:
        super().__init__(config, writer, task)
        self._began: float | None = None

    def write(self, rows: Rows, part: Any) -> None:
        """Write into the transaction that is open."""
        if self._began is None:
            self._began = time.monotonic()
        super().write(rows, part)

    def finish_part(self, end: End) -> None:
        """Commit if the interval is over."""
        self.idle()

    def idle(self) -> None:
        """Commit if the interval is over, whether anything was polled or not."""
        if self._began is not None and time.monotonic() - self._began >= self._config.interval_ms / 1000:
            self._began = None
            self._commit()
        self._writer.idle()

    def end(self) -> None:
        """Commit what is left."""
        if self._began is not None:
            self._commit()


class _Connector(Boundary):
    """Ends that the connector sets. What is open when the task ends is aborted."""

    def __init__(self, config: ConnectorConfig, writer: Writer, task: SourceTask) -> None:
        super().__init__(config, writer, task)
        self.context: TransactionContext = TransactionContext()

    def split(self, polled: Any) -> Iterator[tuple[Any, End]]:
        """Split after each record with a commit or abort request. A request for the poll applies to the last part."""
        batch = End(self.context.take_batch())
        if not isinstance(polled, Sequence):
            yield polled, batch
            return
        start = 0
        for index, record in enumerate(polled):
            asked = self.context.take_record(record) if isinstance(record, SourceRecord) else None
            if asked is not None:
                yield polled[start : index + 1], End(asked)
                start = index + 1
        if start < len(polled):
            yield polled[start:], batch

    def finish_part(self, end: End) -> None:
        """Commit or abort, if that was asked for."""
        if end is End.COMMIT:
            self._commit()
        elif end is End.ABORT:
            self._writer.abort()
            self.commits += 1
            self._tell()
