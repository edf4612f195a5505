"""The offsets in the body of ``PATCH /connectors/{name}/offsets`` (KIP-875)."""

from __future__ import annotations

from typing import Any

from semel.errors import ConfigError
from semel.web.calls import BadBody, Call

__all__ = ["given_offsets"]

_BODY = "ConnectorOffsets"


def given_offsets(call: Call) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """Return each partition with its offset. Raise :class:`BadBody`, or :class:`ConfigError` if there are none."""
    given = call.object(_BODY, ("offsets",)).get("offsets")
    if not (given is None or isinstance(given, list)):
        raise BadBody(f"Cannot deserialize value of type `List` from the field offsets (class {_BODY})")
    if not given:
        raise ConfigError("Partitions / offsets need to be provided for an alter offsets request.", tag="REQUEST")
    return [_offset(one) for one in given]


def _offset(given: object) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    if not isinstance(given, dict) or not given.keys() <= {"partition", "offset"}:
        raise BadBody(f"An entry of offsets has other fields than partition and offset (class {_BODY})")
    partition, offset = given.get("partition"), given.get("offset")
    if not (partition is None or isinstance(partition, dict)) or not (offset is None or isinstance(offset, dict)):
        raise BadBody(f"partition and offset must be objects (class {_BODY})")
    return partition, offset
