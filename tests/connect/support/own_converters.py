"""A converter as a user writes it: fields with semicolons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from semel.connect import Converter, Schema, Setting

ROW = Schema.struct({"id": Schema.int32(), "name": Schema.string()})


class Semicolons(Converter):
    options: ClassVar[Mapping[str, Setting]] = {"separator": Setting(str, ";")}

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        return str(self.given["separator"]).join(f"{value[name]}" for name in ("id", "name")).encode()

    def to_connect_data(self, topic: str, data: bytes) -> tuple[Schema | None, Any]:
        number, name = data.decode().split(self.given["separator"])
        return ROW, {"id": int(number), "name": name}
