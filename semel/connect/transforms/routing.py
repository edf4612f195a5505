"""Transformations that route records to another topic, or drop them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from semel.connect.transforms.base import Transform
from semel.connect.transforms.record import Record
from semel.errors import ConfigError
from semel.settings import Setting

__all__ = ["Filter", "RegexRouter"]

#: Parts of Java's replacements: an escaped sign, ``$1``, ``${name}``, text; the last is what may not be there.
_PART = re.compile(r"\\(.)|\$(\d)(\d*)|\$\{(\w+)\}|([^\\$]+)|(.)", re.DOTALL)
#: Java's spelling of a named group, where Python has ``?P<``.
_NAMED = re.compile(r"\(\?<(?![=!])")


class RegexRouter(Transform):
    """Gives another topic to what goes to topics that an expression matches as a whole."""

    options: ClassVar[Mapping[str, Setting]] = {"regex": Setting(str), "replacement": Setting(str)}
    sided: ClassVar[bool] = False

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        super().__init__(options, side)
        try:
            self._regex = re.compile(_NAMED.sub("(?P<", options["regex"]))
        except re.error as error:
            raise ConfigError(f"Invalid regex: {error}.", tag="TRANSFORM") from None
        self._replacement = _read_replacement(options["replacement"], self._regex)

    def apply(self, topic: str, table: pa.Table) -> tuple[str, pa.Table]:
        """Return the same table, for that topic."""
        return self._routed(topic), table

    def change(self, record: Record) -> Record:
        """Give that topic to a record."""
        record.topic = self._routed(record.topic)
        return record

    def _routed(self, topic: str) -> str:
        """Return the new topic. As in Java, the first match is replaced, and not the whole one."""
        found = self._regex.search(topic) if self._regex.fullmatch(topic) else None
        if found is None:
            return topic
        made = "".join(one if isinstance(one, str) else found[one[0]] or "" for one in self._replacement)
        return topic[: found.start()] + made + topic[found.end() :]


def _read_replacement(text: str, regex: re.Pattern[str]) -> list[str | tuple[int | str]]:
    """Return texts, and groups by number or name. Raise :class:`ConfigError` for a group that is not there."""
    made: list[str | tuple[int | str]] = []
    for escaped, digit, more, name, plain, wrong in _PART.findall(text):
        if wrong or (name and name not in regex.groupindex) or (digit and int(digit) > regex.groups):
            what = f"group {digit or name}, which regex has not" if digit or name else f"{wrong} with nothing after it"
            raise ConfigError(f"Invalid replacement: it has {what}.", tag="TRANSFORM")
        if digit:  # more digits belong to the number as long as there is such a group
            count = 0
            while count < len(more) and int(digit + more[: count + 1]) <= regex.groups:
                count += 1
            made += [(int(digit + more[:count]),), more[count:]]
        else:
            made.append((name,) if name else escaped or plain)
    return made


class Filter(Transform):
    """Leaves out all that its predicate chooses. Offsets of what it leaves out count."""

    sided: ClassVar[bool] = False

    def apply(self, topic: str, table: pa.Table) -> tuple[str, pa.Table]:
        """Drop the table."""
        return topic, table.slice(0, 0)

    def change(self, record: Record) -> None:
        """Drop the record."""
