"""Times as text, as numbers, or as timestamps, and topics named by the time of their records."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from semel.connect.transforms.base import Row, S, Side, Transform, refused
from semel.connect.transforms.record import Record
from semel.errors import ConfigError
from semel.settings import Setting

__all__ = ["TimestampConverter", "TimestampRouter"]

_UNITS = {"seconds": "s", "milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_TYPES = ("string", "unix", "Date", "Timestamp")
#: Java's SimpleDateFormat, as far as Arrow's own format has it.
_FORMAT = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "ss.SSS": "%S"}
_TOKEN = re.compile(r"'([^']*)'|(ss\.SSS|yyyy|yy|MM|dd|HH|mm|ss)|([A-Za-z]+)|(.)", re.DOTALL)


class TimestampConverter(Transform):
    """Converts one field, or the whole where ``field`` is empty. All times are UTC."""

    options: ClassVar[Mapping[str, Setting]] = {
        "field": Setting(str, default=""),
        "target.type": Setting(str, one_of=_TYPES),
        "format": Setting(str, default=""),
        "unix.precision": Setting(str, default="milliseconds", one_of=tuple(_UNITS)),
    }

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        super().__init__(options, side)
        self._target = options["target.type"].lower()
        self._unit = _UNITS[options["unix.precision"].lower()]
        if self._target == "string" and not options["format"]:
            raise ConfigError("TimestampConverter requires format for target.type=string.", tag="TRANSFORM")
        self._format, self._fraction = _read_format(options["format"])
        self._kind = {"string": pa.string(), "unix": pa.int64(), "date": pa.date32()}.get(
            self._target, pa.timestamp("ms")
        )

    def spares(self, side: Side) -> bool:
        """Return whether it is a tombstone: by a schema, a null gets the new type."""
        return side.is_tombstone

    def changed(self, side: S, row: Row) -> S:
        """Return the side with its values, or one field of them, converted. One without this field stays."""
        name = self.given["field"]
        if not name:
            return side.retyped(self._converted, self._kind)
        parts = side.parts() or self.parts(side)
        part = parts.get(name, side.null())
        if part is not None:
            parts[name] = part.retyped(self._converted, self._kind)
        return side.with_same_parts(parts)

    def _converted(self, values: Any) -> Any:
        try:
            time = self._time(values)
            if self._target == "unix":
                return time.cast(pa.timestamp(self._unit), safe=False).cast(pa.int64())
            if self._target == "date":
                return pc.floor_temporal(time, unit="day").cast(pa.date32())
            if self._target == "string":
                return pc.strftime(time if self._fraction else _seconds(time), self._format)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise refused(self.name, f"{error}") from None
        return time

    def _time(self, values: Any) -> Any:
        kind = values.type
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return values.cast(pa.timestamp("ms"), safe=False)
        if pa.types.is_time(kind):
            day = values.cast(pa.time32("ms"), safe=False).cast(pa.int32())
            return day.cast(pa.int64()).cast(pa.timestamp("ms"))
        if pa.types.is_integer(kind):
            return values.cast(pa.int64()).cast(pa.timestamp(self._unit)).cast(pa.timestamp("ms"), safe=False)
        if pa.types.is_string(kind) and self._format and not self._fraction:
            return pc.strptime(values, self._format, "s").cast(pa.timestamp("ms"))
        raise refused(self.name, f"it cannot read {kind} as a time with this format")


class TimestampRouter(Transform):
    """Names the topic by the time of the record, in UTC."""

    options: ClassVar[Mapping[str, Setting]] = {
        "topic.format": Setting(str, default="${topic}-${timestamp}"),
        "timestamp.format": Setting(str, default="yyyyMMdd"),
    }
    sided: ClassVar[bool] = False

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        super().__init__(options, side)
        self._format, self._fraction = _read_format(options["timestamp.format"])

    def change(self, record: Record) -> Record:
        """Return the record for that topic."""
        if record.timestamp is None:
            raise refused(self.name, "it has no timestamp")
        time = pa.array([record.timestamp], pa.timestamp("ms"))
        text = pc.strftime(time if self._fraction else _seconds(time), self._format)[0].as_py()
        topic = self.given["topic.format"].replace("${topic}", record.topic)
        record.topic = topic.replace("${timestamp}", text)
        return record


def _seconds(time: Any) -> Any:
    return pc.floor_temporal(time, unit="second").cast(pa.timestamp("s"))


def _read_format(text: str) -> tuple[str, bool]:
    """Arrow's format for one of Java's, and whether it has a fraction of the second."""
    made = []
    for literal, word, other, sign in _TOKEN.findall(text):
        if other:
            raise ConfigError(
                f"TimestampConverter's format has {other}, which is not there. It may have {', '.join(_FORMAT)}.",
                tag="TRANSFORM",
            )
        made.append(_FORMAT[word] if word else (literal or sign).replace("%", "%%"))
    return "".join(made), "ss.SSS" in text
