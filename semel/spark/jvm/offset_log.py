"""The text of an entry of Spark's offset log, as its files have it, in Spark's versions 1 and 2.

Version 1 is a list by position, a line for each source. Version 2 is a map by position or name, of which a source that
is used twice has one key only: ``left:{"offset":10}``.
"""

from __future__ import annotations

from semel.errors import Unsupported
from semel.spark.jvm.values import OffsetLogEntry

__all__ = ["NO_OFFSET", "parse_offset_log"]

#: What Spark writes for a source that has no offset yet.
NO_OFFSET = "-"


def parse_offset_log(text: str, where: str) -> OffsetLogEntry:
    """Return the entry. Raise :class:`Unsupported` for another version; ``where`` names it."""
    version, _, rest = text.partition("\n")
    lines = rest.split("\n")[1:]  # the first one holds the watermark and settings
    if version == "v1":
        return OffsetLogEntry(1, {str(index): _offset(line) for index, line in enumerate(lines)})
    if version == "v2":
        named = (line.partition(":") for line in lines)
        return OffsetLogEntry(2, {name: _offset(offset) for name, _, offset in named})
    raise Unsupported(
        f"{where} of the checkpoint has version {version!r:.20}, and this semel knows v1 and v2. Nothing was written."
        " Use a newer semel.",
        tag="OFFSET_VERSION",
    )


def _offset(text: str) -> str | None:
    return None if text == NO_OFFSET else text
