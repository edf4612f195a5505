"""Transactional ids carry their kind, parsed from the right (PROTOCOL 1).

The owner's id is the user's prefix itself; two-phase commit adds ``<prefix>.task.<uuid>.<k>`` and
``<prefix>.unit.<uuid>.<k>``. Nothing is ever matched by "starts with": ``orders`` owns nothing of ``orders-eu``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from semel.errors import ConfigError

__all__ = ["IdKind", "Name", "check_prefix", "parse", "prepared_id"]

_TAIL = re.compile(
    r"(?P<prefix>.+)\.(?P<kind>task|unit)\.(?P<uuid>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.(?P<index>0|[1-9][0-9]{0,17})",
    re.DOTALL,
)
_WHAT = "the transactional id (transactionalIdPrefix in Spark)"
_MAX_BYTES = 30_000  # the id is a key of the coordinator's log and travels as a string of at most 32,767 bytes


class IdKind(Enum):
    """The purpose of an id."""

    OWNER = "owner"
    TASK = "task"
    UNIT = "unit"


@dataclass(frozen=True, slots=True)
class Name:
    """A transactional id, taken apart."""

    prefix: str
    kind: IdKind
    uuid: str = ""
    index: int = -1


def parse(transactional_id: str) -> Name:
    """Take an id apart. What has no known tail is an owner's id."""
    match = _TAIL.fullmatch(transactional_id)
    if match is None:
        return Name(transactional_id, IdKind.OWNER)
    return Name(match["prefix"], IdKind(match["kind"]), match["uuid"], int(match["index"]))


def prepared_id(prefix: str, kind: IdKind, uuid: str, index: int) -> str:
    """Return the id of a prepared transaction, a task's or a unit's. :func:`parse` takes it apart."""
    return f"{prefix}.{kind.value}.{uuid}.{index}"


def check_prefix(prefix: str) -> str:
    """Refuse a prefix that cannot be an owner's id."""
    if not prefix or prefix != prefix.strip():
        raise ConfigError(
            f"{_WHAT} is empty or has blanks around it. Nothing was written. Give each query or producer a name of"
            " its own."
        )
    try:
        size = len(prefix.encode())
    except UnicodeEncodeError:
        raise ConfigError(
            f"{_WHAT} {prefix!r:.200} holds half a character. Nothing was written. Give it a name that can be written"
            " down."
        ) from None
    if size > _MAX_BYTES:
        raise ConfigError(f"{_WHAT} is longer than {_MAX_BYTES} bytes. Nothing was written. Give it a shorter name.")
    if parse(prefix).kind is not IdKind.OWNER:
        raise ConfigError(
            f"{_WHAT} {prefix!r} ends like an internal id (….task.<uuid>.<k>). Nothing was written. Give it a name"
            " without that end."
        )
    return prefix
