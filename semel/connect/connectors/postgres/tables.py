"""Tables as their records have them: topic, key, envelope, columns.

The log says the names and types of columns as they were at a change. The catalog says the rest as it is now: which
column may be null, its default, the key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semel.connect.connectors.postgres.catalog import Catalog, ColumnFacts
from semel.connect.connectors.postgres.pgoutput import UNCHANGED, Cell, Relation
from semel.connect.connectors.postgres.selection import Selection
from semel.connect.connectors.postgres.types import Forms, Kind, kind_of, unreadable
from semel.errors import ConfigError
from semel.serdes.schemas import Schema, Struct
from semel.serdes.schemas.schema import Field, Type

__all__ = ["SOURCE", "TRANSACTION_BLOCK", "Table", "TableMaker"]

_MARKS = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
_SOURCE_NAME = "io.debezium.connector.postgresql.Source"
_LONG, _TEXT = Schema.int64(optional=True), Schema.string()
SOURCE = Schema.struct(
    {
        "version": _TEXT,
        "connector": _TEXT,
        "name": _TEXT,
        "ts_ms": Schema.int64(),
        "snapshot": Schema.string(
            optional=True, default="false", name="io.debezium.data.Enum", version=1, parameters={"allowed": _MARKS}
        ),
        "db": _TEXT,
        "sequence": Schema.string(optional=True),
        "ts_us": _LONG,
        "ts_ns": _LONG,
        "schema": _TEXT,
        "table": _TEXT,
        "txId": _LONG,
        "lsn": _LONG,
        "xmin": _LONG,
        "origin": Schema.string(optional=True),
        "origin_lsn": _LONG,
    },
    name=_SOURCE_NAME,
    version=1,
)
TRANSACTION_BLOCK = Schema.struct(
    {"id": _TEXT, "total_order": Schema.int64(), "data_collection_order": Schema.int64()},
    name="event.block",
    version=1,
    optional=True,
)
_LITERAL = re.compile(r"'((?:[^']|'')*)'(?:::.*)?", re.DOTALL)
_NUMBER = re.compile(r"\(?(-?[0-9][0-9.eE+-]*)\)?(?:::.*)?")
_CALL = re.compile(r'[\w."]+\(.*\)(?:::.*)?|CURRENT_\w+|LOCAL\w+', re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Column:
    """Captured column. ``place`` is its position in the rows of the log."""

    name: str
    place: int
    kind: Kind
    optional: bool
    default: Any

    @property
    def blank(self) -> Any:
        """The value in the place of a null that may not be: of columns that a replica identity leaves out."""
        return self.kind.blank if self.default is None else self.default


@dataclass(frozen=True, slots=True)
class Table:
    """Table with the schemas of its records. Without ``key_columns``, its records have no key."""

    schema: str
    name: str
    topic: str
    identity: str
    columns: tuple[_Column, ...]
    key_columns: tuple[_Column, ...]
    order_places: tuple[int, ...]
    required: tuple[_Column, ...]
    hidden_keys: tuple[str, ...]
    key_schema: Schema | None
    value_schema: Schema
    envelope: Schema

    @property
    def title(self) -> str:
        """Its name with its schema."""
        return f"{self.schema}.{self.name}"

    def row(self, cells: Sequence[Cell], old: Sequence[Cell] | None = None) -> Struct:
        """Return a row. An ``old`` one has values that the new one does not repeat."""
        return Struct.of_cells(self.value_schema, tuple(self._value(one, cells, old) for one in self.columns))

    def key(self, cells: Sequence[Cell], old: Sequence[Cell] | None = None) -> Struct | None:
        """Return the key of a row."""
        if self.key_schema is None:
            return None
        return Struct.of_cells(self.key_schema, tuple(self._value(one, cells, old) for one in self.key_columns))

    def order_texts(self, cells: Sequence[Cell], old: Sequence[Cell] | None = None) -> list[str]:
        """Return the key by which a snapshot reads the table, as PostgreSQL's texts."""
        texts = (
            cells[place] if cells[place] is not UNCHANGED or old is None else old[place] for place in self.order_places
        )
        return [str(one) for one in texts]

    def unexpected_nulls(self, cells: Sequence[Cell]) -> frozenset[str]:
        """Return the columns that have a null in a new row, and may have none by now."""
        return frozenset(one.name for one in self.required if cells[one.place] is None)

    def check_identity(self) -> None:
        """Raise :class:`ConfigError` if the old row of a change lacks a column of the key."""
        if self.hidden_keys:
            raise ConfigError(
                f"the replica identity of table {self.title} hides the old {', '.join(self.hidden_keys)}, which its"
                f" records have in their key. Nothing of this transaction is visible. Run: ALTER TABLE {self.title}"
                " REPLICA IDENTITY FULL, and let the change pass with skipped.operations, or snapshot again.",
                tag="REPLICA_IDENTITY",
            )

    def _value(self, column: _Column, cells: Sequence[Cell], old: Sequence[Cell] | None) -> Any:
        cell = cells[column.place]
        if cell is UNCHANGED and old is not None and old[column.place] is not None:
            cell = old[column.place]
        if cell is None:
            return None if column.optional else column.blank
        if cell is UNCHANGED:
            if column.kind.unavailable is None:
                raise unreadable(
                    f"column {column.name} of {self.title}", "PostgreSQL does not repeat its long value (TOAST)"
                )
            return column.kind.unavailable
        try:
            return column.kind.read(str(cell))
        except (ValueError, ArithmeticError) as error:
            raise unreadable(f"column {column.name} of {self.title}", f"{error!s:.150}") from None


