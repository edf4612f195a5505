"""Whom a request goes to: a broker by its node id, whichever answers, or the coordinator of a group or of a
transactional id.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ANY", "Anyone", "GroupCoordinator", "Target", "TransactionCoordinator"]


@dataclass(frozen=True, slots=True)
class GroupCoordinator:
    """The coordinator of a consumer group."""

    key: str
    kind = 0


@dataclass(frozen=True, slots=True)
class TransactionCoordinator:
    """The coordinator of a transactional id."""

    key: str
    kind = 1


@dataclass(frozen=True, slots=True)
class Anyone:
    """Whichever broker answers."""


ANY = Anyone()

#: A number is a broker's node id.
Target = Anyone | GroupCoordinator | TransactionCoordinator | int
