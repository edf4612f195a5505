"""The name of a row that is refused: by its key, which its writer knows; by its number where it has none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["RowLabel"]

#: A key in a message is cut to this many characters.
_LONGEST = 100


@dataclass(frozen=True, slots=True)
class RowLabel:
    """Names the rows of a table of one partition. ``where`` is that partition, as in ``orders-0``."""

    rows: Any
    where: str = ""

    def __call__(self, row: int) -> str:
        """Return the words that begin a message."""
        place = f" of those for {self.where}" if self.where else ""
        key = self.rows.column("key")[row].as_py() if "key" in self.rows.schema.names else None
        if key is None:
            return f"row {row}{f'{place} (the first is 0)' if place else ''}"
        text = key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else str(key)
        return f"the row with key {text[:_LONGEST]!r}{'...' if len(text) > _LONGEST else ''}{place}"
