"""A database with columns of many types and a script of changes: the question that Debezium and semel answer.

``LAYOUT`` and ``ROWS`` are there before a connector starts, ``SCRIPT`` runs after its snapshot. ``VARIANTS`` are the
properties of several connectors that read the same changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["LAYOUT", "ROWS", "SCRIPT", "VARIANTS", "expected", "normalised"]

LAYOUT = """
CREATE EXTENSION hstore;
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
CREATE TYPE mood AS ENUM ('sad', 'so, so', 'happy');
CREATE DOMAIN positive AS numeric(8,3) CHECK (VALUE > 0);
CREATE DOMAIN small_text AS varchar(20);
CREATE TABLE kinds (
    id serial PRIMARY KEY, a_smallint smallint, a_integer integer NOT NULL DEFAULT 7, a_bigint bigint, a_real real,
    a_double double precision, a_boolean boolean, a_text text, a_varchar varchar(20), a_char char(5), a_bytea bytea,
    a_uuid uuid, a_json json, a_jsonb jsonb, a_xml xml, a_numeric numeric, a_decimal numeric(10,2), a_whole numeric(12),
    a_money money, a_date date, a_time time, a_time3 time(3), a_timetz timetz, a_timestamp timestamp,
    a_timestamp3 timestamp(3), a_timestamptz timestamptz, an_interval interval, a_bit bit, a_bits bit(12),
    a_varbit varbit(20), an_inet inet, a_cidr cidr, a_macaddr macaddr, a_range int4range, a_tsrange tsrange,
    a_mood mood, a_hstore hstore, a_citext citext, a_ltree ltree, a_positive positive, a_small small_text, an_oid oid,
    a_point point, a_tsvector tsvector, a_name name, a_charone "char",
    ints integer[], texts text[], numerics numeric(6,2)[], times timestamp[], zoned timestamptz[], days date[],
    uuids uuid[], bools boolean[], moods mood[], floats double precision[], jsons jsonb[], varchars varchar(9)[]
);
CREATE TABLE pairs (b text, a integer, note text, big text, PRIMARY KEY (a, b));
ALTER TABLE pairs ALTER big SET STORAGE EXTERNAL;
CREATE TABLE whole (id bigint PRIMARY KEY, note text NOT NULL, big text NOT NULL);
ALTER TABLE whole ALTER big SET STORAGE EXTERNAL;
ALTER TABLE whole REPLICA IDENTITY FULL;
CREATE TABLE keyless (n integer, note text);
CREATE TABLE defaults (id int PRIMARY KEY, a int DEFAULT 5, b text NOT NULL DEFAULT 'it''s',
    c boolean NOT NULL DEFAULT true, d numeric(6,2) DEFAULT 1.50, e timestamp NOT NULL DEFAULT now(),
    f date DEFAULT '2020-02-03', g real DEFAULT 0.5,
    h uuid DEFAULT gen_random_uuid(), i timestamptz NOT NULL DEFAULT '2020-01-01 00:00:00+00', j text DEFAULT NULL,
    k bytea NOT NULL DEFAULT '\\x01', l mood NOT NULL DEFAULT 'sad', m bigint NOT NULL DEFAULT -3,
    n varchar(9) DEFAULT 'x',
    o jsonb NOT NULL DEFAULT '{}', p int NOT NULL DEFAULT 1 + 1, q text NOT NULL DEFAULT upper('a'));
CREATE TABLE evolving (id int PRIMARY KEY, one text, two int);
"""
_FULL = """
INSERT INTO kinds VALUES (DEFAULT, 1, 2, 3, 1.5, 2.25, true, 'text', 'varchar', 'char', '\\x00ff10',
    '00000000-0000-0000-0000-00000000000a', '{"b": 1,  "a": [1]}', '{"b": 1,  "a": [1]}', NULL, 123.4500, 1.50,
    -123456789012, 12.34, '2024-02-29', '01:02:03.456789', '01:02:03.456', '01:02:03.456+02',
    '2024-02-29 01:02:03.456789',
    '2024-02-29 01:02:03.456', '2024-02-29 01:02:03.456789+02', '1 year 2 mons 3 days 04:05:06.789', B'1',
    B'101010101010', B'1011', '10.0.0.1/8', '10.0.0.0/8', '08:00:2b:01:02:03', '[1,5)',
    '[2024-01-01 00:00,2024-01-02 00:00)', 'so, so', 'a=>1, b=>NULL', 'CiText', 'a.b.c', 1.125, 'small', 42, '(1.5,-2)',
    'a fat cat', 'name', 'x', '{1,NULL,3}', '{a,NULL,"b,\\"c",NULL,"NULL"}', '{1.50,NULL}',
    '{"2024-02-29 01:02:03.456789"}', '{"2024-02-29 01:02:03+02"}', '{2024-02-29}',
    '{00000000-0000-0000-0000-00000000000a}', '{t,f}', '{sad,"so, so"}', '{1.5,NULL}', ARRAY['{"a": 1}'::jsonb],
    '{v,w}');
