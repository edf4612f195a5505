"""Questions to the catalog of PostgreSQL: tables, columns, keys, types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from semel.connect.connectors.postgres.pgoutput import Relation, RelationColumn
from semel.connect.connectors.postgres.types import PgType

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = ["Catalog", "ColumnFacts", "PublishedTable"]

_TYPE = """
    SELECT typname::text, typtype::text, typcategory::text, typelem::int8, typbasetype::int8, typtypmod,
           ARRAY(SELECT enumlabel::text FROM pg_enum WHERE enumtypid = t.oid ORDER BY enumsortorder)
    FROM pg_type t WHERE oid = %s
"""
_COLUMNS = """
    SELECT attname::text, atttypid::int8, atttypmod, attnotnull, pg_get_expr(adbin, adrelid)
    FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
    WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
"""
#: The primary key's columns in their order, then those of the index that is the replica identity.
_KEYS = """
    SELECT indisprimary, ARRAY(
        SELECT attname::text FROM unnest(indkey) WITH ORDINALITY AS of(number, place)
        JOIN pg_attribute ON attrelid = indrelid AND attnum = number WHERE place <= indnkeyatts ORDER BY place)
    FROM pg_index WHERE indrelid = %s AND (indisprimary OR indisreplident) ORDER BY indisprimary DESC
"""
_PUBLISHED = """
    SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relreplident::text, c.relkind::text,
           p.attnames::text[], p.rowfilter
    FROM pg_publication_tables p
    JOIN pg_namespace n ON n.nspname = p.schemaname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
    WHERE p.pubname = %s ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
"""
#: Before version 15, publications have neither lists of columns nor filters of rows.
_PUBLISHED_WHOLE = _PUBLISHED.replace("p.attnames::text[], p.rowfilter", "NULL, NULL")


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """Facts of a column that the log does not say."""

    not_null: bool
    default: str | None


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """Table of a publication: all of it, or some columns, or the rows of a filter."""

    oid: int
    schema: str
    name: str
    identity: str
    kind: str
    columns: tuple[str, ...]
    row_filter: str

    @property
    def title(self) -> str:
        """Its name with its schema."""
        return f"{self.schema}.{self.name}"


class Catalog:
    """Catalog of one database."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._types: dict[int, PgType] = {}

    def type(self, oid: int) -> PgType:
        """Return a type. One that was dropped since is read as text."""
        if oid not in self._types:
            row = self._connection.execute(_TYPE, [oid]).fetchone()
            self._types[oid] = PgType(oid, "text", "b", "S", 0, 0, -1) if row is None else _type(oid, row)
        return self._types[oid]

    def forget(self) -> None:
        """Ask again for types: the labels of an enum may have changed."""
        self._types.clear()

    def columns(self, oid: int) -> dict[str, ColumnFacts]:
        """Return the columns of a table as it is now; none of a table that was dropped."""
        rows = self._connection.execute(_COLUMNS, [oid]).fetchall()
        return {name: ColumnFacts(not_null, default) for name, _, _, not_null, default in rows}

    def relation(self, table: PublishedTable) -> Relation:
        """Return a table as the log would describe it now."""
        rows = self._connection.execute(_COLUMNS, [table.oid]).fetchall()
        columns = tuple(
            RelationColumn(name, False, kind, modifier)
            for name, kind, modifier, _, _ in rows
            if not table.columns or name in table.columns
        )
        return Relation(table.oid, table.schema, table.name, table.identity, columns)

    def key(self, oid: int) -> list[str]:
        """Return the columns of the primary key, else of the index that is the replica identity, else none."""
        row = self._connection.execute(_KEYS, [oid]).fetchone()
        return list(row[1]) if row else []

    def identity_hides_key(self, table: PublishedTable) -> bool:
        """Return whether the replica identity is an index that lacks a column of the primary key."""
        keys = [set(columns) for _, columns in self._connection.execute(_KEYS, [table.oid]).fetchall()]
        return table.identity == "i" and len(keys) > 1 and not keys[0] <= keys[1]

    def published(self, publication: str) -> list[PublishedTable]:
        """Return the tables of a publication, by their names."""
        statement = _PUBLISHED if self._connection.info.server_version >= 150_000 else _PUBLISHED_WHOLE
        rows = self._connection.execute(statement, [publication]).fetchall()
        return [
            PublishedTable(oid, schema, name, identity, kind, tuple(columns or ()), row_filter or "")
            for oid, schema, name, identity, kind, columns, row_filter in rows
        ]


def _type(oid: int, row: Sequence[Any]) -> PgType:
    name, kind, category, element, base, modifier, labels = row
    return PgType(oid, name, kind, category, element, base, modifier, tuple(labels))
