"""What is checked on the server before anything is read, and what is made there: the publication and the slot."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from semel.connect.connectors.postgres.catalog import Catalog, PublishedTable
from semel.connect.connectors.postgres.connection import refused_by_database
from semel.connect.connectors.postgres.position import lsn_text
from semel.connect.connectors.postgres.selection import Selection
from semel.errors import ConfigError, DataLoss
from semel.settings import NOTHING

if TYPE_CHECKING:
    from psycopg import Connection

__all__ = [
    "Slot",
    "check_identities",
    "check_rights",
    "check_server",
    "check_slot",
    "create_slot",
    "find_slot",
    "missing_publication",
    "prepare_publication",
    "published_tables",
    "warn_of_keyless",
]

log = logging.getLogger("semel.connect")

_OLDEST = 130_000
_SLOT = """
    SELECT plugin::text, database::text, active_pid, (confirmed_flush_lsn - '0/0')::int8, wal_status::text
    FROM pg_replication_slots WHERE slot_name = %s
"""
_LEAVES = """
    SELECT n.nspname::text, c.relname::text FROM pg_partition_tree(%s::regclass) t
    JOIN pg_class c ON c.oid = t.relid JOIN pg_namespace n ON n.oid = c.relnamespace WHERE t.isleaf
"""
_ALL_TABLES = """
    SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
      AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_toast%%'
    ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class Slot:
    """Replication slot: ``active_pid`` is the server's process for its reader, ``confirmed`` where the log begins."""

    plugin: str
    database: str
    active_pid: int | None
    confirmed: int
    wal_status: str


def check_server(connection: Connection[Any]) -> None:
    """Raise :class:`ConfigError` for a server that has no logical log, is too old, or is a replica."""
    version = connection.info.server_version
    if version < _OLDEST:
        raise ConfigError(
            f"PostgreSQL {version // 10000} has no pg_current_snapshot. {NOTHING} Use PostgreSQL 13 or newer.",
            tag="DATABASE",
        )
    level, replica = _row(connection, "SELECT current_setting('wal_level'), pg_is_in_recovery()")
    if level != "logical":
        raise ConfigError(
            f"PostgreSQL runs with wal_level={level}, and its log has no rows then. {NOTHING} Set wal_level=logical in"
            " postgresql.conf, and restart PostgreSQL.",
            tag="WAL_LEVEL",
        )
    if replica:
        raise ConfigError(
            f"this server is a replica, where no publication can be made. {NOTHING} Have database.hostname lead to the"
            " primary.",
            tag="DATABASE",
        )


def prepare_publication(connection: Connection[Any], config: Mapping[str, Any], selection: Selection) -> bool:
    """Make the publication, or give it the tables, as the settings say. Return whether it was there.

    Raises :class:`ConfigError` for a publication that is missing, or that this login may not make.
    """
    name, mode = config["publication.name"], config["publication.autocreate.mode"]
    exists = connection.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", [name]).fetchone() is not None
    if not exists and mode == "disabled":
        raise ConfigError(
            f"there is no publication {name}, and publication.autocreate.mode=disabled. {NOTHING} Run: CREATE"
            f" PUBLICATION {name} FOR TABLE …",
            tag="PUBLICATION",
        )
    if mode == "filtered":
        _publish(connection, name, _selected(connection, selection), exists=exists)
    elif not exists:
        _create(connection, name, "" if mode == "no_tables" else " FOR ALL TABLES")
    return exists


