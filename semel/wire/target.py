"""Targets of requests: a broker by its node id, any broker, or the coordinator of a group or a transactional id."""

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
    """Any broker: the first that answers."""


ANY = Anyone()

#: A number is a broker's node id.
Target = Anyone | GroupCoordinator | TransactionCoordinator | int
