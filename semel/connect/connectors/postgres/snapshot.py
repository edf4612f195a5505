"""Rows of the tables as they are, in the order of their keys, from one state of the database.

A session is one transaction (REPEATABLE READ), and locks its tables against TRUNCATE and ALTER TABLE. A session that
begins after a crash sees a later state, and reads the rows after the last key that was written. What a row's session
had seen is passed over in the log (:mod:`~semel.connect.connectors.postgres.position`).

A session waits for transactions that ran when it began to look: one that is in the log before the slot begins, and that
other sessions do not see yet, would be in neither.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from semel.connect.connectors.postgres.catalog import Catalog, PublishedTable
from semel.connect.connectors.postgres.connection import Address
from semel.connect.connectors.postgres.pgoutput import Cell
from semel.connect.connectors.postgres.position import Session, SnapshotState
from semel.connect.connectors.postgres.tables import Table, TableMaker
from semel.errors import Retriable

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["Rows", "SnapshotReader"]

_OID = """
    SELECT c.oid::int8 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = %s AND c.relname = %s
"""
#: How long the server may take to write its log to disk: by itself it does every 15 s at the latest.
_FLUSH_S = 60.0
_LOOK_S = 0.05
_FIRST, _FIRST_OF_TABLE, _LAST_OF_TABLE, _LAST = (
    "first",
    "first_in_data_collection",
    "last_in_data_collection",
    "last",
)


class Rows(NamedTuple):
    """Rows of one table, each with its mark, and the state once they are written."""

    table: Table
    rows: Sequence[tuple[str, Sequence[Cell]]]
    state: SnapshotState


class SnapshotReader:
    """Reader of a snapshot, from a state of it on."""

    def __init__(
        self, address: Address, maker: TableMaker, tables: Sequence[PublishedTable], state: SnapshotState | None
    ) -> None:
        self._maker = maker
        self._address = address
        self._connection: Connection[Any] = address.open()
        self._catalog = Catalog(self._connection)
        names = tuple(one.title for one in tables) if state is None else state.tables
        there = {one.title: one for one in tables}
        self._tables = {name: there[name] for name in names if name in there}
        self._before = state.cut() if state is not None else ()
        self._names, self._at = names, state.at if state is not None else None
        self._running = self._snapshot_text().split(":")[2]
        self._state: SnapshotState | None = None
        self._left = [name for name in self._tables if not self._is_read(name)]
        self._cursor: _TableCursor | None = None
        self._any = False

    def _is_read(self, name: str) -> bool:
        """Return whether all rows of a table were read before. A table that is read to its end has no last key."""
        if self._at is None:
            return False
        place, at = self._names.index(name), self._names.index(self._at[0])
        return place < at or (place == at and not self._at[1])

    def _snapshot_text(self) -> str:
        return str(self._one("SELECT pg_current_snapshot()::text"))

    def _one(self, statement: str) -> Any:
        row = self._connection.execute(statement.encode()).fetchone()
        assert row is not None
        return row[0]

    @property
    def lsn(self) -> int:
        """The position in the log that its session has."""
        return 0 if self._state is None else self._state.sessions[-1].lsn

    def next(self, count: int) -> Rows | None:
        """Return the next rows, all of a table without a key; None while it waits, and once all are read."""
        if self._state is None and not self._began():
            return None
        return self._read(count)

    @property
    def state(self) -> SnapshotState | None:
        """The state of all that was read; None while it waits."""
        return self._state

    def _began(self) -> bool:
        """Begin the session. Return False while a transaction runs that must end before."""
        from psycopg import sql

        self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        for table in (self._tables[name] for name in self._left):
            one = sql.Identifier(table.schema, table.name)
            self._connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(one))
        seen = self._snapshot_text()
        if set(filter(None, seen.split(":")[2].split(","))) & set(self._running.split(",")):
            self._connection.execute("ROLLBACK")
            return False
        for table in (self._tables[name] for name in self._left):
            self._check_same(table)
        lsn = int(self._one("SELECT (pg_current_wal_insert_lsn() - '0/0')::int8"))
        self._await_flushed(lsn)
        self._state = SnapshotState(self._names, (*self._before, Session(seen, lsn)), self._at)
        return True

    def _check_same(self, table: PublishedTable) -> None:
        """Raise :class:`Retriable` if a table was dropped and made again before it was locked: it has other columns."""
        row = self._connection.execute(_OID, [table.schema, table.name]).fetchone()
        if row is None or row[0] != table.oid:
            raise Retriable(
                f"table {table.title} was made again while its snapshot began. Nothing of it was read. The task starts"
                " again.",
                tag="DATABASE",
            )

    def _await_flushed(self, lsn: int) -> None:
        """Wait until what this session has seen is on the server's disk. If the server died before, it would give the
        numbers of those transactions to others, and their changes would be passed over.
        """
        from psycopg import Error

        with closing(self._address.open()) as connection, suppress(Error):
            # a commit that is flushed flushes all before it; where the login may not, the server does it in seconds
            connection.execute("SET synchronous_commit = on")
            connection.execute("SELECT pg_logical_emit_message(true, 'semel', '')")
        deadline = time.monotonic() + _FLUSH_S
        while int(self._one("SELECT (pg_current_wal_flush_lsn() - '0/0')::int8")) < lsn:
            if time.monotonic() > deadline:
                raise Retriable(
                    f"PostgreSQL has not written its log to disk within {_FLUSH_S:.0f} s. Nothing was read. The task"
                    " starts again.",
                    tag="DATABASE",
                )
            time.sleep(_LOOK_S)

    def _read(self, count: int) -> Rows | None:
        assert self._state is not None
        while self._left:
            if self._cursor is None:
                table = self._tables[self._left[0]]
                after = self._at[1] if self._at is not None and self._at[0] == table.title else None
                self._cursor = _TableCursor(self._connection, self._catalog, self._maker, table, after)
            cursor = self._cursor
            rows, ended = cursor.rows(count)
            if ended:
                self._left.pop(0)
                self._cursor = None
            if rows:
                at = (cursor.title, cursor.key(rows[-1]) if not ended else [])
                self._state = replace(self._state, at=at, done=not self._left)
                return Rows(cursor.table, self._marked(rows, cursor, ended=ended), self._state)
        self._state = replace(self._state, done=True)
        return None

    def _marked(
        self, rows: Sequence[Sequence[Cell]], cursor: _TableCursor, *, ended: bool
    ) -> list[tuple[str, Sequence[Cell]]]:
        """Return the rows, the first and the last ones marked as Debezium marks them."""
        marks = ["true"] * len(rows)
        if cursor.is_first:
            marks[0], cursor.is_first = _FIRST_OF_TABLE if self._any else _FIRST, False
            self._any = True
        if ended and marks[-1] != _FIRST:
            marks[-1] = _LAST_OF_TABLE if self._left else _LAST
        return list(zip(marks, rows, strict=True))

    def close(self) -> None:
        """End the session."""
        self._connection.close()


class _TableCursor:
    """Rows of one table."""

    def __init__(
        self,
        connection: Connection[Any],
        catalog: Catalog,
        maker: TableMaker,
        published: PublishedTable,
        after: list[str] | None,
    ) -> None:
        from psycopg import sql

        self._connection = connection
        relation = catalog.relation(published)
        self.title, self.table = published.title, maker.table(relation)
        names = [one.name for one in relation.columns]
        key = catalog.key(published.oid)
        self._order = key if set(key) <= set(names) else []  # resumed by a whole key alone
        self._places = [names.index(name) for name in self._order]
        self.is_first = after is None
        self._ahead: list[list[Cell]] = []
        self._ended = False
        listed, order = (
            sql.SQL(", ").join(map(sql.Identifier, some)) if some else sql.SQL("") for some in (names, self._order)
        )
        whole = sql.SQL("{}{}").format(
            sql.SQL("" if published.kind == "p" else "ONLY "), sql.Identifier(published.schema, published.name)
        )
        conditions: list[sql.Composable] = [sql.SQL(f"({published.row_filter})")] if published.row_filter else []
        if after:
            values = sql.SQL(", ").join(map(sql.Literal, after))
            conditions.append(sql.SQL("({}) > ({})").format(order, values))
        where = sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(conditions)) if conditions else sql.SQL("")
        by = sql.SQL(" ORDER BY {}").format(order) if self._order else sql.SQL("")
        connection.execute(
            sql.SQL("DECLARE semel_rows NO SCROLL CURSOR FOR SELECT {} FROM {}{}{}").format(listed, whole, where, by)
        )

    def key(self, cells: Sequence[Cell]) -> list[str]:
        """Return the key of a row as texts."""
        return [str(cells[place]) for place in self._places]

    def rows(self, count: int) -> tuple[list[list[Cell]], bool]:
        """Return so many rows, or all without a key, and whether these are the last ones."""
        wanted = count if self._order else None
        while not self._ended and (wanted is None or len(self._ahead) <= wanted):
            more = self._fetch(count)
            self._ahead += more
            if len(more) < count:
                self._connection.execute("CLOSE semel_rows")
                self._ended = True
        if wanted is None:
            wanted = len(self._ahead)
        rows, self._ahead = self._ahead[:wanted], self._ahead[wanted:]
        return rows, self._ended and not self._ahead

    def _fetch(self, count: int) -> list[list[Cell]]:
        """Return the next rows as PostgreSQL's texts."""
        result = self._connection.execute(f"FETCH {count} FROM semel_rows".encode()).pgresult
        assert result is not None
        columns = range(result.nfields)
        return [
            [None if (cell := result.get_value(row, column)) is None else cell.decode() for column in columns]
            for row in range(result.ntuples)
        ]
