"""Facts about Spark as plain values (PROTOCOL 6, DESIGN rules 2 and 11).

The answers of :mod:`semel.spark.jvm.streaming_query` and :mod:`semel.spark.jvm.status_store`, kept apart so that what
decides on them needs no Spark. Not promised: that one of them stays true longer than the batch it was read in, but for
:class:`Execution`, :class:`SourceInfo` and :class:`Plan`, which hold for a run of a query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = [
    "Callback",
    "Execution",
    "Job",
    "OffsetLogEntry",
    "Plan",
    "Settings",
    "SourceInfo",
    "Stage",
    "Statefulness",
    "Trigger",
]


class Trigger(Enum):
    """The trigger of a query. The values are the simple names of Spark's classes."""

    PROCESSING_TIME = "ProcessingTimeTrigger"
    AVAILABLE_NOW = "AvailableNowTrigger"
    ONCE = "OneTimeTrigger"
    CONTINUOUS = "ContinuousTrigger"
    REAL_TIME = "RealTimeTrigger"


class Statefulness(Enum):
    """The statefulness of a plan. UNKNOWN (operators that are not Spark's own) counts as stateful."""

    STATELESS = "stateless"
    STATEFUL = "stateful"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Callback:
    """The foreachBatch callback that is running on this thread: query id, run id, batch id."""

    query: str
    run: str
    batch: int


@dataclass(frozen=True, slots=True)
class Execution:
    """A running query: what does not change while it runs. ``jvm_execution`` is Spark's own object, and
    ``jvm_bytes`` Java's class of byte streams, both for this package only.

    ``checkpoint`` is a URI, also where the user gave a path. ``limits_each_batch``: a run that ends by itself makes as
    many batches as the limits of its sources ask for. Spark before 4.2 makes one.
    """

    query: str
    run: str
    name: str | None
    checkpoint: str
    temporary: bool
    trigger: Trigger
    limits_each_batch: bool
    jvm_execution: Any = field(repr=False, compare=False)
    jvm_bytes: Any = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class OffsetLogEntry:
    """One batch in the offset log.

    ``offsets`` are texts, by position or by the name of the source; None for a source without an offset yet.
    """

    version: int
    offsets: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """One source of a query. ``key`` is what version 2 of the offset log knows it by; version 1 knows it by its
    position.

    ``ours``: it is ``format("semel")``; ``group`` is its option ``kafka.group.id``, ``most`` its
    ``maxOffsetsPerTrigger``. ``divided``: an option of it says how many tasks read. A source that the query uses twice
    stands here twice, with one key.
    """

    name: str | None
    key: str
    ours: bool
    group: str | None = None
    most: str | None = None
    divided: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The nature of a query's plan, the same for every batch of a run. ``operators`` are those that keep state, or that
    cannot be judged.

    ``deterministic`` is Spark's own judgement of the expressions; it does not look into Python functions or sources,
    and calls ``current_timestamp()`` deterministic, which a replayed batch takes from the offset log. ``plain``: it
    chooses columns and rows, without a function of the user's, and makes no more rows than it reads.
    """

    statefulness: Statefulness
    operators: tuple[str, ...]
    watermark: bool
    deterministic: bool
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """The state of a stage: its last attempt, how many of that attempt's tasks were completed or failed, and its RDD.
    No task was completed if its output existed.

    ``shuffled`` are the rows that it has written into a shuffle: a stage that answers its job writes none.

    Stages of the same RDD compute the same thing; what that is made of without a shuffle is not named, since a
    checkpoint changes it. One that was created later than another has the greater ``id``, a reader than what it reads.
    """

    id: int
    attempt: int
    tasks: int
    completed: int
    failed: int
    rdd: int
    shuffled: int


@dataclass(frozen=True, slots=True)
class Job:
    """One Spark job: its stages, also those that it found done; how many stages it completed or failed; and how many
    tasks. ``group`` is its job group.
    """

    id: int
    running: bool
    succeeded: bool
    stages: tuple[int, ...]
    completed: int
    failed: int
    completed_tasks: int
    failed_tasks: int
    tags: frozenset[str]
    group: str | None = None

    @property
    def computed_one(self) -> bool:
        """True if one stage was computed in it, and once: the last one of a job that ended well."""
        return self.succeeded and self.completed == 1 and not self.failed


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of Spark that a guarantee rests on, as they are in force for this query.

    ``domain_sockets`` is about speed alone: how Spark speaks to its Python workers. None if this Spark has no choice.
    """

    state_format: int
    commit_validation: bool
    pipelined: bool
    retained_stages: int
    retained_jobs: int
    domain_sockets: bool | None = False
