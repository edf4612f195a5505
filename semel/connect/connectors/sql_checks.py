"""Checks of a table or query before it is read: that it is there, and that no row of it can be passed over."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from semel.connect.connectors.sql_tables import Source
from semel.errors import ConfigError
from semel.settings import NOTHING

if TYPE_CHECKING:
    from sqlalchemy import Engine

__all__ = ["check_nulls", "check_there", "late_rows"]

#: Of the sequence that gives the column its ids: how many of them each session takes at once. No row without one.
_SEQUENCE = """
    SELECT seqcache FROM pg_sequence WHERE seqrelid = CAST(pg_get_serial_sequence(:name, :column) AS regclass)
"""
_KIND = "SELECT CAST(relkind AS text) FROM pg_class WHERE oid = to_regclass(:name)"


def check_there(engine: Engine, source: Source) -> None:
    """Raise :class:`ConfigError` for a table, a column or a database that is not there."""
    import sqlalchemy as sa
    from sqlalchemy.exc import DBAPIError

    file = engine.url.database
    if engine.dialect.name == "sqlite" and file and file != ":memory:" and not Path(file).exists():
        raise ConfigError(  # SQLite would make it
            f"there is no file {file}. {NOTHING} Correct connection.url.", tag="DATABASE"
        )
    clause = source.clause()
    try:
        with engine.connect() as connection:
            connection.execute(sa.select(*clause.c).select_from(clause).limit(0))
    except DBAPIError as error:
        text = str(error.orig).splitlines()
        raise ConfigError(
            f"{source.title} cannot be read: {text[0] if text else type(error.orig).__name__}. {NOTHING} Correct the"
            " connector's properties, or the login's rights.",
            tag="DATABASE",
        ) from None


def check_nulls(engine: Engine, source: Source, mode: str) -> None:
    """Raise :class:`ConfigError` for a column of ids or times that may be null: such rows would be passed over."""
    import sqlalchemy as sa

    schema, _, name = source.table.rpartition(".")
    found = sa.inspect(engine).get_columns(name, schema=schema or None)
    columns = {str(column["name"]): column for column in found}
    times = [columns.get(column) or columns.get(column.lower()) for column in source.times]
    timed = any(there is not None and not there["nullable"] for there in times)  # one of them always says the time
    for column in (source.number,) if timed else source.columns:
        there = columns.get(column) or columns.get(column.lower())
        if there is None or not there["nullable"]:
            continue
        if there.get("primary_key") and isinstance(there["type"], sa.Integer):  # SQLite's number of the row
            continue
        raise ConfigError(
            f"column {column} of {source.title} may be null, and mode={mode} passes over rows without it. {NOTHING} (1)"
            " Make the column NOT NULL. (2) Set validate.non.null=false to leave such rows out.",
            tag="INCREMENTING" if column == source.columns[-1] and "incrementing" in mode else "TIMESTAMP",
        )


def late_rows(engine: Engine, source: Source) -> tuple[str, str] | None:
    """Return why a transaction that may still write a lower id cannot be seen, and what helps. None where all can.

    Raises :class:`ConfigError` for a replica, which does not see who writes, and for sessions that keep ids for later.
    """
    import sqlalchemy as sa

    if source.query or engine.dialect.name not in ("postgresql", "sqlite"):
        return f"{engine.dialect.name} does not report who is about to write", "Name a table of PostgreSQL or SQLite"
    if engine.dialect.name == "sqlite":
        schema, _, name = source.table.rpartition(".")
        if sa.inspect(engine).has_table(name, schema=schema or None) and name in sa.inspect(engine).get_view_names():
            return f"{source.title} is a view, to which rows may come later", "Name the table itself"
        return None
    with engine.connect() as connection:
        replica = bool(connection.execute(sa.text("SELECT pg_is_in_recovery()")).scalar())
        kind = connection.execute(sa.text(_KIND), {"name": source.quoted}).scalar()
        given = {"name": source.quoted, "column": source.columns[0]}
        cache = connection.execute(sa.text(_SEQUENCE), given).scalar() if kind in ("r", "p") else None
    if replica or (cache or 1) > 1:
        why = (
            "this server is a replica, which does not see who writes"
            if replica
            else f"each session takes {cache} ids at once, and may use a low one much later"
        )
        remedy = "Connect to the primary." if replica else "Run: ALTER SEQUENCE … CACHE 1"
        raise ConfigError(f"rows of {source.title} could be passed over: {why}. {NOTHING} {remedy}", tag="LATE_ROWS")
    if kind not in ("r", "p"):
        return f"{source.title} is no table, and its writers lock other tables", "Name the table itself"
    if cache is None:
        why = f"{source.columns[0]} of {source.title} has no sequence of its own, so ids may be given out in any order"
        return why, "Make it an identity column (or ALTER SEQUENCE … OWNED BY)"
    return None
