"""Records that could not be converted, as text for the dead-letter topic. They are in the transaction of their poll.

They have no bytes, since converting them failed: key and value are written as Python shows them. The headers are those
of Kafka Connect's own dead letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from semel.connect.connector_config import ConnectorConfig
from semel.errors import ConfigError
from semel.records.record_headers import HEADERS

__all__ = ["dead_letters"]


def dead_letters(letters: Sequence[tuple[str, Any, ConfigError]], config: ConnectorConfig, task: int) -> pa.Table:
    """A table of them."""
    keys, values, headers = [], [], []
    for topic, part, error in letters:
        record = part[0] if isinstance(part, list) else None
        row = {} if record is not None else part.to_pylist()[0]
        keys.append(_shown(record.key if record is not None else row.get("key")))
        values.append(_shown(record.value if record is not None else row.get("value")))
        told = {
            "__connect.errors.topic": topic,
            "__connect.errors.connector.name": config.name,
            "__connect.errors.task.id": str(task),
            "__connect.errors.exception.class.name": f"{type(error).__name__}.{error.tag}",
            "__connect.errors.exception.message": error.message,
        }
        headers.append([{"key": name, "value": value.encode(errors="replace")} for name, value in told.items()])
    made = pa.table({"key": pa.array(keys, pa.binary()), "value": pa.array(values, pa.binary())})
    return made.append_column("headers", pa.array(headers, HEADERS)) if config.dead_letter_headers else made


def _shown(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(value).encode(errors="replace")
