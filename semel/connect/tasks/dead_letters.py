"""Records that could not be converted, as text for the dead-letter topic. They are in the transaction of their poll.

Key and value are written as Python shows them: most have no bytes, since converting them failed. The headers are those
of Kafka Connect's own dead letters. One that is too large for that topic too has its headers alone, whether they were
asked for or not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from semel.connect.settings.connector_config import ConnectorConfig
from semel.errors import ConfigError
from semel.records.dead_letters import dead_letter, shown
from semel.serdes.text import as_bytes

__all__ = ["dead_letters"]

Refusal = Callable[[pa.Table], ConfigError | None]


def dead_letters(
    letters: Sequence[tuple[str, Any, ConfigError]],
    config: ConnectorConfig,
    task: int,
    refusal: Refusal,
) -> pa.Table:
    """Return a table of them. ``refusal`` says why the dead-letter topic would refuse rows."""
    return pa.concat_tables(_letter(letter, config, task, refusal) for letter in letters)


def _letter(
    letter: tuple[str, Any, ConfigError],
    config: ConnectorConfig,
    task: int,
    refusal: Refusal,
) -> pa.Table:
    topic, part, error = letter
    record = part[0] if isinstance(part, list) else None
    key = shown(record.key if record is not None else _first(part, "key"))
    value = shown(record.value if record is not None else _first(part, "value"))
    context = {
        "__connect.errors.topic": topic,
        "__connect.errors.connector.name": config.name,
        "__connect.errors.task.id": str(task),
        "__connect.errors.exception.class.name": f"{type(error).__name__}.{error.tag}",
        "__connect.errors.exception.message": error.message,
    }
    made = dead_letter(key, value, context if config.dead_letter_headers else {})
    return made if refusal(made) is None else dead_letter(None, None, context)


def _first(table: pa.Table, name: str) -> Any:
    if name not in table.schema.names:
        return None
    column = table.column(name)
    # a source's text may be none
    return (as_bytes(column) if column.type in (pa.string(), pa.large_string()) else column)[0].as_py()
