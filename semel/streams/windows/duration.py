"""Durations: ``"5 min"`` as milliseconds."""

from __future__ import annotations

import re
from typing import Any

from semel.errors import ConfigError

__all__ = ["milliseconds"]

_UNITS = {"ms": 1, "s": 1_000, "sec": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(\d+)\s*([a-z]+)")


def milliseconds(given: Any, name: str) -> int:
    """Parse a duration: milliseconds, or a text such as ``"5 min"``. Raise :class:`ConfigError` for anything else."""
    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    match = _DURATION.fullmatch(str(given).strip())
    if match is None or match[2] not in _UNITS:
        raise ConfigError(
            f'the {name} {given!r} is no duration. Nothing was read. Give milliseconds, or a text such as "500 ms",'
            ' "30 s", "5 min", "1 h".',
            tag="WRONG_VALUE",
        )
    return int(match[1]) * _UNITS[match[2]]