def published_tables(
    connection: Connection[Any], config: Mapping[str, Any], selection: Selection
) -> list[PublishedTable]:
    """Return the tables that are captured now. Raises :class:`ConfigError` for a partitioned one of which changes would
    come by the names of partitions that are not captured.
    """
    name = config["publication.name"]
    published = Catalog(connection).published(name)
    names = {(one.schema, one.name) for one in published}
    for schema, table in _selected(connection, selection):
        if (schema, table) not in names and _is_partitioned(connection, schema, table):
            leaves = connection.execute(_LEAVES, [f"{_identifier(schema)}.{_identifier(table)}"]).fetchall()
            if not all(selection.has_table(*leaf) for leaf in leaves):
                raise ConfigError(
                    f"table {schema}.{table} is partitioned, and publication {name} has its changes by the names of its"
                    f" partitions. {NOTHING} Capture the partitions too, or run: ALTER PUBLICATION {name} SET"
                    " (publish_via_partition_root = true)",
                    tag="PUBLICATION",
                )
    captured = [one for one in published if selection.has_table(one.schema, one.name)]
    if not captured:
        log.warning("publication %s has no table that is captured: nothing arrives until it has one", name)
    return captured


def _is_partitioned(connection: Connection[Any], schema: str, table: str) -> bool:
    row = connection.execute(
        "SELECT relkind = 'p' FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE nspname = %s AND relname = %s",
        [schema, table],
    ).fetchone()
    return bool(row and row[0])


def warn_of_keyless(connection: Connection[Any], tables: Sequence[PublishedTable]) -> None:
    """Name the tables that PostgreSQL refuses changes of."""
    keyless = [one.title for one in tables if not _has_identity(connection, one)]
    if keyless:
        log.warning(
            "PostgreSQL refuses UPDATE and DELETE on %s while they are published: they have no primary key, and no"
            " other replica identity. Give them one: ALTER TABLE … REPLICA IDENTITY FULL",
            ", ".join(keyless[:10]),
        )


def check_identities(connection: Connection[Any], tables: Sequence[PublishedTable]) -> None:
    """Raise :class:`ConfigError` for a table whose deletes could not be compared with the rows of a snapshot."""
    for table in tables:
        if Catalog(connection).identity_hides_key(table):
            raise ConfigError(
                f"the replica identity of table {table.title} is an index without its whole primary key, by which a"
                f" snapshot reads. {NOTHING} Run: ALTER TABLE {table.title} REPLICA IDENTITY FULL. Or use"
                " snapshot.mode=no_data.",
                tag="REPLICA_IDENTITY",
            )


def _selected(connection: Connection[Any], selection: Selection) -> list[tuple[str, str]]:
    rows = connection.execute(_ALL_TABLES).fetchall()
    return [(schema, table) for schema, table in rows if selection.has_table(schema, table)]


def _publish(connection: Connection[Any], name: str, tables: Sequence[tuple[str, str]], *, exists: bool) -> None:
    from psycopg import sql

    if not tables:
        raise ConfigError(
            f"no table is captured, and publication.autocreate.mode=filtered publishes captured tables only. {NOTHING}"
            " Correct table.include.list.",
            tag="PUBLICATION",
        )
    listed = sql.SQL(", ").join(sql.Identifier(schema, table) for schema, table in tables)
    if not exists:
        _create(connection, name, sql.SQL(" FOR TABLE {}").format(listed).as_string(connection))
        return
    published = {(one.schema, one.name) for one in Catalog(connection).published(name)}
    # none is taken away: another connector may read this publication, and would miss changes silently
    for schema, table in tables:
        if (schema, table) not in published and not _is_partitioned(connection, schema, table):
            added = sql.Identifier(schema, table).as_string(connection)
            _execute(connection, f"ALTER PUBLICATION {_identifier(name)} ADD TABLE {added}", name)


def _create(connection: Connection[Any], name: str, what: str) -> None:
    _execute(connection, f"CREATE PUBLICATION {_identifier(name)}{what}", name)