"""
_EDGES = """
INSERT INTO kinds (a_smallint, a_bigint, a_real, a_double, a_boolean, a_text, a_bytea, a_numeric, a_decimal, a_date,
    a_time, a_timestamp, a_timestamptz, an_interval, a_bit, a_bits, a_jsonb, ints, texts, a_money, a_timetz, a_whole)
VALUES (-32768, -9223372036854775808, 'NaN', '-Infinity', false, E'\\u00e9"\\\\\\n', '', -0.000001, -99999999.99,
    '0001-01-01', '24:00:00', '1969-12-31 23:59:59.999999', '1900-01-01 00:00:00+00', '-1 day', B'0', B'000000000001',
    '[1.0, 1e3, "x"]', '{}', '{""}', -1.05, '23:59:59.999999-11:30', 0);
INSERT INTO kinds (a_real, a_double, a_date, a_timestamp, a_timestamptz, a_numeric, an_interval)
VALUES (1e10, 1.7976931348623157e308, '9999-12-31', '9999-12-31 23:59:59.999999', '9999-12-31 23:59:59+00', 1e30,
    '10 mons');
INSERT INTO kinds (a_timestamp, a_timestamptz, a_date) VALUES ('infinity', '-infinity', 'infinity');
INSERT INTO kinds (a_timestamp, a_timestamptz, a_date)
VALUES ('0044-03-15 12:00:00 BC', '0044-03-15 12:00:00+00 BC', '0044-03-15 BC');
INSERT INTO kinds (a_bits, a_varbit, a_timetz, a_timestamptz, a_hstore, a_numeric, a_point, an_interval)
VALUES (B'000000000000', B'', '01:02:03+00', '2024-01-01 00:00:00.1+00', '', 100, '(0,1e20)', '-00:00:01.5');
INSERT INTO kinds DEFAULT VALUES;
"""
ROWS = f"""
{_FULL}{_EDGES}
INSERT INTO pairs VALUES ('x', 1, 'first', repeat('b', 10000)), ('y', 1, NULL, NULL), ('a', -1, 'n', 'short');
INSERT INTO whole VALUES (1, 'w', repeat('b', 10000));
INSERT INTO keyless VALUES (1, 'one'), (1, 'one');
INSERT INTO defaults (id, e, h) VALUES (1, '2020-01-01', '00000000-0000-0000-0000-00000000000a');
INSERT INTO evolving VALUES (1, 'one', 2);
"""
#: Each is a transaction.
SCRIPT = [
    _FULL,
    *(f"{one};" for one in _EDGES.strip().rstrip(";").split(";\n")),
    "UPDATE kinds SET a_text = 'changed', a_integer = 8 WHERE id = 1",
    "DELETE FROM kinds WHERE id = 1",
    "UPDATE pairs SET note = 'second' WHERE a = 1 AND b = 'x'",
    "UPDATE pairs SET b = 'z' WHERE a = 1 AND b = 'x'",
    "UPDATE pairs SET big = 'short' WHERE a = 1 AND b = 'z'",
    "DELETE FROM pairs WHERE a = -1",
    "UPDATE whole SET note = 'v' WHERE id = 1",
    "UPDATE whole SET id = 2 WHERE id = 1",
    "DELETE FROM whole WHERE id = 2",
    "INSERT INTO keyless VALUES (2, NULL)",
    "INSERT INTO defaults (id, a, e, h, j) VALUES (2, NULL, '2020-01-01', '00000000-0000-0000-0000-00000000000a', 'j')",
    "BEGIN; INSERT INTO pairs VALUES ('t', 9, 'in one', NULL); UPDATE pairs SET note = 'of three' WHERE a = 9;"
    " INSERT INTO evolving VALUES (2, 'two', 3); COMMIT",
    "BEGIN; INSERT INTO pairs VALUES ('gone', 9, 'rolled back', NULL); ROLLBACK",
    "ALTER TABLE evolving ADD three numeric(5,1) NOT NULL DEFAULT 2.5",
    "INSERT INTO evolving VALUES (3, 'three', 4, 1.5)",
    "ALTER TABLE evolving DROP one",
    "INSERT INTO evolving VALUES (4, 5, 2.0)",
    "ALTER TABLE evolving ALTER two TYPE text",
    "INSERT INTO evolving VALUES (5, 'now text', 2.0)",
    "ALTER TABLE evolving RENAME two TO zwei",
    "UPDATE evolving SET zwei = 'renamed' WHERE id = 5",
    "TRUNCATE evolving",
    "INSERT INTO evolving VALUES (6, 'last', 1)",
]
_UNWRAP = {"transforms": "unwrap", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"}
VARIANTS: dict[str, dict[str, str]] = {
    "plain": {"provide.transaction.metadata": "false"},
    "schemas": {"value.converter.schemas.enable": "true", "key.converter.schemas.enable": "true"},
    "transactions": {
        "provide.transaction.metadata": "true",
        "table.include.list": r"public\.pairs,public\.evolving",
        "snapshot.mode": "no_data",
        "skipped.operations": "none",
    },
    "handled": {
        "decimal.handling.mode": "string",
        "time.precision.mode": "connect",
        "binary.handling.mode": "base64",
        "interval.handling.mode": "string",
        "hstore.handling.mode": "map",
        "unavailable.value.placeholder": "away",
        "tombstones.on.delete": "false",
        "table.exclude.list": "public.defaults",
        "column.exclude.list": "public.kinds.a_text,public.pairs.note",
        "message.key.columns": "public.keyless:n",
    },
    "doubles": {
        "decimal.handling.mode": "double",
        "binary.handling.mode": "hex",
        "column.include.list": r".*\.(id|a_.*)",
    },
    "unwrapped": _UNWRAP,
    "unwrapped-schemas": {**_UNWRAP, "value.converter.schemas.enable": "true", "table.include.list": "public.pairs"},
    "unwrapped-fields": {
        **_UNWRAP,
        "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
        "transforms.unwrap.add.fields": "op,lsn,source.xmin,ts_ms,transaction.id,source.txId:number",
        "transforms.unwrap.add.headers": "op,source.xmin,transaction.id",
        "provide.transaction.metadata": "true",
        "value.converter.schemas.enable": "true",
        "table.include.list": "public.pairs",
    },
    "unwrapped-rewritten": {
        **_UNWRAP,
        "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
        "transforms.unwrap.add.fields": "op,source.table:tbl,source.schema",
        "transforms.unwrap.add.headers": "op,source.db",
        "table.include.list": "public.pairs,public.whole",
    },
    "unwrapped-tombstones": {
        **_UNWRAP,
        "transforms.unwrap.delete.tombstone.handling.mode": "rewrite-with-tombstone",
        "transforms.unwrap.add.fields": "op,table",
        "transforms.unwrap.add.fields.prefix": "",
        "table.include.list": "public.pairs",
    },
    "unwrapped-dropped": {
        **_UNWRAP,
        "transforms.unwrap.delete.tombstone.handling.mode": "drop",
        "table.include.list": "public.pairs",
    },
}
#: What differs between two readings of one script.
_ADDED = ("__lsn", "__ts_ms", "__transaction_id", "__number")
_VARIES = ("ts_ms", "ts_us", "ts_ns", "lsn", "txId", "sequence", "version")


_TRANSACTION = re.compile(r"\d+:\d+")


def normalised(text: bytes | None) -> Any:
    """Return a key or a value without what differs between two readings."""
    return None if text is None else _without(json.loads(text), ())


def _without(value: Any, path: tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return [_without(one, path) for one in value]
    if not isinstance(value, Mapping):
        return value
    made = {name: _without(one, (*path, name)) for name, one in value.items()}
    if isinstance(made.get("id"), str) and _TRANSACTION.fullmatch(made["id"]):
        made["id"] = "str"
    envelope = "op" in value or (path and path[-1] == "source") or ("status" in value and "event_count" in value)
    for name in _ADDED:
        if made.get(name) is not None and not isinstance(made[name], Mapping):
            made[name] = type(made[name]).__name__
    for name in _VARIES:
        if envelope and made.get(name) is not None:
            made[name] = type(made[name]).__name__
    return made


def expected(variant: str, topic: str, rows: list[Any]) -> list[Any]:
    """Return Debezium's answers with what semel gives otherwise, on purpose: rows of a snapshot in the order of their
    keys, infinite days as the largest number, days before 1582 by PostgreSQL's calendar, values of the type ``name``.
    """
    read = [row for row in rows if _envelope(row).get("op", _envelope(row).get("__op")) == "r"]
    if topic == "public.pairs" and variant != "transactions" and not read:
        read = rows[:3]  # without their envelope
    read, others = sorted(read, key=lambda row: json.dumps(row[0])), [row for row in rows if row not in read]
    marks = [_envelope(row).get("source", {}).get("snapshot") for row in rows if row in read]
    if topic == "public.pairs" and all(marks):
        for row, mark in zip(read, marks, strict=True):
            _envelope(row)["source"]["snapshot"] = mark
    for row in (*read, *others):
        values = _envelope(row)
        after = values.get("after", values)
        if isinstance(after, dict) and "a_date" in after:
            after["a_date"] = _DAYS.get(after["a_date"], after["a_date"])
            if after.get("a_small"):
                after["a_name"] = "name"
    text = json.dumps([*read, *others])
    made: list[Any] = json.loads(
        text.replace('"default": "it"', '"default": "it\'s"')
    )  # it ends a text at its first quote
    return made


#: Debezium's infinite day, before and after its snapshot; and a day before Christ.
_DAYS = {-622191234: 2**31 - 1, -2147472692: 2**31 - 1, -703383: -735160}


def _envelope(row: list[Any]) -> dict[str, Any]:
    """Return the value of a record, without its schema."""
    value = row[1] or {}
    return value.get("payload", value) or {} if isinstance(value, dict) else {}
