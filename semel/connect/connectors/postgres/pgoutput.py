"""Messages of ``pgoutput``, version 1 of its protocol: bytes to tuples.

A row is a list of texts: ``None`` is a null, and :data:`UNCHANGED` a long value that the change did not touch and that
PostgreSQL therefore does not repeat.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple

__all__ = [
    "UNCHANGED",
    "Begin",
    "Cell",
    "Change",
    "Commit",
    "LogicalMessage",
    "Message",
    "Relation",
    "RelationColumn",
    "Truncate",
    "decode",
]


class _Unchanged(Enum):
    UNCHANGED = 0


UNCHANGED: Final = _Unchanged.UNCHANGED
Cell = str | None | _Unchanged
_Row = list[Cell]

#: Microseconds from 1970 to 2000, where PostgreSQL's clock begins.
_EPOCH_US = 946_684_800_000_000
_BEGIN, _COMMIT = struct.Struct(">QqI"), struct.Struct(">BQQq")
_U16, _U32, _I32 = struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">i")


class Begin(NamedTuple):
    """Start of a transaction: where its commit is in the log, when it was, and its number."""

    commit_lsn: int
    commit_us: int
    xid: int


class Commit(NamedTuple):
    """End of a transaction: where its commit is in the log, and where the log continues after it."""

    commit_lsn: int
    end_lsn: int


class RelationColumn(NamedTuple):
    """Column of a table as it was when it was changed."""

    name: str
    is_key: bool
    type_oid: int
    modifier: int


class Relation(NamedTuple):
    """Table as it was when it was changed. ``identity`` is that of pg_class.relreplident."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


class Change(NamedTuple):
    """Change of a row: ``I``, ``U`` or ``D``. ``old_is_key`` says that the old row has its key alone."""

    op: str
    relation: int
    old: _Row | None
    new: _Row | None
    old_is_key: bool


class Truncate(NamedTuple):
    """Tables that were emptied."""

    relations: tuple[int, ...]


class LogicalMessage(NamedTuple):
    """A message that a program put into the log."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


Message = Begin | Commit | Relation | Change | Truncate | LogicalMessage | None


def decode(data: bytes) -> Message:
    """Return a message; None for one that says nothing of rows. Raise ``ValueError`` for one of an unknown kind."""
    read = _READ.get(data[0])
    if read is None:
        raise ValueError(f"pgoutput sent a message of the unknown kind {data[:1]!r}")
    return read(data)


def _begin(data: bytes) -> Begin:
    lsn, moment, xid = _BEGIN.unpack_from(data, 1)
    return Begin(lsn, moment + _EPOCH_US, xid)


def _commit(data: bytes) -> Commit:
    _, lsn, end, _ = _COMMIT.unpack_from(data, 1)
    return Commit(lsn, end)


def _relation(data: bytes) -> Relation:
    (oid,) = _U32.unpack_from(data, 1)
    schema, at = _text(data, 5)
    name, at = _text(data, at)
    identity = chr(data[at])
    (count,) = _U16.unpack_from(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        is_key = bool(data[at] & 1)
        column, at = _text(data, at + 1)
        (kind,) = _U32.unpack_from(data, at)
        (modifier,) = _I32.unpack_from(data, at + 4)
        columns.append(RelationColumn(column, is_key, kind, modifier))
        at += 8
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _insert(data: bytes) -> Change:
    return Change("I", _U32.unpack_from(data, 1)[0], None, _row(data, 6)[0], False)


def _update(data: bytes) -> Change:
    old, at, kind = None, 6, data[5]
    if kind != _NEW:
        old, at = _row(data, 6)
        at += 1
    return Change("U", _U32.unpack_from(data, 1)[0], old, _row(data, at)[0], kind == _KEY)


def _delete(data: bytes) -> Change:
    return Change("D", _U32.unpack_from(data, 1)[0], _row(data, 6)[0], None, data[5] == _KEY)


def _truncate(data: bytes) -> Truncate:
    (count,) = _U32.unpack_from(data, 1)
    return Truncate(struct.unpack_from(f">{count}I", data, 6))


def _logical_message(data: bytes) -> LogicalMessage:
    (lsn,) = struct.unpack_from(">Q", data, 2)
    prefix, at = _text(data, 10)
    return LogicalMessage(bool(data[1] & 1), lsn, prefix, data[at + 4 :])


def _nothing(_: bytes) -> None:
    """Return None: where a row was first written, and the names of types, are not needed."""


_NEW, _KEY = ord("N"), ord("K")
_NULL, _SAME = ord("n"), ord("u")


def _row(data: bytes, at: int) -> tuple[_Row, int]:
    (count,) = _U16.unpack_from(data, at)
    at += 2
    cells: _Row = []
    for _ in range(count):
        kind = data[at]
        if kind == _NULL:
            cells.append(None)
            at += 1
        elif kind == _SAME:
            cells.append(UNCHANGED)
            at += 1
        else:
            end = at + 5 + _U32.unpack_from(data, at + 1)[0]
            cells.append(data[at + 5 : end].decode())
            at = end
    return cells, at


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


_READ: Mapping[int, Callable[[bytes], Message]] = MappingProxyType(
    {
        ord("B"): _begin,
        ord("C"): _commit,
        ord("R"): _relation,
        ord("I"): _insert,
        ord("U"): _update,
        ord("D"): _delete,
        ord("T"): _truncate,
        ord("M"): _logical_message,
        ord("O"): _nothing,
        ord("Y"): _nothing,
    }
)