def _identifier(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def _execute(connection: Connection[Any], statement: str, name: str) -> None:
    from psycopg import errors

    try:
        connection.execute(statement.encode())
    except errors.DuplicateObject:  # another task was first
        return
    except errors.InsufficientPrivilege as error:
        raise refused_by_database(
            f"publication {name} cannot be made",
            error,
            f"Have its owner run: {statement[:200]}. Or use publication.autocreate.mode=filtered with a login that owns"
            " the tables.",
        ) from error


def _has_identity(connection: Connection[Any], table: PublishedTable) -> bool:
    if table.identity == "f":
        return True
    return table.identity != "n" and bool(Catalog(connection).key(table.oid))


def check_rights(connection: Connection[Any], tables: Sequence[PublishedTable]) -> None:
    """Raise :class:`ConfigError` for a table that this login may not read."""
    for table in tables:
        (readable,) = _row(connection, "SELECT has_table_privilege(%s::oid, 'SELECT')", table.oid)
        (usable,) = _row(connection, "SELECT has_schema_privilege(%s, 'USAGE')", table.schema)
        if not readable or not usable:
            right = "SELECT ON TABLE " + table.title if usable else "USAGE ON SCHEMA " + table.schema
            (user,) = _row(connection, "SELECT current_user::text")
            raise ConfigError(
                f"the login {user} may not read table {table.title}. {NOTHING} Run: GRANT {right} TO {user}",
                tag="DATABASE",
            )


def find_slot(connection: Connection[Any], name: str) -> Slot | None:
    """Return a slot, or None."""
    row = connection.execute(_SLOT, [name]).fetchone()
    return None if row is None else Slot(row[0], row[1], row[2], row[3] or 0, row[4] or "")


def create_slot(connection: Connection[Any], name: str) -> Slot:
    """Make the slot. It waits for the transactions that run now."""
    from psycopg import errors

    try:
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])
    except errors.DuplicateObject:  # another task was first
        pass
    except errors.InsufficientPrivilege as error:
        remedy = f"Run: ALTER ROLE {connection.info.user} REPLICATION"
        raise refused_by_database(f"slot {name} cannot be made", error, remedy) from error
    except errors.ConfigurationLimitExceeded as error:
        remedy = "Raise max_replication_slots in postgresql.conf, or drop a slot that nobody reads."
        raise refused_by_database(f"slot {name} cannot be made", error, remedy) from error
    made = find_slot(connection, name)
    assert made is not None
    return made


def check_slot(connection: Connection[Any], name: str, slot: Slot | None, lsn: int) -> None:
    """Raise :class:`DataLoss` if the slot lacks the log from a position on, :class:`ConfigError` for another's slot."""
    at = lsn_text(lsn)
    if slot is None:
        raise _missing(f"slot {name} is gone, and this connector had read up to {at}")
    database = connection.info.dbname
    if slot.plugin != "pgoutput" or slot.database != database:
        raise ConfigError(
            f"slot {name} is of {slot.plugin} in database {slot.database}, and not of pgoutput in {database}."
            f" {NOTHING} Choose another slot.name.",
            tag="SLOT",
        )
    if slot.wal_status == "lost":
        raise _missing(f"PostgreSQL has removed the log of slot {name} (max_slot_wal_keep_size), read up to {at}")
    if slot.confirmed > lsn:
        begins = lsn_text(slot.confirmed)
        raise _missing(f"slot {name} begins at {begins} now, and this connector had read up to {at}")
    (end,) = _row(connection, "SELECT (pg_current_wal_insert_lsn() - '0/0')::int8")
    if end < lsn:
        raise _missing(f"the log of this server ends at {lsn_text(end)}, and this connector had read up to {at}")


def missing_publication(name: str, lsn: int) -> DataLoss:
    """Return the error for a publication that is gone: changes that were made without it are in no log."""
    return _missing(f"publication {name} is gone, and this connector had read up to {lsn_text(lsn)}")


def _missing(what: str) -> DataLoss:
    return DataLoss(
        f"{what}. Rows in between may be missing. Nothing more was read. Remove the connector's offsets, and the slot,"
        " to begin with a snapshot.",
        tag="SLOT_LOST",
    )


def _row(connection: Connection[Any], statement: str, *values: Any) -> Any:
    row = connection.execute(statement.encode(), values).fetchone()
    assert row is not None
    return row
