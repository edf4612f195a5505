"""The properties of ``PostgresCdcSource``: Debezium's names, meanings and defaults."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from semel.connect.api import Setting
from semel.errors import ConfigError
from semel.settings import NOTHING, not_yet

__all__ = ["SETTINGS", "check_settings", "skipped_operations"]

_UNUSED = "Changes nothing here."


def _unused(default: str = "") -> Setting:
    return Setting(str, default, documentation=_UNUSED)


_TEXT, _LIST = Setting(str, default=""), Setting(list, default=())
SETTINGS: Mapping[str, type | Setting] = {
    "database.hostname": Setting(str, documentation="The host of PostgreSQL."),
    "database.port": Setting(int, 5432, 1, at_most=65535),
    "database.user": Setting(str, documentation="A login with the right REPLICATION."),
    "database.password": Setting(str, "", secret=True),
    "database.dbname": Setting(str, documentation="The database."),
    "database.sslmode": Setting(
        str, "prefer", one_of=("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
    ),
    "database.sslcert": _TEXT,
    "database.sslkey": _TEXT,
    "database.sslrootcert": _TEXT,
    "database.sslpassword": Setting(str, "", secret=True),
    "database.tcpKeepAlive": Setting(bool, True),
    "topic.prefix": Setting(str, documentation="Before the names of all topics and schemas."),
    "topic.delimiter": Setting(str, "."),
    "topic.heartbeat.prefix": Setting(str, "__debezium-heartbeat"),
    "topic.transaction": Setting(str, "transaction"),
    **{f"{kind}.{side}.list": _LIST for kind in ("schema", "table", "column") for side in ("include", "exclude")},
    "message.key.columns": _TEXT,
    "plugin.name": Setting(str, "pgoutput", one_of=("pgoutput",)),
    "slot.name": Setting(str, "debezium", documentation="The replication slot. Each connector needs its own."),
    "slot.drop.on.stop": Setting(bool, False),
    "publication.name": Setting(str, "dbz_publication"),
    "publication.autocreate.mode": Setting(
        str, "all_tables", one_of=("all_tables", "filtered", "disabled", "no_tables")
    ),
    "snapshot.mode": Setting(
        str,
        "initial",
        documentation="Whether the rows that are there come first.",
        one_of=("initial", "initial_only", "no_data", "never", "when_needed", "always"),
    ),
    "snapshot.include.collection.list": _LIST,
    "snapshot.fetch.size": Setting(int, 10240, 1),
    "tombstones.on.delete": Setting(bool, True),
    "skipped.operations": Setting(list, ("t",), documentation="c, u, d, t, or none."),
    "provide.transaction.metadata": Setting(bool, False),
    "decimal.handling.mode": Setting(str, "precise", one_of=("precise", "double", "string")),
    "time.precision.mode": Setting(str, "adaptive", one_of=("adaptive", "adaptive_time_microseconds", "connect")),
    "binary.handling.mode": Setting(str, "bytes", one_of=("bytes", "base64", "base64-url-safe", "hex")),
    "interval.handling.mode": Setting(str, "numeric", one_of=("numeric", "string")),
    "hstore.handling.mode": Setting(str, "json", one_of=("json", "map")),
    "money.fraction.digits": Setting(int, 2, 0),
    "unavailable.value.placeholder": Setting(str, "__debezium_unavailable_value"),
    "include.unknown.datatypes": Setting(bool, False),
    "heartbeat.interval.ms": Setting(int, 0, 0),
    "heartbeat.action.query": _TEXT,
    "poll.interval.ms": Setting(int, 500, 1),
    "max.batch.size": Setting(int, 2048, 1),
    "max.queue.size": _unused("8192"),
    "max.queue.size.in.bytes": _unused("0"),
    "status.update.interval.ms": _unused("10000"),
    "slot.max.retries": _unused("6"),
    "slot.retry.delay.ms": _unused("10000"),
    "retriable.restart.connector.wait.ms": _unused("10000"),
    "errors.max.retries": _unused("-1"),
    "event.processing.failure.handling.mode": Setting(str, "fail", one_of=("fail",)),
    "database.query.timeout.ms": _unused("600000"),
    "database.initial.statements": _unused(),
    "snapshot.locking.mode": _unused("none"),
    "snapshot.lock.timeout.ms": _unused("10000"),
    "snapshot.max.threads": _unused("1"),
    "snapshot.delay.ms": _unused("0"),
    "schema.refresh.mode": _unused("columns_diff"),
    "schema.name.adjustment.mode": Setting(str, "none", one_of=("none",)),
    "field.name.adjustment.mode": Setting(str, "none", one_of=("none",)),
    "sanitize.field.names": Setting(bool, False),
    "extended.headers.enabled": _unused("true"),
    "flush.lsn.source": _unused("true"),
    "xmin.fetch.interval.ms": _unused("0"),
    "lsn.flush.mode": _unused("connector"),
}
_SLOT = re.compile(r"[a-z0-9_]{1,63}")
_OPERATIONS = ("c", "u", "d", "t", "none")


def check_settings(config: Mapping[str, Any]) -> None:
    """Raise an error for what contradicts itself, or would change which records arrive and is not there."""
    for one in config["skipped.operations"]:
        if one not in _OPERATIONS:
            raise ConfigError(
                f"skipped.operations={one:.100} is not one of {', '.join(_OPERATIONS)}. {NOTHING} Correct it.",
                tag="WRONG_VALUE",
            )
    for name in ("include.unknown.datatypes", "sanitize.field.names"):
        if config[name]:
            raise not_yet(f"{name}=true", "Remove it.")
    if config["slot.drop.on.stop"]:
        raise ConfigError(
            f"slot.drop.on.stop=true loses what is written while the connector is stopped. {NOTHING} Remove it.",
            tag="WRONG_VALUE",
        )
    slot = config["slot.name"]
    if not _SLOT.fullmatch(slot):
        raise ConfigError(
            f"slot.name={slot:.100} is no name of a slot. {NOTHING} Use small letters, digits and _, up to 63 of them.",
            tag="WRONG_VALUE",
        )


def skipped_operations(config: Mapping[str, Any]) -> frozenset[str]:
    """Return the operations that are passed over."""
    return frozenset(config["skipped.operations"]) - {"none"}
