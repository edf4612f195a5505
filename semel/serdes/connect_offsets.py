"""The records of Kafka Connect's offsets topic, byte for byte as Kafka Connect's JsonConverter writes them.

The key is ``["connector",{source partition}]``, the value ``{offset}``, both without blanks and with nothing escaped
but what Jackson escapes. An offset's place in the topic is the hash of its key's bytes, so another spelling would be
another offset.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from semel.errors import ConfigError
from semel.serdes.jackson import jackson_text
from semel.strict_json import read_object

__all__ = ["canonical", "claim_key", "encode_key", "encode_value", "parse_key", "parse_value"]

_CLAIM = "semel"


def encode_key(connector: str, partition: Mapping[str, Any]) -> bytes:
    """Return the key of a source partition. Raise :class:`ConfigError` if it is not flat."""
    return _text([connector, _flat(connector, partition, "source partition")])


def encode_value(connector: str, offset: Mapping[str, Any] | None) -> bytes | None:
    """Return the value of an offset. None removes it. Raise :class:`ConfigError` if it is not flat."""
    return None if offset is None else _text(_flat(connector, offset, "source offset"))


def claim_key(connector: str) -> bytes:
    """Return the key of this connector's claims. Their value is null, so Kafka Connect ignores them."""
    return _text([connector, {_CLAIM: "claim"}])


def parse_key(key: bytes | None) -> tuple[str, dict[str, Any]] | None:
    """Connector and source partition; None for what is no offset's key, and for a claim's."""
    try:
        connector, partition = json.loads(key or b"")
    except (ValueError, TypeError, RecursionError):
        return None
    if not isinstance(connector, str) or not isinstance(partition, dict) or _CLAIM in partition:
        return None
    return connector, partition


def parse_value(value: bytes | None) -> dict[str, Any] | None:
    """Parse the value of an offset: None if it was removed. Raise ``ValueError`` if it is damaged."""
    return None if value is None or value == b"null" else read_object(value)


def canonical(partition: Mapping[str, Any]) -> str:
    """One text for all spellings of a source partition."""
    return json.dumps(partition, sort_keys=True)


def _text(value: object) -> bytes:
    return jackson_text(value).encode()


def _flat(connector: str, given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Check for what Kafka Connect accepts: text as keys, and text, numbers, booleans or null as values."""
    if not isinstance(given, Mapping):
        raise _refused(connector, what, f"it is a {type(given).__name__}")
    for name, value in given.items():
        if not isinstance(name, str):
            raise _refused(connector, what, f"the key {name!r:.100} is not text")
        if not (value is None or isinstance(value, str | int | float)):
            raise _refused(connector, what, f"the value of {name:.100} is a {type(value).__name__}")
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise _refused(connector, what, f"the value of {name:.100} has more than 64 bits")
        if isinstance(value, float) and not math.isfinite(value):
            raise _refused(connector, what, f"the value of {name:.100} is {value}, which JSON does not have")
        if "\ud800" <= max(name + (value if isinstance(value, str) else ""), default="") <= "\udfff":
            raise _refused(connector, what, f"{name!r:.100} holds half a character")
    return dict(given)


def _refused(connector: str, what: str, why: str) -> ConfigError:
    return ConfigError(
        f"connector {connector!r} gave a {what} that cannot be kept: {why}. Nothing of this poll is visible. It must be"
        " flat, with text as keys; put what is nested into one text.",
        tag="OFFSET_FORM",
    )
