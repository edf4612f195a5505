"""``PostgresCdcSource``: changes of PostgreSQL's tables, from its log, exactly once, in Debezium's envelopes."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from semel.connect.api import Offset, Partition, Polled, Setting, SourceConnector, SourceRecord, SourceTask, TaskContext
from semel.connect.connectors.postgres.catalog import Catalog
from semel.connect.connectors.postgres.changes import Changes
from semel.connect.connectors.postgres.connection import Address, database_errors
from semel.connect.connectors.postgres.overlap import Overlap
from semel.connect.connectors.postgres.position import Position, SnapshotState
from semel.connect.connectors.postgres.records import Origin, RecordMaker
from semel.connect.connectors.postgres.replication import LogStream
from semel.connect.connectors.postgres.selection import Selection
from semel.connect.connectors.postgres.server import (
    check_identities,
    check_rights,
    check_server,
    check_slot,
    create_slot,
    find_slot,
    missing_publication,
    prepare_publication,
    published_tables,
    warn_of_keyless,
)
from semel.connect.connectors.postgres.settings import SETTINGS, check_settings
from semel.connect.connectors.postgres.snapshot import Rows, SnapshotReader
from semel.connect.connectors.postgres.tables import TableMaker
from semel.errors import ConfigError, DataLoss
from semel.steps import CaptureStep, reached

__all__ = ["PostgresCdcSource", "PostgresCdcTask"]

log = logging.getLogger("semel.connect")

_NO_SNAPSHOT = ("no_data", "never")
#: A poll does not wait longer than this.
_WAIT_S = 0.5
#: How much longer than ``wal_sender_timeout`` a slot is waited for: the server gives up a reader that is gone then.
_SLOT_WAIT_S = 10.0


class PostgresCdcSource(SourceConnector):
    """Captures the changes of a database, in one task: a log has one order."""

    config: ClassVar[Mapping[str, type | Setting]] = SETTINGS

    def tasks(self, config: Mapping[str, Any], max_tasks: int) -> Sequence[Mapping[str, Any]]:
        """Return its one task. Raises :class:`ConfigError` for a server that cannot be captured."""
        check_settings(config)
        Selection(config)
        connection = Address.of(config).open()
        try:
            check_server(connection)
        finally:
            connection.close()
        return [config]

    def task(self) -> SourceTask:
        """Make a task."""
        return PostgresCdcTask()

    def exactly_once_support(self, config: Mapping[str, Any]) -> bool:
        """Say yes: the log has each change once, in one order."""
        return True

    def alter_offsets(self, config: Mapping[str, Any], offsets: Sequence[tuple[Partition, Offset]]) -> bool:
        """Check that they are positions in the log. The slot must hold the log from there on."""
        for partition, offset in offsets:
            if "server" not in partition:
                raise ValueError("Partition objects should contain the key 'server'")
            if offset is not None:
                try:
                    Position.of(offset)
                except DataLoss:
                    raise ValueError(
                        "Offset objects should either be null or contain 'lsn_commit', 'transaction_lsn' and"
                        " 'transaction_index'"
                    ) from None
        return False


class PostgresCdcTask(SourceTask):
    """Reads the rows that are there, then the log."""

    def start(self, config: Mapping[str, Any], context: TaskContext) -> None:
        """Connect, make publication and slot where they are missing, and resume at the offset."""
        with database_errors("the database"):
            self._start(config, context)

    def _start(self, config: Mapping[str, Any], context: TaskContext) -> None:
        self._config, self._context = config, context
        self._partition = {"server": config["topic.prefix"]}
        self._stream: LogStream | None = None
        self._snapshot: SnapshotReader | None = None
        self._changes: Changes | None = None
        self._address = Address.of(config)
        self._connection = self._address.open()
        self._selection = Selection(config)
        self._catalog = Catalog(self._connection)
        self._maker = TableMaker(config, self._catalog, self._selection)
        self._records = RecordMaker(config, self._partition)
        check_server(self._connection)
        self._published = prepare_publication(self._connection, config, self._selection)
        reached(CaptureStep.PUBLICATION_READY, config["topic.prefix"])
        check_rights(self._connection, published_tables(self._connection, config, self._selection))
        self._position = self._resumed(context.offset(self._partition))
        reached(CaptureStep.SLOT_READY, config["topic.prefix"])
        # after the slot is there: what a table that is made between has, is in one of both
        tables = published_tables(self._connection, config, self._selection)
        warn_of_keyless(self._connection, tables)
        self._tables = [one for one in tables if self._selection.has_snapshot(one.schema, one.name)]
        self._slot_until: float | None = None
        self._beat = time.monotonic()
        if self._snapshot_due():
            check_identities(self._connection, self._tables)
            self._snapshot = SnapshotReader(self._address, self._maker, self._tables, self._position.snapshot)
            reached(CaptureStep.SNAPSHOT_BEGAN, config["topic.prefix"])

    def _resumed(self, offset: Offset) -> Position:
        """Return the position that the offset says, or the beginning of the slot. Its slot is checked, or made."""
        name, mode = self._config["slot.name"], self._config["snapshot.mode"]
        slot = find_slot(self._connection, name)
        self._fresh = offset is None
        if offset is not None:
            position = Position.of(offset)
            try:
                if not self._published:
                    raise missing_publication(self._config["publication.name"], position.lsn)
                check_slot(self._connection, name, slot, position.lsn)
            except DataLoss:
                if mode != "when_needed":
                    raise
                log.warning(
                    "slot %s or its publication lacks changes since the last commit: all rows are read again", name
                )
                self._fresh = True
            else:
                return position
        if slot is None:
            slot = create_slot(self._connection, name)
        check_slot(self._connection, name, slot, slot.confirmed)
        return Position(slot.confirmed)

    def _snapshot_due(self) -> bool:
        """Return whether rows are to be read before the log."""
        mode, state = self._config["snapshot.mode"], self._position.snapshot
        if mode in _NO_SNAPSHOT:
            return False
        if state is not None and not state.done:
            return True
        if mode == "always":
            self._position = Position(self._position.lsn, self._position.transaction, self._position.index)
            return True
        return self._fresh

    def poll(self) -> Polled:
        """Give the next rows or changes."""
        with database_errors("the database"):
            return self._polled()

    def _polled(self) -> Polled:
        if self._snapshot is not None:
            return self._read_rows(self._snapshot)
        if self._config["snapshot.mode"] == "initial_only":
            time.sleep(_WAIT_S)
            return None
        if self._changes is None and not self._opened():
            time.sleep(_WAIT_S)
            return None
        assert self._changes is not None
        records = self._changes.poll(min(_WAIT_S, self._config["poll.interval.ms"] / 1000))
        self._position = self._changes.position
        return records or self._heartbeat(self._changes)

    def _read_rows(self, snapshot: SnapshotReader) -> list[SourceRecord] | None:
        rows = snapshot.next(min(self._config["max.batch.size"], self._config["snapshot.fetch.size"]))
        if rows is None:
            state = snapshot.state
            if state is None:
                log.info("the snapshot waits for transactions that began before it")
                time.sleep(_WAIT_S)
            else:
                self._end_snapshot(state)
            return None
        if rows.state.done:
            self._end_snapshot(rows.state)
        self._position = Position(
            self._position.lsn, self._position.transaction, self._position.index, snapshot=rows.state
        )
        return self._row_records(rows, snapshot.lsn)

    def _end_snapshot(self, state: SnapshotState) -> None:
        assert self._snapshot is not None
        reached(CaptureStep.ROWS_READ, self._config["topic.prefix"])
        self._snapshot.close()
        self._snapshot = None
        self._position = Position(self._position.lsn, self._position.transaction, self._position.index, snapshot=state)

    def _row_records(self, rows: Rows, lsn: int) -> list[SourceRecord]:
        offset, moment = self._position.offset(), time.time_ns() // 1000
        xid = int(rows.state.sessions[-1].seen.split(":")[0])
        sequence = f'[null,"{lsn}"]'
        return [
            self._records.read(rows.table, cells, Origin(moment, mark, sequence, xid, lsn), offset)
            for mark, cells in rows.rows
        ]

    def _opened(self) -> bool:
        """Take the slot. Return False while another reader has it, who may be gone."""
        name = self._config["slot.name"]
        slot = find_slot(self._connection, name)
        check_slot(self._connection, name, slot, self._position.lsn)
        assert slot is not None
        if slot.active_pid is not None:
            self._check_patience(name, slot.active_pid)
            return False
        self._stream = LogStream(self._address, name, self._config["publication.name"], self._position.lsn)
        reached(CaptureStep.LOG_OPENED, self._config["topic.prefix"])
        overlap = None
        if self._position.snapshot is not None:
            tables = {one.title: one for one in self._tables}
            overlap = Overlap(self._connection, self._position.snapshot, tables)
        self._changes = Changes(
            self._config, self._stream, self._position, self._maker, self._selection, self._records, overlap
        )
        return True

    def _check_patience(self, name: str, pid: int) -> None:
        """Raise :class:`ConfigError` once a reader of the slot that is gone would have been given up."""
        if self._slot_until is None:
            row = self._connection.execute(
                "SELECT setting::int8 FROM pg_settings WHERE name = 'wal_sender_timeout'"
            ).fetchone()
            self._slot_until = time.monotonic() + (row[0] if row else 0) / 1000 + _SLOT_WAIT_S
        elif time.monotonic() > self._slot_until:
            raise ConfigError(
                f"slot {name} is read by another program, process {pid} of PostgreSQL. Nothing more was read. (1) Stop"
                " it: see pg_stat_activity. (2) Give this connector a slot.name of its own.",
                tag="SLOT_IN_USE",
            )

    def _heartbeat(self, changes: Changes) -> list[SourceRecord] | None:
        """Give a heartbeat when it is due: its offset lets the server remove the log that a quiet table holds back."""
        interval = self._config["heartbeat.interval.ms"] / 1000
        if not interval or time.monotonic() - self._beat < interval or changes.in_transaction:
            return None
        self._beat = time.monotonic()
        if self._config["heartbeat.action.query"]:
            self._connection.execute(self._config["heartbeat.action.query"].encode())
        assert self._stream is not None
        self._position = changes.skip_to(self._stream.server_end)
        return [self._records.heartbeat(self._position.offset())]

    def commit(self) -> None:
        """Let the server remove the log up to the committed offset."""
        if self._stream is None:
            return
        offset = self._context.offset(self._partition)
        if offset is not None:
            self._stream.confirm(Position.of(offset).lsn)
            reached(CaptureStep.LOG_CONFIRMED, self._config["topic.prefix"])

    def stop(self) -> None:
        """Leave the slot, and close the connections."""
        for name in ("_stream", "_snapshot", "_connection"):
            one = getattr(self, name, None)
            if one is not None:
                one.close()
