"""Names of records and fields: Avro takes letters, digits and underscores."""

from __future__ import annotations

import re
from urllib.parse import quote_plus

from semel.serdes.avro.options import AvroOptions
from semel.serdes.unfit import Mismatch

__all__ = ["NAMESPACE", "field_name", "full_name"]

NAMESPACE = "io.confluent.connect.avro"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def field_name(name: str, options: AvroOptions) -> str:
    """Return the name of a field. Raise :class:`Mismatch` for one that Avro does not take."""
    return _checked(_scrubbed(name) if options.scrub_names else name)


def full_name(name: str, options: AvroOptions) -> tuple[str | None, str]:
    """Return the namespace, if there is one, and the name of a record."""
    space, _, last = name.rpartition(".")
    if options.scrub_names:
        space, last = ".".join(map(_scrubbed, space.split("."))), _scrubbed(last)
    for part in space.split(".") if space else ():
        _checked(part)
    return space or None, _checked(last)


def _scrubbed(name: str) -> str:
    """Return a name as Confluent scrubs it."""
    if not name or _NAME.fullmatch(name):
        return name
    quoted = quote_plus(name, safe="*-._").replace("~", "%7E")
    quoted = f"x{quoted}" if quoted[0].isdigit() else quoted
    return re.sub(r"[^A-Za-z0-9_]", "_", quoted)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Mismatch(
            f"has a schema with the name {name!r:.60}, which Avro does not take; scrub.invalid.names may help"
        )
    return name
