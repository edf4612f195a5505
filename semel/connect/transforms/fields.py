"""Fields of structures: put in, left out, renamed, masked, taken out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pyarrow as pa

from semel.connect.transforms.base import Row, S, Side, Transform, refused
from semel.connect.transforms.columns import Column, TableRow, column_of, put
from semel.connect.transforms.record import Record
from semel.errors import ConfigError
from semel.serdes.schemas import Schema
from semel.settings import Setting

__all__ = ["ExtractField", "Flatten", "HoistField", "InsertField", "MaskField", "ReplaceField", "ValueToKey"]

_Options = Mapping[str, Setting]
_TEXT, _LIST = Setting(str, default=None), Setting(list, default=())


class InsertField(Transform):
    """Puts in the topic, the partition, the offset, the timestamp, or a fixed text. A source's record has no offset."""

    options: ClassVar[_Options] = {
        "topic.field": _TEXT,
        "partition.field": _TEXT,
        "offset.field": _TEXT,
        "timestamp.field": _TEXT,
        "static.field": _TEXT,
        "static.value": _TEXT,
    }

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        super().__init__(options, side)
        new = ("topic.field", "partition.field", "offset.field", "timestamp.field", "static.field")
        if not any(options.get(name) for name in new):
            raise ConfigError("No field insertion configured.", tag="TRANSFORM")
        if bool(options.get("static.field")) != bool(options.get("static.value")):
            raise ConfigError("static.field and static.value must be given together.", tag="TRANSFORM")
        self._new = {name: _named(options[name]) for name in new if options.get(name)}

    def changed(self, side: S, row: Row) -> S:
        """Return the structure with the new fields after its own."""
        parts = self.parts(side)
        for option, (name, optional) in self._new.items():
            made = side.constant(_SCHEMAS[option][optional], self._value(option, row))
            if made is not None:
                self.check_new(side, name, parts)
                parts[name] = made
        return side.with_parts(parts)

    def _value(self, option: str, row: Row) -> Any:
        match option:
            case "topic.field":
                return row.topic
            case "partition.field":
                return row.partition
            case "offset.field":
                if row.offset is None:
                    raise refused(self.name, "offset.field is for sinks, and a source's record has no offset yet")
                return row.offset
            case "timestamp.field":
                return row.timestamp
            case _:
                return self.given["static.value"]


#: By option, and by whether the field is optional.
_SCHEMAS: Mapping[str, Mapping[bool, Schema]] = {
    option: {True: schema.but(optional=True), False: schema}
    for option, schema in {
        "topic.field": Schema.string(),
        "partition.field": Schema.int32(),
        "offset.field": Schema.int64(),
        "timestamp.field": Schema.timestamp(),
        "static.field": Schema.string(),
    }.items()
}


def _named(field: str) -> tuple[str, bool]:
    """Return the name, and whether the field is optional: it is, unless its mark is ``!``."""
    return (field[:-1] if field[-1] in "!?" else field), field[-1] != "!"


class ReplaceField(Transform):
    """Leaves fields out, keeps only some, or renames them."""

    options: ClassVar[_Options] = {"exclude": _LIST, "include": _LIST, "renames": _LIST}

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        super().__init__(options, side)
        pairs = [pair.partition(":") for pair in options["renames"]]
        if any(not old or not new for old, _, new in pairs):
            raise ConfigError("renames must be pairs old:new.", tag="TRANSFORM")
        self._renames = {old: new for old, _, new in pairs}

    def changed(self, side: S, row: Row) -> S:
        """Return the structure with the remaining fields."""
        include, exclude = self.given["include"], self.given["exclude"]
        kept: dict[str, S] = {}
        for name, part in self.parts(side).items():
            if name not in exclude and (not include or name in include):
                new = self._renames.get(name, name)
                self.check_new(side, new, kept)
                kept[new] = part
        return side.with_parts(kept)


class MaskField(Transform):
    """Puts nothing, or a text, in the place of values."""

    options: ClassVar[_Options] = {"fields": Setting(list), "replacement": _TEXT}

    def spares(self, side: Side) -> bool:
        """Return whether it is a tombstone."""
        return side.is_tombstone

    def changed(self, side: S, row: Row) -> S:
        """Return the structure with masked fields. Nulls stay."""
        parts = self.parts(side)
        for name in self.given["fields"]:
            part = parts.get(name, side.null())
            if part is None:
                continue
            masked = part.masked(self.given.get("replacement"))
            if masked is None:
                raise refused(self.name, f"field {name} is {part}, and cannot be masked so")
            parts[name] = masked
        return side.with_same_parts(parts)


class ExtractField(Transform):
    """Takes one field out of the structure, and puts it in its place."""

    options: ClassVar[_Options] = {"field": Setting(str)}

    def spares(self, side: Side) -> bool:
        """Return whether it is a tombstone: by a schema, a null is a null of the field."""
        return side.is_tombstone

    def changed(self, side: S, row: Row) -> S:
        """Return the field's value."""
        part = (side.parts() or self.parts(side)).get(self.given["field"], side.null())
        if part is None:
            raise refused(self.name, f"unknown field: {self.given['field']}")
        return part


class Flatten(Transform):
    """Takes the fields of inner structures into the outer one, by names with a delimiter. Lists stay as they are."""

    options: ClassVar[_Options] = {"delimiter": Setting(str, default=".")}

    def changed(self, side: S, row: Row) -> S:
        """Return the flat structure."""
        flat: dict[str, S] = {}
        for name, part in self._flat(self.parts(side), "", optional=side.is_optional):
            self.check_new(side, name, flat)
            flat[name] = part
        return side.with_parts(flat)

    def _flat(self, parts: Mapping[str, S], prefix: str, *, optional: bool) -> Iterator[tuple[str, S]]:
        for name, part in parts.items():
            inner = part.parts()
            if inner is None:
                if part.is_map:
                    raise refused(self.name, f"field {prefix}{name} is a map, and only structs are flattened")
                yield f"{prefix}{name}", part.optional() if optional else part
                continue
            below = optional or part.is_optional
            yield from self._flat(inner, f"{prefix}{name}{self.given['delimiter']}", optional=below)


class HoistField(Transform):
    """Makes a structure with one field of what was there, of a null too."""

    options: ClassVar[_Options] = {"field": Setting(str)}

    def spares(self, side: Side) -> bool:
        """Return False: nulls are hoisted."""
        return False

    def changed(self, side: S, row: Row) -> S:
        """Return a structure with one field."""
        return side.hoisted(self.given["field"])


class ValueToKey(Transform):
    """Makes a key of fields of the value."""

    options: ClassVar[_Options] = {"fields": Setting(list)}
    sided: ClassVar[bool] = False

    def apply(self, topic: str, table: pa.Table) -> tuple[str, pa.Table]:
        """Return the table with a key. Rows without a value have none."""
        column = column_of(table, "value")
        if column.is_tombstone:
            nulls = pa.nulls(table.num_rows)
            return topic, put(table, "key", Column(nulls, pa.field("key", nulls.type)))
        return topic, put(table, "key", self.changed(column, TableRow(topic, table)))

    def change(self, record: Record) -> Record:
        """Return the record with a key. One without a value has none."""
        record.key = record.value if record.value.is_tombstone else self.changed(record.value, record)
        return record

    def changed(self, side: S, row: Row) -> S:
        """Return the key."""
        parts, key = self.parts(side), {}
        for name in self.given["fields"]:
            part = parts.get(name, side.null())
            if part is None:
                raise refused(self.name, f"field does not exist: {name}")
            key[name] = part
        return side.new(key)
