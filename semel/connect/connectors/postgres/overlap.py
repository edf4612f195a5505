"""Rows that a snapshot has read, and the changes of the log that it had seen: those are passed over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from semel.connect.connectors.postgres.catalog import Catalog, PublishedTable
from semel.connect.connectors.postgres.pgoutput import Begin
from semel.connect.connectors.postgres.position import Session, SnapshotState
from semel.errors import DataLoss

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["Overlap"]


class Overlap:
    """The changes of the log that are in a snapshot's rows already."""

    def __init__(self, connection: Connection[Any], state: SnapshotState, tables: Mapping[str, PublishedTable]) -> None:
        self._connection, self._state, self._tables = connection, state, tables
        self._catalog = Catalog(connection)
        self._lsn = state.lsn
        self._by_table: dict[str, list[Session]] = {}
        self._covered: dict[tuple[str, tuple[str, ...], tuple[str, ...]], bool] = {}

    def contains(self, begin: Begin, table: str, key: list[str]) -> bool:
        """Return whether a change of a row is in what was read of the row."""
        if begin.commit_lsn > self._lsn:
            return False
        for session in self._sessions(table):
            if session.last is None or not session.last[1] or self._covers(table, session.last[1], key):
                return session.saw(begin.xid, begin.commit_lsn)
        return False

    def _sessions(self, table: str) -> list[Session]:
        if table not in self._by_table:
            self._by_table[table] = self._state.sessions_of(table)
        return self._by_table[table]

    def emptied(self, begin: Begin, table: str) -> bool:
        """Return whether a table was read after it was emptied. Raise :class:`DataLoss` if only a part of it was."""
        seen = {session.saw(begin.xid, begin.commit_lsn) for session in self._sessions(table)}
        if len(seen) > 1:
            raise DataLoss(
                f"table {table} was truncated after a part of its rows was read, and before the others were. These rows"
                " are the same to a consumer. Remove the connector's offsets, and the slot, to begin with a"
                " snapshot.",
                tag="SLOT_LOST",
            )
        return True in seen

    def _covers(self, table: str, last: list[str], key: list[str]) -> bool:
        """Return whether a key is at or before the last one of a session: in the order that PostgreSQL reads in."""
        asked = table, tuple(last), tuple(key)
        if asked not in self._covered:
            self._covered[asked] = self._compared(table, last, key)
        return self._covered[asked]

    def _compared(self, table: str, last: list[str], key: list[str]) -> bool:
        """Compare by the types and collations of the table's own columns."""
        from psycopg import sql

        published = self._tables.get(table)
        if published is None:  # it was dropped since, and no later session has read it
            return True
        columns = sql.SQL(", ").join(map(sql.Identifier, self._catalog.key(published.oid)))
        ours, theirs = (sql.SQL(", ").join(map(sql.Literal, one)) for one in (key, last))
        statement = sql.SQL(
            "SELECT ({}) <= ({}) FROM (SELECT {} FROM {} WHERE false UNION ALL SELECT {}) AS of"
        ).format(columns, theirs, columns, sql.Identifier(published.schema, published.name), ours)
        row = self._connection.execute(statement).fetchone()
        assert row is not None
        return bool(row[0])
