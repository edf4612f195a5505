"""The prefixes that live queries of this application write with. Two writers with one prefix would fence each other, or
skip what only the other has written (DESIGN rule 2).

By the cluster's own id: ``localhost:9092`` and ``127.0.0.1:9092`` are one. Not promised: anything about other
applications, which the brokers keep apart; a program that waits for itself learns it here sooner, and why.
"""

from __future__ import annotations

import atexit
import logging
import threading
from dataclasses import dataclass
from typing import Protocol

from semel.errors import ConfigError, SemelError
from semel.spark.jvm import streaming_query
from semel.spark.sink.micro_batch import Query

__all__ = ["PARTIAL_BATCH_HINT", "Writer", "abort_open", "check_free", "check_owners", "register"]

log = logging.getLogger("semel.spark")

#: A refusal does not take back what is committed.
PARTIAL_BATCH_HINT = (
    "once the first call has returned, it is committed, and a restart skips this batch. Rows that only the second call"
    " would write are missing: give them a sink with a transactionalIdPrefix of its own, or start over (`semel progress"
    " reset`, a new checkpoint, new output topics)."
)


class Writer(Protocol):
    """A sink, as far as its prefix goes."""

    def check_owner(self) -> None:
        """Raise :class:`~semel.errors.Fenced` where another driver has the prefix now."""

    def abort_open(self) -> None:
        """Abort what is open."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """A sink that writes with a prefix, and the run of a query that it writes for."""

    sink: Writer
    query: Query


_claims: dict[tuple[str, str], _Claim] = {}
_lock = threading.Lock()


def register(cluster: str, prefix: str, sink: Writer, query: Query) -> None:
    """Note that a sink writes with a prefix for a query. Raises :class:`ConfigError` where another one does."""
    with _lock:
        check_free(cluster, prefix, sink, query)
        _claims[cluster, prefix] = _Claim(sink, query)


def check_free(cluster: str, prefix: str, sink: object, query: Query | None) -> None:
    """Raise :class:`ConfigError` for a second writer with one prefix, by another sink or the same.

    ``query`` is None for a batch job.
    """
    held = _held(cluster, prefix)
    if held is None:
        return
    if query is not None and held.sink is not sink and held.query.run == query.run:
        raise ConfigError(
            f"this query has made a second sink with transactionalIdPrefix {prefix!r}. Nothing of the second was"
            " written. Make the sink once, outside of the foreachBatch function. For several outputs, write one"
            " DataFrame with a topic column, or use one sink and prefix each. If the first sink was called for this"
            f" batch: {PARTIAL_BATCH_HINT}",
            tag="PREFIX_IN_USE",
        )
    if held.sink is not sink or query is None or held.query.run != query.run:
        raise ConfigError(
            f"another live query or sink of this application has transactionalIdPrefix {prefix!r} (query"
            f" {held.query.name or held.query.id}). Nothing was written. Give each a sink and a prefix of its own.",
            tag="PREFIX_IN_USE",
        )


def check_owners(run: str) -> bool:
    """Return whether this run of a query has taken prefixes over. Raise :class:`~semel.errors.Fenced` if another driver
    has one of them now.
    """
    mine = [claim.sink for claim in list(_claims.values()) if claim.query.run == run]
    for sink in mine:
        sink.check_owner()
    return bool(mine)


def abort_open() -> None:
    """Abort what the sinks of this process have open: readers would wait for it until its timeout."""
    for (_, prefix), claim in list(_claims.items()):
        try:
            claim.sink.abort_open()
        except SemelError as error:
            log.warning("what %r has open was not aborted, and readers wait until its timeout: %s", prefix, error)


# whatever ends the program, but by a signal that ends it at once
atexit.register(abort_open)


def _held(cluster: str, prefix: str) -> _Claim | None:
    """Return the live query that writes with a prefix in this application."""
    held = _claims.get((cluster, prefix))
    return None if held is None or streaming_query.stopping(held.query.execution) else held
