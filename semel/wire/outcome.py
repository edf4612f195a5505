"""What each error code of a broker asks for: one table, with exceptions by API where a code means different things (DESIGN section 6).

:func:`of` sorts a code, :func:`error` makes the exception that a caller sees when repeating was never an option, :func:`given_up` the one for when
it is over. Codes that settle nothing by themselves (47, 48, 49, 90 of the transaction APIs) are SETTLE: PROTOCOL section 4 says how the owner asks
what they meant, and nobody else guesses.
"""

from __future__ import annotations

from enum import Enum

from semel.errors import AbortAndRetry, ConfigError, DataLoss, Fenced, Retriable, SemelError, Unsupported
from semel.wire import rights

__all__ = ["Outcome", "briefly", "error", "given_up", "name", "of", "unanswered"]


class Outcome(Enum):
    """What to do with an answer."""

    OK = "go on"
    RETRY = "repeat the same request after a back-off"
    REFRESH = "the metadata is old: refresh it, then repeat"
    COORDINATOR = "look the coordinator up again, then repeat"
    SETTLE = "by section 4 of the protocol: only the owner's EndTxn tells what it means"
    ABORT = "the transaction cannot go on: abort it and run the work again"
    FENCED = "another owner is there: stop"
    CONFIG = "the request or the rights are wrong: a person must change something"
    DATA_LOSS = "what was expected is not there: stop and say so"
    UNSUPPORTED = "the broker cannot do it"

    @property
    def temporary(self) -> bool:
        """Whether the same request may be repeated."""
        return self in (Outcome.RETRY, Outcome.REFRESH, Outcome.COORDINATOR)


