"""Transformations that route records to another topic, or drop them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from semel.connect.api import Setting
from semel.connect.transforms.base import Transform
from semel.errors import ConfigError

__all__ = ["Filter", "RegexRouter"]

#: Java's groups: $1, and ${name}.
_GROUP = re.compile(r"\$(?:\{(\w+)\}|(\d))")


class RegexRouter(Transform):
    """Gives another topic to what goes to topics that an expression matches as a whole."""

    options: ClassVar[Mapping[str, Setting]] = {"regex": Setting(str), "replacement": Setting(str)}
    sided: ClassVar[bool] = False

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        super().__init__(options, side)
        try:
            self._regex = re.compile(options["regex"])
        except re.error as error:
            raise ConfigError(f"Invalid regex: {error}.", tag="TRANSFORM") from None
        self._replacement = _GROUP.sub(lambda found: rf"\g<{found[1] or found[2]}>", options["replacement"])

    def apply(self, topic: str, table: pa.Table) -> tuple[str, pa.Table]:
        """Return the same table, for that topic."""
        found = self._regex.fullmatch(topic)
        return (found.expand(self._replacement) if found else topic), table


class Filter(Transform):
    """Leaves out all that its predicate chooses. Offsets of what it leaves out count."""

    sided: ClassVar[bool] = False

    def apply(self, topic: str, table: pa.Table) -> tuple[str, pa.Table]:
        """Drop the table."""
        return topic, table.slice(0, 0)
