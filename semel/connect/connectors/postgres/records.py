"""Records of changes and of rows: Debezium's envelopes, tombstones, heartbeats and transaction metadata."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from semel import __version__
from semel.connect.api import SourceRecord
from semel.connect.connectors.postgres.pgoutput import Begin, Cell
from semel.connect.connectors.postgres.tables import SOURCE, TRANSACTION_BLOCK, Table
from semel.serdes.json_value import json_value
from semel.serdes.schemas import Schema, Struct

__all__ = ["Origin", "RecordMaker", "block_of"]

_COMMON = "io.debezium.connector.common."
_HEARTBEAT_KEY = Schema.struct({"serverName": Schema.string()}, name=f"{_COMMON}ServerNameKey", version=1)
_HEARTBEAT = Schema.struct({"ts_ms": Schema.int64()}, name=f"{_COMMON}Heartbeat", version=1)
_TRANSACTION_KEY = Schema.struct({"id": Schema.string()}, name=f"{_COMMON}TransactionMetadataKey", version=1)
_COLLECTION = Schema.struct(
    {"data_collection": Schema.string(), "event_count": Schema.int64()},
    name="event.collection",
    version=1,
    optional=True,
)
_TRANSACTION = Schema.struct(
    {
        "status": Schema.string(),
        "id": Schema.string(),
        "event_count": Schema.int64(optional=True),
        "data_collections": Schema.array(_COLLECTION, optional=True),
        "ts_ms": Schema.int64(),
    },
    name=f"{_COMMON}TransactionMetadataValue",
    version=1,
)


class Origin:
    """Where a record comes from: the moment of its commit, its transaction, its places in the log.

    A record of the log has no ``snapshot`` mark.
    """

    __slots__ = ("cells", "moment_us")

    def __init__(self, moment_us: int, snapshot: str | None, sequence: str, xid: int, lsn: int) -> None:
        self.moment_us = moment_us
        self.cells = (snapshot, sequence, xid, lsn)


class RecordMaker:
    """Maker of a connector's records. All of one poll share their offset, which is filled when the poll ends."""

    def __init__(self, config: Mapping[str, Any], partition: Mapping[str, str]) -> None:
        self._prefix, self._database = config["topic.prefix"], config["database.dbname"]
        self._tombstones = config["tombstones.on.delete"]
        self._heartbeat_topic = f"{config['topic.heartbeat.prefix']}.{self._prefix}"
        self._transaction_topic = f"{self._prefix}.{config['topic.transaction']}"
        self._partition = partition

    def read(self, table: Table, cells: Sequence[Cell], origin: Origin, offset: dict[str, Any]) -> SourceRecord:
        """Return the record of a row that a snapshot read."""
        return self._record(table, table.key(cells), "r", None, table.row(cells), origin, offset, None)

    def created(
        self,
        table: Table,
        cells: Sequence[Cell],
        origin: Origin,
        offset: dict[str, Any],
        block: Struct | None,
        old: Sequence[Cell] | None = None,
        old_key: Struct | None = None,
    ) -> SourceRecord:
        """Return the record of a new row; of one with a new key if the ``old_key`` is given."""
        headers = _header("__debezium.oldkey", old_key)
        key = table.key(cells, old)
        return self._record(table, key, "c", None, table.row(cells, old), origin, offset, block, headers)

    def updated(
        self,
        table: Table,
        old: Sequence[Cell] | None,
        new: Sequence[Cell],
        origin: Origin,
        offset: dict[str, Any],
        block: Struct | None,
        *,
        whole: bool,
    ) -> SourceRecord:
        """Return the record of a change that left the key as it was. The old row is there if it is ``whole``."""
        before = table.row(old) if old is not None and whole else None
        return self._record(table, table.key(new, old), "u", before, table.row(new, old), origin, offset, block)

    def deleted(
        self,
        table: Table,
        cells: Sequence[Cell],
        origin: Origin,
        offset: dict[str, Any],
        block: Struct | None,
        new_key: Struct | None = None,
    ) -> list[SourceRecord]:
        """Return the record of a row that is gone, and its tombstone."""
        key, headers = table.key(cells), _header("__debezium.newkey", new_key)
        record = self._record(table, key, "d", table.row(cells), None, origin, offset, block, headers)
        if not self._tombstones or key is None:
            return [record]
        return [record, SourceRecord(table.topic, None, self._partition, offset, key, headers=headers)]

    def truncated(self, table: Table, origin: Origin, offset: dict[str, Any], block: Struct | None) -> SourceRecord:
        """Return the record of a table that was emptied."""
        return self._record(table, None, "t", None, None, origin, offset, block)

    def _record(
        self,
        table: Table,
        key: Struct | None,
        op: str,
        before: Struct | None,
        after: Struct | None,
        origin: Origin,
        offset: dict[str, Any],
        block: Struct | None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> SourceRecord:
        moment = origin.moment_us
        snapshot, sequence, xid, lsn = origin.cells
        source = Struct.of_cells(
            SOURCE,
            (
                __version__,
                "postgresql",
                self._prefix,
                moment // 1000,
                snapshot,
                self._database,
                sequence,
                moment,
                moment * 1000,
                table.schema,
                table.name,
                xid,
                lsn,
                None,
                None,
                None,
            ),
        )
        now = time.time_ns()
        value = Struct.of_cells(table.envelope, (before, after, source, block, op, now // 1_000_000, now // 1000, now))
        return SourceRecord(table.topic, value, self._partition, offset, key, headers=headers)

    def heartbeat(self, offset: dict[str, Any]) -> SourceRecord:
        """Return a heartbeat."""
        key = Struct.of_cells(_HEARTBEAT_KEY, (self._prefix,))
        value = Struct.of_cells(_HEARTBEAT, (time.time_ns() // 1_000_000,))
        return SourceRecord(self._heartbeat_topic, value, self._partition, offset, key)

    def transaction(
        self, status: str, name: str, counts: Mapping[str, int] | None, moment_us: int, offset: dict[str, Any]
    ) -> SourceRecord:
        """Return the record of the begin or the end of a transaction."""
        collections = total = None
        if counts is not None:
            collections = [Struct.of_cells(_COLLECTION, pair) for pair in counts.items()]
            total = sum(counts.values())
        value = Struct.of_cells(_TRANSACTION, (status, name, total, collections, moment_us // 1000))
        key = Struct.of_cells(_TRANSACTION_KEY, (name,))
        return SourceRecord(self._transaction_topic, value, self._partition, offset, key)


def _header(name: str, key: Struct | None) -> tuple[tuple[str, str], ...]:
    """Return the header of a key that changed, as Debezium's has it."""
    return () if key is None else ((name, json_value(key.schema, key)),)


def block_of(begin: Begin, total: int, of_table: int, lsn: int) -> Struct:
    """Return a record's place in its transaction."""
    return Struct.of_cells(TRANSACTION_BLOCK, (f"{begin.xid}:{lsn}", total, of_table))