_TABLE: dict[int, tuple[str, Outcome]] = {
    -1: ("UNKNOWN_SERVER_ERROR", Outcome.ABORT),
    0: ("NONE", Outcome.OK),
    1: ("OFFSET_OUT_OF_RANGE", Outcome.DATA_LOSS),
    2: ("CORRUPT_MESSAGE", Outcome.DATA_LOSS),
    3: ("UNKNOWN_TOPIC_OR_PARTITION", Outcome.REFRESH),
    4: ("INVALID_FETCH_SIZE", Outcome.CONFIG),
    5: ("LEADER_NOT_AVAILABLE", Outcome.REFRESH),
    6: ("NOT_LEADER_OR_FOLLOWER", Outcome.REFRESH),
    7: ("REQUEST_TIMED_OUT", Outcome.RETRY),
    8: ("BROKER_NOT_AVAILABLE", Outcome.RETRY),
    9: ("REPLICA_NOT_AVAILABLE", Outcome.REFRESH),
    10: ("MESSAGE_TOO_LARGE", Outcome.CONFIG),
    11: ("STALE_CONTROLLER_EPOCH", Outcome.CONFIG),
    12: ("OFFSET_METADATA_TOO_LARGE", Outcome.CONFIG),
    13: ("NETWORK_EXCEPTION", Outcome.RETRY),
    14: ("COORDINATOR_LOAD_IN_PROGRESS", Outcome.RETRY),
    15: ("COORDINATOR_NOT_AVAILABLE", Outcome.COORDINATOR),
    16: ("NOT_COORDINATOR", Outcome.COORDINATOR),
    17: ("INVALID_TOPIC_EXCEPTION", Outcome.CONFIG),
    18: ("RECORD_LIST_TOO_LARGE", Outcome.CONFIG),
    19: ("NOT_ENOUGH_REPLICAS", Outcome.RETRY),
    20: ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", Outcome.RETRY),
    21: ("INVALID_REQUIRED_ACKS", Outcome.CONFIG),
    22: ("ILLEGAL_GENERATION", Outcome.ABORT),
    23: ("INCONSISTENT_GROUP_PROTOCOL", Outcome.CONFIG),
    24: ("INVALID_GROUP_ID", Outcome.CONFIG),
    25: ("UNKNOWN_MEMBER_ID", Outcome.ABORT),
    26: ("INVALID_SESSION_TIMEOUT", Outcome.CONFIG),
    27: ("REBALANCE_IN_PROGRESS", Outcome.RETRY),
    28: ("INVALID_COMMIT_OFFSET_SIZE", Outcome.CONFIG),
    29: ("TOPIC_AUTHORIZATION_FAILED", Outcome.CONFIG),
    30: ("GROUP_AUTHORIZATION_FAILED", Outcome.CONFIG),
    31: ("CLUSTER_AUTHORIZATION_FAILED", Outcome.CONFIG),
    32: ("INVALID_TIMESTAMP", Outcome.CONFIG),
    33: ("UNSUPPORTED_SASL_MECHANISM", Outcome.UNSUPPORTED),
    34: ("ILLEGAL_SASL_STATE", Outcome.CONFIG),
    35: ("UNSUPPORTED_VERSION", Outcome.UNSUPPORTED),
    36: ("TOPIC_ALREADY_EXISTS", Outcome.CONFIG),
    37: ("INVALID_PARTITIONS", Outcome.CONFIG),
    38: ("INVALID_REPLICATION_FACTOR", Outcome.CONFIG),
    39: ("INVALID_REPLICATION_ASSIGNMENT", Outcome.CONFIG),
    40: ("INVALID_CONFIG", Outcome.CONFIG),
    41: ("NOT_CONTROLLER", Outcome.CONFIG),
    42: ("INVALID_REQUEST", Outcome.CONFIG),
    43: ("UNSUPPORTED_FOR_MESSAGE_FORMAT", Outcome.UNSUPPORTED),
    44: ("POLICY_VIOLATION", Outcome.CONFIG),
    45: ("OUT_OF_ORDER_SEQUENCE_NUMBER", Outcome.ABORT),
    46: ("DUPLICATE_SEQUENCE_NUMBER", Outcome.ABORT),
    47: ("INVALID_PRODUCER_EPOCH", Outcome.SETTLE),
    48: ("INVALID_TXN_STATE", Outcome.SETTLE),
    49: ("INVALID_PRODUCER_ID_MAPPING", Outcome.SETTLE),
    50: ("INVALID_TRANSACTION_TIMEOUT", Outcome.CONFIG),
    51: ("CONCURRENT_TRANSACTIONS", Outcome.RETRY),
    52: ("TRANSACTION_COORDINATOR_FENCED", Outcome.COORDINATOR),
    53: ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", Outcome.CONFIG),
    54: ("SECURITY_DISABLED", Outcome.UNSUPPORTED),
    55: ("OPERATION_NOT_ATTEMPTED", Outcome.CONFIG),
    56: ("KAFKA_STORAGE_ERROR", Outcome.REFRESH),
    57: ("LOG_DIR_NOT_FOUND", Outcome.CONFIG),
    58: ("SASL_AUTHENTICATION_FAILED", Outcome.CONFIG),
    59: ("UNKNOWN_PRODUCER_ID", Outcome.ABORT),
    60: ("REASSIGNMENT_IN_PROGRESS", Outcome.RETRY),
    61: ("DELEGATION_TOKEN_AUTH_DISABLED", Outcome.UNSUPPORTED),
    62: ("DELEGATION_TOKEN_NOT_FOUND", Outcome.CONFIG),
    63: ("DELEGATION_TOKEN_OWNER_MISMATCH", Outcome.CONFIG),
    64: ("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", Outcome.CONFIG),
    65: ("DELEGATION_TOKEN_AUTHORIZATION_FAILED", Outcome.CONFIG),
    66: ("DELEGATION_TOKEN_EXPIRED", Outcome.CONFIG),
    67: ("INVALID_PRINCIPAL_TYPE", Outcome.CONFIG),
    68: ("NON_EMPTY_GROUP", Outcome.CONFIG),
    69: ("GROUP_ID_NOT_FOUND", Outcome.CONFIG),
    70: ("FETCH_SESSION_ID_NOT_FOUND", Outcome.RETRY),
    71: ("INVALID_FETCH_SESSION_EPOCH", Outcome.RETRY),
    72: ("LISTENER_NOT_FOUND", Outcome.CONFIG),
    73: ("TOPIC_DELETION_DISABLED", Outcome.CONFIG),
    74: ("FENCED_LEADER_EPOCH", Outcome.REFRESH),
    75: ("UNKNOWN_LEADER_EPOCH", Outcome.REFRESH),
    76: ("UNSUPPORTED_COMPRESSION_TYPE", Outcome.UNSUPPORTED),
    77: ("STALE_BROKER_EPOCH", Outcome.CONFIG),
    78: ("OFFSET_NOT_AVAILABLE", Outcome.RETRY),
    79: ("MEMBER_ID_REQUIRED", Outcome.ABORT),
    80: ("PREFERRED_LEADER_NOT_AVAILABLE", Outcome.REFRESH),
    81: ("GROUP_MAX_SIZE_REACHED", Outcome.CONFIG),
    82: ("FENCED_INSTANCE_ID", Outcome.ABORT),
    83: ("ELIGIBLE_LEADERS_NOT_AVAILABLE", Outcome.REFRESH),
    84: ("ELECTION_NOT_NEEDED", Outcome.RETRY),
    85: ("NO_REASSIGNMENT_IN_PROGRESS", Outcome.RETRY),
    86: ("GROUP_SUBSCRIBED_TO_TOPIC", Outcome.CONFIG),
    87: ("INVALID_RECORD", Outcome.CONFIG),
    88: ("UNSTABLE_OFFSET_COMMIT", Outcome.RETRY),
    89: ("THROTTLING_QUOTA_EXCEEDED", Outcome.RETRY),
    90: ("PRODUCER_FENCED", Outcome.SETTLE),
    91: ("RESOURCE_NOT_FOUND", Outcome.CONFIG),
    92: ("DUPLICATE_RESOURCE", Outcome.CONFIG),
    93: ("UNACCEPTABLE_CREDENTIAL", Outcome.CONFIG),
    94: ("INCONSISTENT_VOTER_SET", Outcome.CONFIG),
    95: ("INVALID_UPDATE_VERSION", Outcome.CONFIG),
    96: ("FEATURE_UPDATE_FAILED", Outcome.UNSUPPORTED),
    97: ("PRINCIPAL_DESERIALIZATION_FAILURE", Outcome.CONFIG),
    98: ("SNAPSHOT_NOT_FOUND", Outcome.CONFIG),
    99: ("POSITION_OUT_OF_RANGE", Outcome.DATA_LOSS),
    100: ("UNKNOWN_TOPIC_ID", Outcome.REFRESH),
    101: ("DUPLICATE_BROKER_REGISTRATION", Outcome.CONFIG),
    102: ("BROKER_ID_NOT_REGISTERED", Outcome.REFRESH),
    103: ("INCONSISTENT_TOPIC_ID", Outcome.REFRESH),
    104: ("INCONSISTENT_CLUSTER_ID", Outcome.CONFIG),
    105: ("TRANSACTIONAL_ID_NOT_FOUND", Outcome.CONFIG),
    106: ("FETCH_SESSION_TOPIC_ID_ERROR", Outcome.RETRY),
    107: ("INELIGIBLE_REPLICA", Outcome.REFRESH),
    108: ("NEW_LEADER_ELECTED", Outcome.REFRESH),
    109: ("OFFSET_MOVED_TO_TIERED_STORAGE", Outcome.DATA_LOSS),
    110: ("FENCED_MEMBER_EPOCH", Outcome.ABORT),
    111: ("UNRELEASED_INSTANCE_ID", Outcome.CONFIG),
    112: ("UNSUPPORTED_ASSIGNOR", Outcome.UNSUPPORTED),
    113: ("STALE_MEMBER_EPOCH", Outcome.ABORT),
    114: ("MISMATCHED_ENDPOINT_TYPE", Outcome.UNSUPPORTED),
    115: ("UNSUPPORTED_ENDPOINT_TYPE", Outcome.UNSUPPORTED),
    116: ("UNKNOWN_CONTROLLER_ID", Outcome.CONFIG),
    117: ("UNKNOWN_SUBSCRIPTION_ID", Outcome.CONFIG),
    118: ("TELEMETRY_TOO_LARGE", Outcome.CONFIG),
    119: ("INVALID_REGISTRATION", Outcome.CONFIG),
    120: ("TRANSACTION_ABORTABLE", Outcome.ABORT),
    121: ("INVALID_RECORD_STATE", Outcome.CONFIG),
    122: ("SHARE_SESSION_NOT_FOUND", Outcome.CONFIG),
    123: ("INVALID_SHARE_SESSION_EPOCH", Outcome.CONFIG),
    124: ("FENCED_STATE_EPOCH", Outcome.CONFIG),
    125: ("INVALID_VOTER_KEY", Outcome.CONFIG),
    126: ("DUPLICATE_VOTER", Outcome.CONFIG),
    127: ("VOTER_NOT_FOUND", Outcome.CONFIG),
}

