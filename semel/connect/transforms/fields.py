"""Fields of structs: put in, left out, renamed, masked, taken out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from semel.connect.transforms.base import Column, Transform, parted, put, refused, struct_of, whole
from semel.errors import ConfigError
from semel.settings import Setting

__all__ = ["ExtractField", "HoistField", "InsertField", "MaskField", "ReplaceField", "ValueToKey"]

_Options = Mapping[str, Setting]
_TEXT, _LIST = Setting(str, default=None), Setting(list, default=())


class InsertField(Transform):
    """Puts in the topic, the partition, the timestamp, or a fixed text. A source's record has no offset yet."""

    options: ClassVar[_Options] = {
        "topic.field": _TEXT,
        "partition.field": _TEXT,
        "timestamp.field": _TEXT,
        "static.field": _TEXT,
        "static.value": _TEXT,
    }

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        super().__init__(options, side)
        if not any(options.get(name) for name in ("topic.field", "partition.field", "timestamp.field", "static.field")):
            raise ConfigError("No field insertion configured.", tag="TRANSFORM")
        if bool(options.get("static.field")) != bool(options.get("static.value")):
            raise ConfigError("static.field and static.value must be given together.", tag="TRANSFORM")

    def changed(self, column: Column, topic: str, table: pa.Table) -> Column:
        """Return the struct with the new fields after its own."""
        fields, given, rows = parted(column, self.name), self.given, len(column.values)
        new: dict[str, Callable[[], Any]] = {
            "topic.field": lambda: pa.repeat(topic, rows),
            "partition.field": lambda: _column(table, "partition", pa.int32()),
            "timestamp.field": lambda: _column(table, "timestamp", pa.timestamp("ms")),
            "static.field": lambda: pa.repeat(given["static.value"], rows),
        }
        for name, make in new.items():
            if given.get(name):
                mark = given[name][-1]
                field = given[name][:-1] if mark in "!?" else given[name]
                fields[field] = Column(make(), nullable=mark != "!")
        return struct_of(fields, column)


def _column(table: pa.Table, name: str, kind: Any) -> Any:
    if name in table.schema.names:
        return whole(table.column(name)).cast(kind)
    return pa.nulls(table.num_rows, kind)


class ReplaceField(Transform):
    """Leaves fields out, keeps only some, or renames them."""

    options: ClassVar[_Options] = {"exclude": _LIST, "include": _LIST, "renames": _LIST}

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        super().__init__(options, side)
        pairs = [pair.partition(":") for pair in options["renames"]]
        if any(not old or not new for old, _, new in pairs):
            raise ConfigError("renames must be pairs old:new.", tag="TRANSFORM")
        self._renames = {old: new for old, _, new in pairs}

    def changed(self, column: Column, topic: str, table: pa.Table) -> Column:
        """Return the struct with the remaining fields."""
        include, exclude = self.given["include"], self.given["exclude"]
        kept = {
            self._renames.get(name, name): values
            for name, values in parted(column, self.name).items()
            if name not in exclude and (not include or name in include)
        }
        return struct_of(kept, column)


class MaskField(Transform):
    """Puts nothing, or a text, in the place of values."""

    options: ClassVar[_Options] = {"fields": Setting(list), "replacement": _TEXT}

    def changed(self, column: Column, topic: str, table: pa.Table) -> Column:
        """Return the struct with masked fields. Nulls stay."""
        fields = parted(column, self.name)
        for name in self.given["fields"]:
            if name in fields:
                fields[name] = fields[name]._replace(values=self._masked(fields[name].values, name))
        return struct_of(fields, column)

    def _masked(self, values: Any, name: str) -> Any:
        replacement = self.given.get("replacement")
        kind = values.type
        if values.null_count == len(values):
            return values
        try:
            if replacement is not None:
                mask = pa.scalar(replacement).cast(kind)
            elif kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary()):
                mask = pa.scalar("").cast(kind)
            else:
                mask = pa.scalar(0).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise refused(self.name, f"field {name} is {kind}, and cannot be masked so") from None
        return pc.if_else(values.is_null(), pa.scalar(None, kind), mask)


class ExtractField(Transform):
    """Takes one field out of the struct, and puts it in its place."""

    options: ClassVar[_Options] = {"field": Setting(str)}

    def changed(self, column: Column, topic: str, table: pa.Table) -> Column:
        """Return the field's values."""
        fields = parted(column, self.name)
        if self.given["field"] not in fields:
            raise refused(self.name, f"unknown field: {self.given['field']}")
        return fields[self.given["field"]]


class HoistField(Transform):
    """Makes a struct with one field of what was there, of a null too."""

    options: ClassVar[_Options] = {"field": Setting(str)}
    spares_nulls: ClassVar[bool] = False

    def changed(self, column: Column, topic: str, table: pa.Table) -> Column:
        """Return the column as a struct with one field."""
        field = pa.field(self.given["field"], column.values.type, nullable=column.nullable)
        return Column(pa.StructArray.from_arrays([column.values], fields=[field]), nullable=False)


class ValueToKey(Transform):
    """Makes a key of fields of the value."""

    options: ClassVar[_Options] = {"fields": Setting(list)}
    sided: ClassVar[bool] = False

    def apply(self, topic: str, table: pa.Table) -> tuple[str, pa.Table]:
        """Return the table with a key. Rows without a value have none."""
        column = Column(whole(table.column("value")), nullable=False)
        if column.values.null_count == len(column.values):
            return topic, put(table, "key", Column(pa.nulls(table.num_rows)))
        fields = parted(column, self.name)
        missing = [name for name in self.given["fields"] if name not in fields]
        if missing:
            raise refused(self.name, f"field does not exist: {missing[0]}")
        return topic, put(table, "key", struct_of({name: fields[name] for name in self.given["fields"]}, column))
