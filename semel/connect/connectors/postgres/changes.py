"""Changes of the log as records, and the position after them.

Each message that may give records is counted within its transaction, so that a task can resume in the middle of a huge
one: PostgreSQL sends it again from its beginning, and what was committed is passed over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from semel.connect.api import SourceRecord
from semel.connect.connectors.postgres.overlap import Overlap
from semel.connect.connectors.postgres.pgoutput import Begin, Change, Commit, Relation, Truncate, decode
from semel.connect.connectors.postgres.position import Position, lsn_text
from semel.connect.connectors.postgres.records import Origin, RecordMaker, block_of
from semel.connect.connectors.postgres.replication import Logged, LogStream
from semel.connect.connectors.postgres.settings import skipped_operations
from semel.errors import DataLoss

if TYPE_CHECKING:
    from semel.connect.connectors.postgres.selection import Selection
    from semel.connect.connectors.postgres.tables import Table, TableMaker
    from semel.serdes.schemas import Struct

__all__ = ["Changes"]

#: A poll takes no more than this.
_POLL_BYTES = 16 << 20
#: How long to wait for more of a transaction that has begun.
_REST_S = 0.02
#: Kinds of messages that change rows.
_CHANGES = frozenset(b"IUDT")


class Changes:
    """Reader of the log from a position on."""

    def __init__(
        self,
        config: Mapping[str, Any],
        stream: LogStream,
        position: Position,
        maker: TableMaker,
        selection: Selection,
        records: RecordMaker,
        overlap: Overlap | None,
    ) -> None:
        self._stream, self._maker, self._selection, self._records = stream, maker, selection, records
        self._most = config["max.batch.size"]
        self._skipped = skipped_operations(config)
        self._with_transactions = config["provide.transaction.metadata"]
        self._overlap = overlap
        self._tables: dict[int, Table | None] = {}
        self._relations: dict[int, Relation] = {}
        self.position = position
        self._resumed = position
        self._begin: Begin | None = None
        self._begin_lsn = 0
        self._index = 0
        self._last_commit: int | None = None
        self._counts: dict[str, int] = {}
        self._made: list[SourceRecord] = []
        self._offset: dict[str, Any] = {}

    @property
    def in_transaction(self) -> bool:
        """True between the begin and the commit of a transaction, also of one that was resumed and did not come yet:
        the server may say how far it is while it still decodes that one.
        """
        return self._begin is not None or self._resumed.transaction > 0

    def poll(self, wait_s: float) -> list[SourceRecord]:
        """Return the next records; none if nothing came within this time."""
        self._made, self._offset, size = [], {}, 0
        while len(self._made) < self._most and size < _POLL_BYTES:
            logged = self._stream.next(wait_s if not self._made else _REST_S if self.in_transaction else 0.0)
            if logged is None:
                break
            size += len(logged.data)
            self._take(logged)
        self._offset.update(self.position.offset())
        return self._made

    def skip_to(self, lsn: int) -> Position:
        """Move to a position to which the server has sent all; not within a transaction."""
        if lsn > self.position.lsn and not self.in_transaction:
            self.position = self._at(Position(lsn, snapshot=self.position.snapshot))
        return self.position

    def _take(self, logged: Logged) -> None:
        if logged.data[0] in _CHANGES and self._is_done(self._index + 1):
            self._index += 1
            return
        message = decode(logged.data)
        match message:
            case Change():
                if self._counted():
                    self._change(message, logged.lsn)
            case Begin():
                self._started(message, logged.lsn)
            case Commit():
                self._ended(message)
            case Relation():
                wanted = self._selection.has_table(message.schema, message.name)
                self._relations[message.oid] = message
                self._tables[message.oid] = self._maker.table(message) if wanted else None
            case Truncate():
                if self._counted():
                    self._truncate(message, logged.lsn)

    def _started(self, begin: Begin, lsn: int) -> None:
        resumed = self._resumed
        if resumed.transaction and begin.commit_lsn > resumed.transaction:
            raise DataLoss(
                f"the transaction that ends at {lsn_text(resumed.transaction)} was written in part, and is not in the"
                " log any more. Its other changes are missing. Remove the connector's offsets, and the slot, to begin"
                " with a snapshot.",
                tag="SLOT_LOST",
            )
        self._begin, self._begin_lsn, self._index = begin, lsn, 0
        self._counts = dict(resumed.counts) if begin.commit_lsn == resumed.transaction else {}
        if self._counted() and self._with_transactions:
            name = f"{begin.xid}:{lsn}"
            self._made.append(self._records.transaction("BEGIN", name, None, begin.commit_us, self._offset))

    def _counted(self) -> bool:
        """Count a message of the transaction. Return False for one that was committed before."""
        self._index += 1
        if self._is_done(self._index):
            return False
        assert self._begin is not None
        self.position = Position(
            self.position.lsn, self._begin.commit_lsn, self._index, self.position.snapshot, self._counts
        )
        return True

    def _is_done(self, index: int) -> bool:
        """Return whether a message of the transaction was committed before."""
        assert self._begin is not None
        lsn, resumed = self._begin.commit_lsn, self._resumed
        return lsn < resumed.lsn or (lsn == resumed.transaction and index <= resumed.index)

    def _ended(self, commit: Commit) -> None:
        begin = self._begin
        assert begin is not None
        if self._with_transactions and commit.commit_lsn >= self._resumed.lsn:
            name = f"{begin.xid}:{commit.end_lsn}"
            record = self._records.transaction("END", name, self._counts, begin.commit_us, self._offset)
            self._made.append(record)
        self._begin, self._last_commit = None, commit.end_lsn
        self.position = self._at(Position(max(commit.end_lsn, self.position.lsn), snapshot=self.position.snapshot))
        self._resumed = self.position

    def _at(self, position: Position) -> Position:
        """Return a position, without the snapshot once the log has passed it."""
        if position.snapshot is None or position.lsn < position.snapshot.lsn:
            return position
        self._overlap = None
        return Position(position.lsn)

    def _origin(self, lsn: int) -> Origin:
        begin = self._begin
        assert begin is not None
        last = "null" if self._last_commit is None else f'"{self._last_commit}"'
        return Origin(begin.commit_us, None, f'[{last},"{lsn}"]', begin.xid, lsn)

    def _block(self, table: Table) -> Struct | None:
        """Count a record, and return its place in the transaction."""
        if not self._with_transactions:
            return None
        assert self._begin is not None
        of_table = self._counts[table.title] = self._counts.get(table.title, 0) + 1
        return block_of(self._begin, sum(self._counts.values()), of_table, self._begin_lsn)

    def _read_before(self, table: Table, key: list[str]) -> bool:
        """Return whether the snapshot's row has this change already."""
        assert self._begin is not None
        return self._overlap is not None and self._overlap.contains(self._begin, table.title, key)

    def _change(self, change: Change, lsn: int) -> None:
        table = self._table(change)
        if table is None:
            return
        origin = self._origin(lsn)
        match change.op:
            case "I" if change.new is not None:
                if "c" not in self._skipped and not self._read_before(table, table.order_texts(change.new)):
                    block = self._block(table)
                    self._made.append(self._records.created(table, change.new, origin, self._offset, block))
            case "D" if change.old is not None:
                table.check_identity()
                self._delete(table, change, origin, None)
            case "U":
                self._update(table, change, origin)

    def _table(self, change: Change) -> Table | None:
        """Return the table of a change; None if it is not captured."""
        table = self._tables[change.relation]
        if table is None or change.new is None:
            return table
        nulls = table.unexpected_nulls(change.new)
        if nulls:  # the columns have become NOT NULL since
            table = self._tables[change.relation] = self._maker.table(self._relations[change.relation], nulls)
        return table

    def _update(self, table: Table, change: Change, origin: Origin) -> None:
        old, new = change.old, change.new
        assert new is not None
        if old is not None and change.old_is_key:
            table.check_identity()
        if old is None or table.key_schema is None or table.key(old) == table.key(new, old):
            if "u" not in self._skipped and not self._read_before(table, table.order_texts(new, old)):
                block = self._block(table)
                whole = not change.old_is_key
                self._made.append(self._records.updated(table, old, new, origin, self._offset, block, whole=whole))
            return
        if "u" in self._skipped:
            return
        self._delete(table, change, origin, table.key(new, old))
        if not self._read_before(table, table.order_texts(new, old)):
            block = self._block(table)
            self._made.append(self._records.created(table, new, origin, self._offset, block, old, table.key(old)))

    def _delete(self, table: Table, change: Change, origin: Origin, new_key: Struct | None) -> None:
        old = change.old
        assert old is not None
        if "d" in self._skipped and new_key is None:
            return
        if not self._read_before(table, table.order_texts(old)):
            self._made += self._records.deleted(table, old, origin, self._offset, self._block(table), new_key)

    def _truncate(self, truncate: Truncate, lsn: int) -> None:
        if "t" in self._skipped:
            return
        for oid in truncate.relations:
            table = self._tables.get(oid)
            begin = self._begin
            assert begin is not None
            if table is not None and not (self._overlap is not None and self._overlap.emptied(begin, table.title)):
                self._made.append(self._records.truncated(table, self._origin(lsn), self._offset, self._block(table)))
