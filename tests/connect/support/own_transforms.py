"""A transformation and a predicate as a user writes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from semel.connect import Data, Predicate, Record, Setting, Struct, Transform


class Shout(Transform):
    """Puts a field into capital letters."""

    options: ClassVar[Mapping[str, Setting]] = {"field": Setting(str)}

    def change(self, record: Record) -> Record:
        field, schema, value = self.given["field"], record.value.schema, record.value.value
        if schema is None:
            record.value = Data(None, {**value, field: value[field].upper() + "!"})
            return record
        cells = [value[one.name] if one.name != field else value[field].upper() + "!" for one in schema.fields]
        record.value = Data(schema, Struct.of_cells(schema, tuple(cells)))
        return record


class Above(Predicate):
    """Chooses records whose id is above a limit."""

    options: ClassVar[Mapping[str, Setting]] = {"limit": Setting(int)}

    def chooses(self, record: Record) -> bool:
        return bool(record.value.value["id"] > self.given["limit"])
