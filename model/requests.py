"""The requests of an owner, and its identity. Plain tuples, because the explorer compares and hashes
millions of them.

Each request stands for one that the wire has, or for a few that always come together (a claim, and the read up to it).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ABORT",
    "ALL",
    "COMMIT",
    "FAILED",
    "FENCED",
    "NAMES",
    "NOT_OURS",
    "OFFSETS",
    "OK",
    "OUT0",
    "OUT1",
    "PENDING",
    "PROGRESS",
    "STALE_EPOCH",
    "WRONG_STATE",
    "Add",
    "Choose",
    "Claim",
    "CommitBatch",
    "Decide",
    "Describe",
    "End",
    "Identity",
    "Init",
    "LogBatch",
    "MarkerBehind",
    "OpenRows",
    "Position",
    "Produce",
    "ReadCheckpoint",
    "ReadToHigh",
    "ReadToStable",
    "Request",
    "SettledPosition",
    "StableOffset",
    "WriteMarker",
]

#: Partitions: two of the output topic, the one with the progress of our prefix, and the one with the offsets of our
#: group.
OUT0, OUT1, PROGRESS, OFFSETS = ALL = (0, 1, 2, 3)
NAMES = ("out-0", "out-1", "progress", "offsets")

#: What a transaction comes to.
COMMIT, ABORT = "commit", "abort"

#: Answers of the broker by their numbers, as in PROTOCOL 4.
OK = 0
STALE_EPOCH = 47  # INVALID_PRODUCER_EPOCH: a partition knows a higher one
WRONG_STATE = 48  # INVALID_TXN_STATE: it has ended the other way
NOT_OURS = 49  # INVALID_PRODUCER_ID_MAPPING: the id belongs to another producer id, or has expired
FENCED = 90  # PRODUCER_FENCED
#: Answers that are none of the broker's: the task failed; the offsets stayed pending until the time was up.
FAILED, PENDING = "failed", "pending"


class Identity(NamedTuple):
    """The identity by which the broker knows a transaction."""

    producer: int
    epoch: int


class Position(NamedTuple):
    """The position in a progress record: which batch of which query, up to which row, and its rows' partitions."""

    query: int
    batch: int
    end: int
    wrote: tuple[int, ...]


# ---- of the coordinator


class Describe(NamedTuple):
    """DescribeTransactions. Answers (the id's identity or None, partitions of an ongoing transaction)."""


class Init(NamedTuple):
    """InitProducerId. Answers the identity."""


class Add(NamedTuple):
    """AddPartitionsToTxn. Answers a code."""

    identity: Identity
    partitions: tuple[int, ...]


class End(NamedTuple):
    """EndTxn. Answers (code, next identity). ``announced`` ones are steps: COMMIT_SENT or ABORT_SENT."""

    identity: Identity
    decision: str
    announced: bool = False


# ---- of a partition's leader


class Produce(NamedTuple):
    """Rows of a transaction (on ``offsets``: TxnOffsetCommit, on ``progress``: the record).

    Answers a code, or FAILED.
    """

    identity: Identity
    partition: int
    value: object


class OpenRows(NamedTuple):
    """DescribeProducers at the leader of the highest epoch.

    Answers the identities of ours that have rows open there.
    """

    partition: int
    producers: tuple[int, ...]


class MarkerBehind(NamedTuple):
    """Read the output behind rows of ours. Answers COMMIT, ABORT, or "" where no marker stands behind them."""

    partition: int
    identity: Identity


class WriteMarker(NamedTuple):
    """WriteTxnMarkers: the very marker that was lost. Answers 0."""

    partition: int
    identity: Identity
    decision: str


class StableOffset(NamedTuple):
    """OffsetFetch with require_stable. Answers the group's offset, or PENDING when the time is up."""


# ---- of the progress partition


class Claim(NamedTuple):
    """Write a plain record and read everything below it. Answers the log."""


class ReadToStable(NamedTuple):
    """A control: read up to the last stable offset, as read_committed does. Answers the log."""


class ReadToHigh(NamedTuple):
    """A control: read up to a high watermark that whoever leads gives. Answers the log."""


class SettledPosition(NamedTuple):
    """``startingOffsets=committed``: claim and read until every record of ours is settled.

    Answers the log, or PENDING when the time is up.
    """


class Decide(NamedTuple):
    """Write a plain ``decided`` record. Answers 0."""

    identity: Identity
    decision: str


# ---- of the query's surroundings: no broker is asked


class Choose(NamedTuple):
    """Whatever the world is like: Spark plans this much, the user does that. Answers one of the options."""

    options: tuple[object, ...]


class ReadCheckpoint(NamedTuple):
    """Spark's logs of offsets and commits. Answers a :class:`~model.world.Checkpoint`; nothing can come in between."""

    checkpoint: int


class LogBatch(NamedTuple):
    """Spark writes batch ``number`` into its offset log.

    Answers False if that number is there already: another query uses the checkpoint.
    """

    checkpoint: int
    number: int
    start: int
    end: int


class CommitBatch(NamedTuple):
    """Spark writes batch ``number`` into its commit log."""

    checkpoint: int
    number: int


Request = (
    Describe
    | Init
    | Add
    | End
    | Produce
    | OpenRows
    | MarkerBehind
    | WriteMarker
    | StableOffset
    | Claim
    | ReadToStable
    | ReadToHigh
    | SettledPosition
    | Decide
    | Choose
    | ReadCheckpoint
    | LogBatch
    | CommitBatch
)