class TableMaker:
    """Maker of tables by a connector's configuration."""

    def __init__(self, config: Mapping[str, Any], catalog: Catalog, selection: Selection) -> None:
        self._prefix, self._catalog, self._selection = config["topic.prefix"], catalog, selection
        self._delimiter = config["topic.delimiter"]
        self._forms = Forms.of(config)

    def table(self, relation: Relation, nullable: Collection[str] = ()) -> Table:
        """Return a table as the log describes it. ``nullable`` columns may be null, whatever the catalog says."""
        self._catalog.forget()
        facts, kinds = self._catalog.columns(relation.oid), {}
        for place, column in enumerate(relation.columns):
            kind = kind_of(self._catalog.type(column.type_oid), column.modifier, self._forms, self._catalog.type)
            if kind is not None:
                known = None if column.name in nullable else facts.get(column.name)
                kinds[column.name] = _column(column.name, place, kind, known)
        title = f"{relation.schema}.{relation.name}"
        order = self._order(relation)
        names = self._selection.message_key(relation.schema, relation.name) or order
        key = tuple(kinds[name] for name in names if name in kinds)
        shown = tuple(one for one in kinds.values() if self._selection.has_column(title, one.name))
        topic = self._delimiter.join((self._prefix, relation.schema, relation.name))
        full = f"{self._prefix}.{title}"
        value = Schema(Type.STRUCT, optional=True, name=f"{full}.Value", fields=_fields(shown))
        identity_columns = {one.name for one in relation.columns if one.is_key}
        hidden = [one.name for one in key if identity_columns and one.name not in identity_columns]
        return Table(
            relation.schema,
            relation.name,
            topic,
            relation.identity,
            shown,
            key,
            tuple(kinds[name].place for name in order) if set(order) <= kinds.keys() else (),
            tuple(one for one in kinds.values() if not one.optional),
            tuple(hidden),
            Schema(Type.STRUCT, name=f"{full}.Key", fields=_fields(key)) if key else None,
            value,
            _envelope(f"{full}.Envelope", value),
        )

    def _order(self, relation: Relation) -> list[str]:
        """Return the columns of the key: by their names at the change, which the catalog may no longer have."""
        order = self._catalog.key(relation.oid)
        at_change = [one.name for one in relation.columns if one.is_key]
        return at_change if relation.identity == "d" and at_change and set(at_change) != set(order) else order


def _column(name: str, place: int, kind: Kind, facts: ColumnFacts | None) -> _Column:
    """Return a column. One that was dropped since may be null."""
    if facts is None:
        return _Column(name, place, kind, True, None)
    default = None if facts.default is None else _default(facts.default, kind)
    return _Column(name, place, kind, not facts.not_null, default)


def _fields(columns: Sequence[_Column]) -> tuple[Field, ...]:
    return tuple(Field(one.name, one.kind.schema.but(optional=one.optional, default=one.default)) for one in columns)


def _default(text: str, kind: Kind) -> Any:
    """Return the default of a column, as Debezium has it: a constant, or zero for what a function gives."""
    if kind.schema.type in (Type.BYTES, Type.ARRAY) and kind.schema.logical is None:
        return None
    try:
        literal = _LITERAL.fullmatch(text)
        if literal is not None:
            return kind.read(literal[1].replace("''", "'"))
        number = _NUMBER.fullmatch(text)
        if number is not None:
            return kind.read(number[1])
    except (ValueError, ArithmeticError, IndexError):
        return None
    if text in ("true", "false"):
        return text == "true"
    return kind.blank if _CALL.fullmatch(text) else None


def _envelope(name: str, value: Schema) -> Schema:
    long = Schema.int64(optional=True)
    fields = {
        "before": value,
        "after": value,
        "source": SOURCE,
        "transaction": TRANSACTION_BLOCK,
        "op": Schema.string(),
        "ts_ms": long,
        "ts_us": long,
        "ts_ns": long,
    }
    return Schema.struct(fields, name=name, version=2)
