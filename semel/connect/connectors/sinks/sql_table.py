"""One table of a target: found, made or extended as its settings allow, and written to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from semel.connect.connectors.sinks.refused_records import RecordRefused
from semel.connect.connectors.sinks.sql_columns import Column, Columns
from semel.database.dialects import dialect_of
from semel.errors import ConfigError

__all__ = ["TargetTable"]

#: The decimal digits that a number of SQLite keeps.
_EXACT = 15


def _parameter(number: int) -> str:
    """Return the name of a value in a statement, which no column has."""
    return f"semel_value_{number}"


class TargetTable:
    """A table, by its name with or without a schema."""

    def __init__(self, engine: Engine, name: str, config: Mapping[str, Any]) -> None:
        self._engine, self._config, self._title = engine, config, name
        self._dialect = dialect_of(engine)
        schema, _, table = name.rpartition(".")
        self._quote = config["quote.sql.identifiers"].lower() == "always"
        self._schema, self._name = (self._named(schema) if schema else None), self._named(table)
        #: The types of its columns.
        self._there: dict[str, Any] = {}

    def fit(self, columns: Columns, *, deleted: bool) -> bool:
        """Make the table, or add columns, where that is allowed. Return False if it need not be there: no row of a
        table that is not made yet can be deleted.

        Raise :class:`ConfigError` where it is not allowed.
        """
        wanted = [*columns.keys, *columns.others]
        if self._there.keys() >= {self._compared(one.name) for one in wanted}:
            return True
        self._there = self._columns()
        if not self._there and deleted and self._config["auto.create"]:
            return False
        if not self._there:
            self._create(columns)
        missing = [one for one in wanted if self._compared(one.name) not in self._there]
        if missing:
            self._add(missing)
        return True

    def write(self, connection: Connection, columns: Columns, *, deleted: bool) -> None:
        """Insert, upsert, update or delete rows, in their order."""
        used = columns.keys if deleted else [*columns.keys, *columns.others]
        statement = self._deletion(columns.keys) if deleted else self._statement(columns)
        rows = list(zip(*(self._values(one) for one in used), strict=True))
        names, size = [_parameter(number) for number in range(len(used))], self._config["batch.size"]
        for start in range(0, len(rows), size):
            part = [dict(zip(names, row, strict=True)) for row in rows[start : start + size]]
            connection.execute(statement, part)

    # ---- statements

    def _statement(self, columns: Columns) -> Any:
        used = [*columns.keys, *columns.others]
        table, mode = self._table(used), self._config["insert.mode"].lower()
        given = {
            name: self._bound(number, one) for number, (name, one) in enumerate(zip(table.c.keys(), used, strict=True))
        }
        others = [one.name for one in columns.others]
        if mode == "update":
            changed = {name: given[name] for name in others}
            return (
                sa.update(table).where(*(table.c[one.name] == given[one.name] for one in columns.keys)).values(changed)
            )
        made = self._dialect.insert(table).values(given)
        if mode == "insert":
            return made
        keys = [table.c[one.name] for one in columns.keys]
        if not others:
            return made.on_conflict_do_nothing(index_elements=keys)
        return made.on_conflict_do_update(index_elements=keys, set_={name: made.excluded[name] for name in others})

    def _deletion(self, keys: Sequence[Column]) -> Any:
        table = self._table(keys)
        return sa.delete(table).where(
            *(table.c[one.name] == self._bound(number, one) for number, one in enumerate(keys))
        )

    def _values(self, column: Column) -> list[Any]:
        if self._engine.dialect.name != "sqlite" or type(column.kind) is not sa.Numeric:
            return list(column.values.to_pylist())
        texts = list(column.values.cast("string").to_pylist())  # its driver takes no decimals
        if not isinstance(self._there[self._compared(column.name)], sa.String):
            long = (row for row, one in enumerate(texts) if one is not None and sum(map(str.isdigit, one)) > _EXACT)
            row = next(long, None)
            if row is not None:
                raise RecordRefused(
                    f"column {column.name:.90} of {self._title:.90} would round a number of more than {_EXACT} digits",
                    f"Make it a column of TEXT: SQLite's numbers have {_EXACT} digits.",
                    row,
                )
        return texts

    def _bound(self, number: int, column: Column) -> Any:
        kind = column.kind
        if self._engine.dialect.name == "sqlite" and type(kind) is sa.Numeric:
            kind = sa.Text()
        return sa.bindparam(_parameter(number), type_=kind)

    def _table(self, columns: Sequence[Column]) -> sa.Table:
        made = [sa.Column(self._named(one.name), one.kind, nullable=one.nullable) for one in columns]
        return sa.Table(self._name, sa.MetaData(), *made, schema=self._schema)

    def _named(self, name: str) -> sa.quoted_name:
        return sa.quoted_name(name, self._quote)

    # ---- definitions

    def _columns(self) -> dict[str, Any]:
        inspector = sa.inspect(self._engine)
        if not inspector.has_table(self._name, schema=self._schema):
            return {}
        found = inspector.get_columns(self._name, schema=self._schema)
        return {self._compared(str(one["name"])): one["type"] for one in found}

    def _compared(self, name: str) -> str:
        """Return a name as it is compared: without quotes a database does not tell its cases apart."""
        return name if self._quote else name.lower()

    def _create(self, columns: Columns) -> None:
        if not self._config["auto.create"]:
            raise ConfigError(
                f"table {self._title} is missing, and auto.create=false. Nothing of this batch was written. Create it,"
                " or set auto.create=true.",
                tag="SINK_TABLE",
            )
        keys = [
            sa.Column(self._named(one.name), one.kind, primary_key=True, autoincrement=False) for one in columns.keys
        ]
        others = [sa.Column(self._named(one.name), one.kind, nullable=one.nullable) for one in columns.others]
        table = sa.Table(self._name, sa.MetaData(), *keys, *others, schema=self._schema)
        self._define(sa.schema.CreateTable(table))

    def _add(self, missing: Sequence[Column]) -> None:
        names = ", ".join(one.name for one in missing)
        if not self._config["auto.evolve"] or not all(one.nullable for one in missing):
            why = "a new column must be optional" if self._config["auto.evolve"] else "auto.evolve=false"
            raise ConfigError(
                f"table {self._title} lacks the columns {names:.200}, and {why}. Nothing of this batch was written. Add"
                " them, or set auto.evolve=true.",
                tag="SINK_TABLE",
            )
        preparer = self._engine.dialect.identifier_preparer
        table = preparer.format_table(self._table(missing))
        for one in missing:
            kind = one.kind.compile(self._engine.dialect)
            self._define(sa.text(f"ALTER TABLE {table} ADD COLUMN {preparer.quote(self._named(one.name))} {kind}"))

    def _define(self, statement: Any) -> None:
        """Change the definition, before the rows' transaction. Another task may have done the same."""
        before = self._there
        try:
            with self._engine.begin() as connection:
                connection.execute(statement)
        except DBAPIError:
            self._there = self._columns()
            if self._there.keys() == before.keys():
                raise
        self._there = self._columns()