#: Where a code means something else in one API than in the others.
_BY_API: dict[tuple[str, int], Outcome] = {
    ("InitProducerId", 47): Outcome.FENCED,
    ("InitProducerId", 90): Outcome.FENCED,
    ("InitProducerId", 48): Outcome.ABORT,
    ("InitProducerId", 49): Outcome.ABORT,
    ("FindCoordinator", 15): Outcome.RETRY,  # the internal topic is being created, or its partition has no leader
    ("TxnOffsetCommit", 3): Outcome.CONFIG,  # the source's topic or partition is gone: repeating does not bring it back
    # a marker that the partition has no use for, or that another coordinator has come before: what is open there is looked at anew
    ("WriteTxnMarkers", 47): Outcome.REFRESH,
    ("WriteTxnMarkers", 52): Outcome.REFRESH,
    ("Produce", 2): Outcome.ABORT,  # the bytes changed on their way: nothing was stored
    ("Fetch", 100): Outcome.DATA_LOSS,  # the topic that the offsets belong to is gone
    ("Fetch", 103): Outcome.DATA_LOSS,
    ("DescribeTransactions", 105): Outcome.SETTLE,  # the id is not known (any more)
}

#: What to tell people, where the name of a code does not say it. Written to follow "… answered NAME: ".
_ADVICE = {
    1: "the records there were deleted meanwhile, by the topic's retention or by somebody. Start again: what is left is looked at anew.",
    10: "a record or batch is larger than the topic's max.message.bytes. Make rows smaller, or raise max.message.bytes.",
    17: "the topic's name is not allowed. Name it with at most 249 letters, digits, dots, underscores and hyphens.",
    18: "a batch is larger than the topic's segment.bytes. Lower max.request.size.",
    50: "transaction.timeout.ms is above the broker's transaction.max.timeout.ms. Lower the first or raise the second.",
    87: "the broker refused a record (a null key in a compacted topic, or a timestamp outside the topic's bounds). Correct the row,"
    " or have the query write such rows to another topic (docs/recipes.md).",
    32: "a timestamp is outside the bounds that the topic allows. Correct the row, or change message.timestamp.before.max.ms or after.max.ms.",
}


