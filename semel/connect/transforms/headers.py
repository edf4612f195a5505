"""Headers put in, taken out, or made of fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

import pyarrow as pa

from semel.connect.transforms.base import Transform, refused
from semel.connect.transforms.record import Data, Record
from semel.connect.transforms.schemas import header_text
from semel.errors import ConfigError
from semel.records.record_headers import Headers, header_pairs, headers_column
from semel.serdes.java_value import java_number
from semel.settings import Setting

__all__ = ["DropHeaders", "HeaderFrom", "InsertHeader"]

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")


class _HeaderTransform(Transform):
    """Changes the headers alone."""

    sided: ClassVar[bool] = False

    def apply(self, topic: str, table: pa.Table) -> tuple[str, pa.Table]:
        """Change the headers of a table. One without them has no column for them."""
        there = "headers" in table.schema.names
        rows: Sequence[Any] = table["headers"].to_pylist() if there else [()] * table.num_rows
        made = [self.headers(header_pairs(row)) for row in rows]
        column = headers_column(made)
        if there:
            return topic, table.set_column(table.schema.get_field_index("headers"), "headers", column)
        return topic, table.append_column("headers", column) if any(made) else table

    def change(self, record: Record) -> Record:
        """Change the headers of one record."""
        record.headers = self.headers(record.headers)
        return record

    def headers(self, headers: Headers) -> Headers:
        """Return the changed headers."""
        raise NotImplementedError


class InsertHeader(_HeaderTransform):
    """Adds one header, the same for all records: a text, or a number as Kafka Connect reads and writes it."""

    options: ClassVar[Mapping[str, Setting]] = {"header": Setting(str), "value.literal": Setting(str)}

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        super().__init__(options, side)
        self._added = options["header"], _literal(options["value.literal"].strip())

    def headers(self, headers: Headers) -> Headers:
        """Return them with one more."""
        return [*headers, self._added]


def _literal(text: str) -> bytes | None:
    """Return a literal as a header has it. Raise :class:`ConfigError` for a number that Kafka would write otherwise."""
    try:
        number = Decimal(text) if _NUMBER.fullmatch(text) else None
    except InvalidOperation:
        number = None
    if number is None:
        return None if text == "null" else text.encode()
    written = str(int(number)) if number == int(number) else java_number(float(number), 32)
    if number != Decimal(written):
        raise ConfigError(f"value.literal is {text:.100}, a number that Kafka rounds to {written}.", tag="TRANSFORM")
    return written.encode()


class DropHeaders(_HeaderTransform):
    """Takes headers out by their names."""

    options: ClassVar[Mapping[str, Setting]] = {"headers": Setting(list)}

    def headers(self, headers: Headers) -> Headers:
        """Return the others."""
        return [one for one in headers if one[0] not in self.given["headers"]]


class HeaderFrom(Transform):
    """Moves fields into headers, or copies them there, as text."""

    options: ClassVar[Mapping[str, Setting]] = {
        "fields": Setting(list),
        "headers": Setting(list),
        "operation": Setting(str, one_of=("move", "copy")),
        "replace.null.with.default": Setting(bool, default=True),
    }

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        super().__init__(options, side)
        if len(options["fields"]) != len(options["headers"]):
            raise ConfigError("fields and headers must be as many as each other.", tag="TRANSFORM")
        self._names = list(zip(options["fields"], options["headers"], strict=True))

    def change(self, record: Record) -> Record:
        """Return the record with these headers."""
        side: Data = getattr(record, self.side)
        if side.is_tombstone:
            return record
        parts, added = self.parts(side), []
        for field, name in self._names:
            part = parts.get(field, side.null())
            if part is None:
                raise refused(self.name, f"field does not exist: {field}")
            added.append((name, header_text(part.schema, part.value)))
        record.headers = [*record.headers, *added]
        if self.given["operation"].lower() == "move":
            kept = {name: part for name, part in parts.items() if name not in self.given["fields"]}
            setattr(record, self.side, side.with_parts(kept))
        return record
