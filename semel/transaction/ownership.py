"""The state of an owner between its requests: its identity, its state, and what it knows of progress and partitions."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from semel.errors import ConfigError
from semel.transaction.late_markers import turn
from semel.transaction.progress.log import ProgressLog, ProgressRecord
from semel.transaction.progress.topic import DEFAULT_TOPIC, ProgressTopic
from semel.transaction.states import Event, States
from semel.transaction.transactional_id import check_prefix
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.api import topics
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition

__all__ = [
    "DEFAULT_TIMEOUT_MS",
    "SESSION",
    "Ownership",
    "decision_timeout_ms",
    "longest_timeout_ms",
    "protocol_deadline",
    "synchronized",
]

#: A whole batch is in one transaction, and a restarted query ends its predecessor's at once, so nothing speaks for a
#: short one.
DEFAULT_TIMEOUT_MS = 900_000
#: The scope of an owner whose positions are a group's offsets alone: it keeps no progress.
SESSION = "session"
#: The scopes of Spark's queries and batch jobs.
_ENLISTING = ("query", "batch")


def protocol_deadline(client: Client) -> Deadline:
    """Return how long to repeat a request of the protocol: ``delivery.timeout.ms``, with short pauses, because most
    waits are for a marker.
    """
    config = client.config
    return Deadline(
        config.delivery_timeout_ms,
        backoff_ms=min(2, config.retry_backoff_ms),
        backoff_max_ms=config.retry_backoff_ms,
    )


def decision_timeout_ms(part_timeout_ms: int) -> int:
    """Return the timeout of a transaction that decides for prepared ones, which have ``part_timeout_ms``."""
    return min(60_000, part_timeout_ms // 4)


def longest_timeout_ms(client: Client, deadline: Deadline) -> int:
    """Return how long the brokers let a transaction be open: 15 minutes, their default, if they do not say."""
    try:
        settings = topics.broker_config(client, ["transaction.max.timeout.ms"], deadline)
    except ConfigError:  # no right to read it: the broker refuses what is too long, by name
        settings = {}
    return int(settings.get("transaction.max.timeout.ms") or DEFAULT_TIMEOUT_MS)


class Ownership:
    """The owner's side of one transactional id.

    One thread at a time drives it (``lock``); a second one only waits for markers.
    """

    def __init__(
        self,
        client: Client,
        transactional_id: str,
        *,
        scope: str,
        progress_topic: str = DEFAULT_TOPIC,
        decides_only: bool = False,
        others: Sequence[Client] = (),
    ) -> None:
        self.client = client
        #: Clients of other clusters, for whose prepared transactions this owner may decide.
        self.others = tuple(others)
        #: What the last transaction has decided for on other clusters, until it has ended there.
        self.undone: tuple[Identity, tuple[Prepared, ...]] | None = None
        self.transactional_id = check_prefix(transactional_id)
        self.scope = scope
        self.progress = ProgressTopic(client, transactional_id, scope, progress_topic, resumes=decides_only)
        self._decides_only = decides_only
        self.states = States(transactional_id)
        self.lock = threading.RLock()
        self.identity = Identity(transactional_id, -1, -1)
        self.committed: ProgressRecord | None = None
        #: All that was read of progress when the id was taken over: how the transactions of the owners before this one
        #: had ended.
        self.progress_log = ProgressLog(())
        #: The producer ids that those owners had, where they show.
        self.previous_producer_ids: frozenset[int] = frozenset()
        #: Whether to continue although progress seems lost, for an owner that is about to set it.
        self.may_have_lost_progress = False
        #: Whether it was found lost: then what this owner leaves before its first commit must not look like progress
        #: that is there.
        self.lost_progress = False
        #: Partitions whose markers this owner has checked: what it adds for the first time is checked first.
        self.checked_partitions: set[TopicPartition] = set()
        self.checked_groups: set[tuple[str, TopicPartition]] = set()
        #: Where the owners before this one may have left offsets pending: looked at before this one commits any, and
        #: handed on until then.
        self.groups_to_check: dict[str, set[TopicPartition]] = {}
        #: How often in a row a transaction was found aborted too early for its timeout: by a rival (PROTOCOL 4, row
        #: 48).
        self.early_aborts = 0
        #: Whether tasks of this owner may prepare transactions of their own, which its progress enlists.
        self.may_enlist = scope in _ENLISTING
        #: Whether a broker takes late markers: then an epoch is left out between two transactions.
        self.skips_epochs = False
        self.timeout_ms = client.config.transaction_timeout_ms or 0
        #: How long the brokers let a transaction be open; their default if they do not say.
        self.max_timeout_ms = DEFAULT_TIMEOUT_MS
        self._began = 0.0
        self._settled = -math.inf

    def begin(self) -> None:
        """Note that a transaction begins now."""
        self.states.move(Event.BEGUN)
        self._began = time.monotonic()

    @property
    def age_ms(self) -> float:
        """The age of the transaction, by a clock that does not jump.

        A suspended machine counts as the broker counts, at the latest at the end.
        """
        return (time.monotonic() - self._began) * 1000

    @property
    def turn(self) -> int:
        """The number of the transaction, for what takes turns."""
        return turn(self.identity, skips_epochs=self.skips_epochs)

    def deadline(self) -> Deadline:
        """Return a new :func:`protocol_deadline`."""
        return protocol_deadline(self.client)

    def settle_timeout(self, deadline: Deadline) -> None:
        """Find the transaction timeout: what was set, else 15 minutes (5 where it may decide for other clusters), else
        the broker's maximum where that is less (DESIGN rule 10).
        """
        if time.monotonic() - self._settled < self.client.config.metadata_max_age_ms / 1000:
            return  # an owner that takes over for each batch
        self._settled = time.monotonic()
        self.max_timeout_ms = longest_timeout_ms(self.client, deadline)
        # what it decides for on other clusters must live longer than it
        longest_ms = DEFAULT_TIMEOUT_MS // 3 if self.others else DEFAULT_TIMEOUT_MS
        self.timeout_ms = self.timeout_ms or min(longest_ms, self.max_timeout_ms)
        if self._decides_only:
            # a decision that stalls expires before what it decides for: see ``Enlisted``
            part_timeout_ms = self.client.config.transaction_timeout_ms or min(DEFAULT_TIMEOUT_MS, self.max_timeout_ms)
            self.timeout_ms = decision_timeout_ms(part_timeout_ms)


class _Owned(Protocol):
    _own: Ownership


_P = ParamSpec("_P")
_R = TypeVar("_R")
_S = TypeVar("_S", bound=_Owned)


def synchronized(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """Make a method wait for the calls of other threads on the same owner."""

    @wraps(method)
    def taken(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        # another thread may have had the turn when this process was forked, and never gives it back
        self._own.states.check_not_forked()
        with self._own.lock:
            return method(self, *args, **kwargs)

    return taken
