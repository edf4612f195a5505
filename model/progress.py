"""The log of the progress partition, and what a reader makes of it (PROTOCOL 1 and 2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from model.requests import COMMIT, Identity, Position

__all__ = ["FOREIGN", "Decided", "Marker", "Reading", "Record", "Seen", "log_to_stable", "reading"]

#: A record of another query, whose transaction hangs.
FOREIGN = "foreign"


class Record(NamedTuple):
    """A progress record of ours."""

    identity: Identity
    position: Position


class Marker(NamedTuple):
    """A marker: it settles what its producer id has open in front of it, whatever the epochs."""

    producer: int
    decision: str


class Decided(NamedTuple):
    """A plain record: an owner says how it ended a transaction."""

    identity: Identity
    decision: str


class Seen(NamedTuple):
    """A record, and what the next marker of its producer id behind it makes of it; "" where there is none: it is
    open.
    """

    identity: Identity
    position: Position
    outcome: str


class Reading(NamedTuple):
    """The contents of a log: all records of ours, the open ones, the newest committed one, and the decisions."""

    records: tuple[Seen, ...]
    open: tuple[Seen, ...]
    newest: Seen | None
    decided: Mapping[Identity, str]


@lru_cache(maxsize=20_000)
def reading(log: tuple[Any, ...]) -> Reading:
    """Read a log."""
    records = tuple(Seen(*entry, _outcome(log, at)) for at, entry in enumerate(log) if isinstance(entry, Record))
    return Reading(
        records,
        tuple(seen for seen in records if not seen.outcome),
        next((seen for seen in reversed(records) if seen.outcome == COMMIT), None),
        {
            entry.identity: entry.decision for entry in reversed(log) if isinstance(entry, Decided)
        },  # the first one counts
    )


def _outcome(log: tuple[Any, ...], at: int) -> str:
    producer = log[at].identity.producer
    return next(
        (entry.decision for entry in log[at + 1 :] if isinstance(entry, Marker) and entry.producer == producer), ""
    )


def log_to_stable(log: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the log up to the last stable offset: below the first open record, whoever wrote it."""
    for at, entry in enumerate(log):
        if entry == FOREIGN or (isinstance(entry, Record) and not _outcome(log, at)):
            return log[:at]
    return log