def name(code: int) -> str:
    """Kafka's name of a code."""
    return _TABLE[code][0] if code in _TABLE else f"error {code}"


def of(api: str, code: int) -> Outcome:
    """What ``code`` from ``api`` (``"Produce"``, ``"EndTxn"``, …) asks for. A code that nobody knows asks for a person."""
    exception = _BY_API.get((api, code))
    if exception is not None:
        return exception
    return _TABLE[code][1] if code in _TABLE else Outcome.CONFIG


_ERRORS: dict[Outcome, type[SemelError]] = {
    Outcome.RETRY: Retriable,
    Outcome.REFRESH: Retriable,
    Outcome.COORDINATOR: Retriable,
    Outcome.SETTLE: AbortAndRetry,
    Outcome.ABORT: AbortAndRetry,
    Outcome.FENCED: Fenced,
    Outcome.CONFIG: ConfigError,
    Outcome.DATA_LOSS: DataLoss,
    Outcome.UNSUPPORTED: Unsupported,
}


def error(api: str, code: int, subject: str, meaning: str = "Nothing was committed.") -> SemelError:
    """The exception for a code that will not be repeated. ``subject`` says what was asked, ``meaning`` what that means for the data."""
    advice = _ADVICE.get(code) or rights.advice(api, code)
    told = f": {advice}" if advice else "."
    return _ERRORS[of(api, code)](f"{subject}: the broker answered {name(code)}{told} {meaning}", tag=name(code))


_CHECK = "Check that all brokers run and that bootstrap.servers is right, then start again."


def given_up(subject: str, problem: str, meaning: str, tag: str | None = None) -> Retriable:
    """The exception for what was repeated until its deadline: the last that users see of a broker that does not answer.

    ``problem`` is the last thing that was seen: the name of a code, or a message. Where that is one of these itself, the advice is given once.
    """
    return Retriable(f"{subject}: {briefly(problem)} {meaning} {_CHECK}", tag=tag)


def unanswered(api: str) -> str:
    """What it means that a request of this kind, sent and repeated, got no answer that settles it."""
    if api.startswith(("Metadata", "List", "Describe", "Find", "Fetch", "OffsetFetch")):
        return "Nothing was read or written by it."
    return "Whether a broker has done it is not known; asking again does no harm."


def briefly(problem: str) -> str:
    """A message of :func:`given_up` without its advice, or the name of a code: what can stand in another message."""
    told = problem.removesuffix(_CHECK).rstrip(" .")
    return told if told.endswith("?") else f"{told}."
