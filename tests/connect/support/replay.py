"""Changes that are replayed, each checked against those before: nothing lost, nothing doubled, nothing out of order."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

__all__ = ["replayed"]

_Row = tuple[bytes | None, bytes | None]


def replayed(records: Iterable[_Row], version: str = "version") -> dict[str, dict[str, Any]]:
    """Return the rows that are left, by their keys. Each update must raise the ``version`` of its row by one.

    Raises :class:`AssertionError` for a change that does not follow from those before.
    """
    rows: dict[str, dict[str, Any]] = {}
    read: set[str] = set()
    gone: str | None = None
    for key_bytes, value in records:
        key = (key_bytes or b"").decode()
        if value is None:
            assert key == gone, f"a tombstone of {key} without its delete"
            continue
        envelope = json.loads(value)
        operation, after = envelope["op"], envelope["after"]
        if operation == "r":
            assert key not in read, f"{key} was read twice"
            assert key not in rows, f"{key} was read after a change of it"
            read.add(key)
            rows[key] = after
        elif operation == "c":
            assert key not in rows, f"{key} was created twice: {rows[key]}, {after}"
            rows[key] = after
        elif operation == "u":
            assert key in rows, f"{key} was changed and was not there: {after}"
            assert after[version] == rows[key][version] + 1, f"{key}: {rows[key]} became {after}"
            rows[key] = after
        else:
            assert operation == "d", operation
            assert key in rows, f"{key} was deleted and was not there"
            del rows[key]
            gone = key
    return rows
