"""``ExtractNewRecordState``: the row of a change, in the place of Debezium's envelope around it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from semel.connect.transforms.base import Transform, refused
from semel.connect.transforms.record import Data, Record
from semel.errors import ConfigError
from semel.serdes.json_value import json_value
from semel.serdes.schemas import Schema, Struct
from semel.serdes.schemas.schema import Field, Type
from semel.settings import Setting

__all__ = ["ExtractNewRecordState"]

_DELETED = "__deleted"
_LIST, _PREFIX = Setting(list, default=()), Setting(str, default="__")


class _Added(NamedTuple):
    """A field of the envelope that the row, or a header, is given: its path, and its new name."""

    path: tuple[str, ...]
    name: str


class ExtractNewRecordState(Transform):
    """Replaces an envelope by its row, one by one: a delete among updates is a null. Other records pass as they are."""

    package: ClassVar[str] = "io.debezium.transforms."
    sided: ClassVar[bool] = False
    options: ClassVar[Mapping[str, Setting]] = {
        "delete.tombstone.handling.mode": Setting(
            str, default="tombstone", one_of=("drop", "tombstone", "rewrite", "rewrite-with-tombstone")
        ),
        "add.fields": _LIST,
        "add.fields.prefix": _PREFIX,
        "add.headers": _LIST,
        "add.headers.prefix": _PREFIX,
    }

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        super().__init__(options, side)
        self._mode = options["delete.tombstone.handling.mode"]
        self._fields = [_added(text, options["add.fields.prefix"]) for text in options["add.fields"]]
        self._headers = [_added(text, options["add.headers.prefix"]) for text in options["add.headers"]]
        self._schemas: dict[tuple[Schema, Schema], Schema] = {}

    def change(self, record: Record) -> Record | None:
        """Return the record with the row as its value; None if it is left out."""
        value = record.value
        if value.is_null:
            return record if self._mode == "rewrite-with-tombstone" else None
        envelope = value.value
        if not isinstance(envelope, Struct) or not (envelope.schema.name or "").endswith(".Envelope"):
            return record
        operation, before, after = (envelope[name] for name in ("op", "before", "after"))
        if operation == "t" or (operation == "d" and self._mode == "drop"):
            return None
        headers = [(one.name, _text(*_found(envelope, one))) for one in self._headers]
        record.headers = (*record.headers, *headers)
        if operation == "d" and self._mode == "tombstone":
            schema = envelope.schema.fields[0].schema
            record.value = Data(schema, None)
            return record
        row = before if operation == "d" else after
        if row is None:
            raise refused(self.name, f"its envelope of op={operation} has no row")
        record.value = self._extended(envelope, row, deleted=operation == "d")
        return record

    def _extended(self, envelope: Struct, row: Struct, *, deleted: bool) -> Data:
        """Return a row with the fields that it is given."""
        found = [(one.name, *_found(envelope, one)) for one in self._fields]
        if self._mode.startswith("rewrite"):
            found.insert(0, (_DELETED, Schema.string(optional=True), "true" if deleted else "false"))
        key = row.schema, envelope.schema
        if key not in self._schemas:
            fields = (*row.schema.fields, *(Field(name, schema) for name, schema, _ in found))
            made = Schema(Type.STRUCT, name=row.schema.name, version=row.schema.version, fields=fields)
            self._schemas[key] = made
        cells = (*row.cells, *(value for _, _, value in found))
        return Data(self._schemas[key], Struct.of_cells(self._schemas[key], cells))


def _added(text: str, prefix: str) -> _Added:
    path, _, name = text.partition(":")
    if not path:
        raise ConfigError(f"{text!r:.100} names no field.", tag="TRANSFORM")
    return _Added(tuple(path.split(".")), f"{prefix}{name or path.replace('.', '_')}")


def _found(envelope: Struct, added: _Added) -> tuple[Schema, Any]:
    """Return the schema and the value of a field: of the envelope, else of its source."""
    path = added.path if added.path[0] in envelope.schema.places else ("source", *added.path)
    schema, value = envelope.schema, envelope
    for name in path:
        field = schema.field(name)
        if field is None:
            raise refused("ExtractNewRecordState", f"there is no field {'.'.join(added.path)}")
        value = None if value is None else value.cells[schema.places[name]]
        schema = field.schema
    return schema.but(optional=True, default=None), value


def _text(schema: Schema, value: Any) -> bytes | None:
    """Return a value as a header has it: text as it is, others as JSON."""
    if value is None or isinstance(value, str):
        return None if value is None else value.encode()
    return json_value(schema, value).encode()
