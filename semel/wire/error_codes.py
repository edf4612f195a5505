"""The meaning of each error code of a broker: one table, with exceptions by API (DESIGN section 6).

:func:`of` sorts a code. :func:`error` makes the exception for a code that is not repeated, :func:`given_up` the one for
a deadline that has passed. Codes 47, 48, 49 and 90 of the transaction APIs decide nothing by themselves: they are
SETTLE. The owner finds out their meaning by PROTOCOL section 4; no other code guesses.
"""

from __future__ import annotations

from enum import Enum

from semel.errors import AbortAndRetry, ConfigError, DataLoss, Fenced, Retriable, SemelError, Unsupported
from semel.wire import acl_hints

__all__ = ["Action", "advice", "briefly", "codes", "error", "given_up", "name", "of", "unanswered"]


class Action(Enum):
    """The reaction to an answer."""

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
        """True if the same request may be repeated."""
        return self in (Action.RETRY, Action.REFRESH, Action.COORDINATOR)


_TABLE: dict[int, tuple[str, Action]] = {
    -1: ("UNKNOWN_SERVER_ERROR", Action.ABORT),
    0: ("NONE", Action.OK),
    1: ("OFFSET_OUT_OF_RANGE", Action.DATA_LOSS),
    2: ("CORRUPT_MESSAGE", Action.DATA_LOSS),
    3: ("UNKNOWN_TOPIC_OR_PARTITION", Action.REFRESH),
    4: ("INVALID_FETCH_SIZE", Action.CONFIG),
    5: ("LEADER_NOT_AVAILABLE", Action.REFRESH),
    6: ("NOT_LEADER_OR_FOLLOWER", Action.REFRESH),
    7: ("REQUEST_TIMED_OUT", Action.RETRY),
    8: ("BROKER_NOT_AVAILABLE", Action.RETRY),
    9: ("REPLICA_NOT_AVAILABLE", Action.REFRESH),
    10: ("MESSAGE_TOO_LARGE", Action.CONFIG),
    11: ("STALE_CONTROLLER_EPOCH", Action.CONFIG),
    12: ("OFFSET_METADATA_TOO_LARGE", Action.CONFIG),
    13: ("NETWORK_EXCEPTION", Action.RETRY),
    14: ("COORDINATOR_LOAD_IN_PROGRESS", Action.RETRY),
    15: ("COORDINATOR_NOT_AVAILABLE", Action.COORDINATOR),
    16: ("NOT_COORDINATOR", Action.COORDINATOR),
    17: ("INVALID_TOPIC_EXCEPTION", Action.CONFIG),
    18: ("RECORD_LIST_TOO_LARGE", Action.CONFIG),
    19: ("NOT_ENOUGH_REPLICAS", Action.RETRY),
    20: ("NOT_ENOUGH_REPLICAS_AFTER_APPEND", Action.RETRY),
    21: ("INVALID_REQUIRED_ACKS", Action.CONFIG),
    22: ("ILLEGAL_GENERATION", Action.ABORT),
    23: ("INCONSISTENT_GROUP_PROTOCOL", Action.CONFIG),
    24: ("INVALID_GROUP_ID", Action.CONFIG),
    25: ("UNKNOWN_MEMBER_ID", Action.ABORT),
    26: ("INVALID_SESSION_TIMEOUT", Action.CONFIG),
    27: ("REBALANCE_IN_PROGRESS", Action.RETRY),
    28: ("INVALID_COMMIT_OFFSET_SIZE", Action.CONFIG),
    29: ("TOPIC_AUTHORIZATION_FAILED", Action.CONFIG),
    30: ("GROUP_AUTHORIZATION_FAILED", Action.CONFIG),
    31: ("CLUSTER_AUTHORIZATION_FAILED", Action.CONFIG),
    32: ("INVALID_TIMESTAMP", Action.CONFIG),
    33: ("UNSUPPORTED_SASL_MECHANISM", Action.UNSUPPORTED),
    34: ("ILLEGAL_SASL_STATE", Action.CONFIG),
    35: ("UNSUPPORTED_VERSION", Action.UNSUPPORTED),
    36: ("TOPIC_ALREADY_EXISTS", Action.CONFIG),
    37: ("INVALID_PARTITIONS", Action.CONFIG),
    38: ("INVALID_REPLICATION_FACTOR", Action.CONFIG),
    39: ("INVALID_REPLICATION_ASSIGNMENT", Action.CONFIG),
    40: ("INVALID_CONFIG", Action.CONFIG),
    41: ("NOT_CONTROLLER", Action.CONFIG),
    42: ("INVALID_REQUEST", Action.CONFIG),
    43: ("UNSUPPORTED_FOR_MESSAGE_FORMAT", Action.UNSUPPORTED),
    44: ("POLICY_VIOLATION", Action.CONFIG),
    45: ("OUT_OF_ORDER_SEQUENCE_NUMBER", Action.ABORT),
    46: ("DUPLICATE_SEQUENCE_NUMBER", Action.ABORT),
    47: ("INVALID_PRODUCER_EPOCH", Action.SETTLE),
    48: ("INVALID_TXN_STATE", Action.SETTLE),
    49: ("INVALID_PRODUCER_ID_MAPPING", Action.SETTLE),
    50: ("INVALID_TRANSACTION_TIMEOUT", Action.CONFIG),
    51: ("CONCURRENT_TRANSACTIONS", Action.RETRY),
    52: ("TRANSACTION_COORDINATOR_FENCED", Action.COORDINATOR),
    53: ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", Action.CONFIG),
    54: ("SECURITY_DISABLED", Action.UNSUPPORTED),
    55: ("OPERATION_NOT_ATTEMPTED", Action.CONFIG),
    56: ("KAFKA_STORAGE_ERROR", Action.REFRESH),
    57: ("LOG_DIR_NOT_FOUND", Action.CONFIG),
    58: ("SASL_AUTHENTICATION_FAILED", Action.CONFIG),
    59: ("UNKNOWN_PRODUCER_ID", Action.ABORT),
    60: ("REASSIGNMENT_IN_PROGRESS", Action.RETRY),
    61: ("DELEGATION_TOKEN_AUTH_DISABLED", Action.UNSUPPORTED),
    62: ("DELEGATION_TOKEN_NOT_FOUND", Action.CONFIG),
    63: ("DELEGATION_TOKEN_OWNER_MISMATCH", Action.CONFIG),
    64: ("DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", Action.CONFIG),
    65: ("DELEGATION_TOKEN_AUTHORIZATION_FAILED", Action.CONFIG),
    66: ("DELEGATION_TOKEN_EXPIRED", Action.CONFIG),
    67: ("INVALID_PRINCIPAL_TYPE", Action.CONFIG),
    68: ("NON_EMPTY_GROUP", Action.CONFIG),
    69: ("GROUP_ID_NOT_FOUND", Action.CONFIG),
    70: ("FETCH_SESSION_ID_NOT_FOUND", Action.RETRY),
    71: ("INVALID_FETCH_SESSION_EPOCH", Action.RETRY),
    72: ("LISTENER_NOT_FOUND", Action.CONFIG),
    73: ("TOPIC_DELETION_DISABLED", Action.CONFIG),
    74: ("FENCED_LEADER_EPOCH", Action.REFRESH),
    75: ("UNKNOWN_LEADER_EPOCH", Action.REFRESH),
    76: ("UNSUPPORTED_COMPRESSION_TYPE", Action.UNSUPPORTED),
    77: ("STALE_BROKER_EPOCH", Action.CONFIG),
    78: ("OFFSET_NOT_AVAILABLE", Action.RETRY),
    79: ("MEMBER_ID_REQUIRED", Action.ABORT),
    80: ("PREFERRED_LEADER_NOT_AVAILABLE", Action.REFRESH),
    81: ("GROUP_MAX_SIZE_REACHED", Action.CONFIG),
    82: ("FENCED_INSTANCE_ID", Action.ABORT),
    83: ("ELIGIBLE_LEADERS_NOT_AVAILABLE", Action.REFRESH),
    84: ("ELECTION_NOT_NEEDED", Action.RETRY),
    85: ("NO_REASSIGNMENT_IN_PROGRESS", Action.RETRY),
    86: ("GROUP_SUBSCRIBED_TO_TOPIC", Action.CONFIG),
    87: ("INVALID_RECORD", Action.CONFIG),
    88: ("UNSTABLE_OFFSET_COMMIT", Action.RETRY),
    89: ("THROTTLING_QUOTA_EXCEEDED", Action.RETRY),
    90: ("PRODUCER_FENCED", Action.SETTLE),
    91: ("RESOURCE_NOT_FOUND", Action.CONFIG),
    92: ("DUPLICATE_RESOURCE", Action.CONFIG),
    93: ("UNACCEPTABLE_CREDENTIAL", Action.CONFIG),
    94: ("INCONSISTENT_VOTER_SET", Action.CONFIG),
    95: ("INVALID_UPDATE_VERSION", Action.CONFIG),
    96: ("FEATURE_UPDATE_FAILED", Action.UNSUPPORTED),
    97: ("PRINCIPAL_DESERIALIZATION_FAILURE", Action.CONFIG),
    98: ("SNAPSHOT_NOT_FOUND", Action.CONFIG),
    99: ("POSITION_OUT_OF_RANGE", Action.DATA_LOSS),
    100: ("UNKNOWN_TOPIC_ID", Action.REFRESH),
    101: ("DUPLICATE_BROKER_REGISTRATION", Action.CONFIG),
    102: ("BROKER_ID_NOT_REGISTERED", Action.REFRESH),
    103: ("INCONSISTENT_TOPIC_ID", Action.REFRESH),
    104: ("INCONSISTENT_CLUSTER_ID", Action.CONFIG),
    105: ("TRANSACTIONAL_ID_NOT_FOUND", Action.CONFIG),
    106: ("FETCH_SESSION_TOPIC_ID_ERROR", Action.RETRY),
    107: ("INELIGIBLE_REPLICA", Action.REFRESH),
    108: ("NEW_LEADER_ELECTED", Action.REFRESH),
    109: ("OFFSET_MOVED_TO_TIERED_STORAGE", Action.DATA_LOSS),
    110: ("FENCED_MEMBER_EPOCH", Action.ABORT),
    111: ("UNRELEASED_INSTANCE_ID", Action.CONFIG),
    112: ("UNSUPPORTED_ASSIGNOR", Action.UNSUPPORTED),
    113: ("STALE_MEMBER_EPOCH", Action.ABORT),
    114: ("MISMATCHED_ENDPOINT_TYPE", Action.UNSUPPORTED),
    115: ("UNSUPPORTED_ENDPOINT_TYPE", Action.UNSUPPORTED),
    116: ("UNKNOWN_CONTROLLER_ID", Action.CONFIG),
    117: ("UNKNOWN_SUBSCRIPTION_ID", Action.CONFIG),
    118: ("TELEMETRY_TOO_LARGE", Action.CONFIG),
    119: ("INVALID_REGISTRATION", Action.CONFIG),
    120: ("TRANSACTION_ABORTABLE", Action.ABORT),
    121: ("INVALID_RECORD_STATE", Action.CONFIG),
    122: ("SHARE_SESSION_NOT_FOUND", Action.CONFIG),
    123: ("INVALID_SHARE_SESSION_EPOCH", Action.CONFIG),
    124: ("FENCED_STATE_EPOCH", Action.CONFIG),
    125: ("INVALID_VOTER_KEY", Action.CONFIG),
    126: ("DUPLICATE_VOTER", Action.CONFIG),
    127: ("VOTER_NOT_FOUND", Action.CONFIG),
}

#: Codes with another meaning in one API.
_BY_API: dict[tuple[str, int], Action] = {
    ("InitProducerId", 47): Action.FENCED,
    ("InitProducerId", 90): Action.FENCED,
    ("InitProducerId", 48): Action.ABORT,
    ("InitProducerId", 49): Action.ABORT,
    ("FindCoordinator", 15): Action.RETRY,  # the internal topic is being created, or its partition has no leader
    ("TxnOffsetCommit", 3): Action.CONFIG,  # the source's topic or partition is gone: repeating does not bring it back
    # the partition does not need this marker, or another coordinator was first: look again at its open transactions
    ("WriteTxnMarkers", 47): Action.REFRESH,
    ("WriteTxnMarkers", 52): Action.REFRESH,
    ("Produce", 2): Action.ABORT,  # the bytes changed on their way: nothing was stored
    # the group is about to have another generation: members must join again first
    ("Heartbeat", 27): Action.ABORT,
    ("SyncGroup", 27): Action.ABORT,
    ("OffsetCommit", 27): Action.ABORT,
    ("Fetch", 100): Action.DATA_LOSS,  # the topic that the offsets belong to is gone
    ("Fetch", 103): Action.DATA_LOSS,
    ("DescribeTransactions", 105): Action.SETTLE,  # the id is not known (any more)
}

#: Advice for codes whose name does not explain itself. Written to follow "… answered NAME: ".
_ADVICE = {
    1: "the records there were deleted meanwhile, by the topic's retention or by an operator. Start again: semel then"
    " looks at what is left.",
    10: "a record or batch is larger than the topic's max.message.bytes. Make rows smaller, or raise"
    " max.message.bytes.",
    17: "the topic's name is not allowed. Name it with at most 249 letters, digits, dots, underscores and hyphens.",
    18: "a batch is larger than the topic's segment.bytes. Lower max.request.size (of a sink: kafka.max.request.size).",
    23: "the group's other members have another protocol, or no assignor in common (semel has range and roundrobin)."
    " Stop them, or use another group.",
    26: "the broker allows other session timeouts. Change session.timeout.ms, or the broker's"
    " group.min.session.timeout.ms and group.max.session.timeout.ms.",
    50: "the broker's transaction.max.timeout.ms is below transaction.timeout.ms. Raise the first or lower the second.",
    87: "the broker refused a record (a null key in a compacted topic, or a timestamp outside the topic's bounds)."
    " Correct the row, or have the query write such rows to another topic (docs/recipes.md).",
    32: "a timestamp is outside the bounds that the topic allows. Correct the row, or change"
    " message.timestamp.before.max.ms or after.max.ms.",
}


def name(code: int) -> str:
    """Return Kafka's name of a code."""
    return _TABLE[code][0] if code in _TABLE else f"error {code}"


def codes() -> list[int]:
    """Return the codes that stand for an error, in Kafka's order."""
    return [code for code, (_, action) in _TABLE.items() if action is not Action.OK]


def advice(code: int) -> str:
    """Return the explanation of a code for people, or nothing if its name says it."""
    return _ADVICE.get(code, "")


def of(api: str, code: int) -> Action:
    """Return the action for ``code`` from ``api`` (``"Produce"``, ``"EndTxn"``, …).

    An unknown code needs a person.
    """
    exception = _BY_API.get((api, code))
    if exception is not None:
        return exception
    return _TABLE[code][1] if code in _TABLE else Action.CONFIG


_ERRORS: dict[Action, type[SemelError]] = {
    Action.RETRY: Retriable,
    Action.REFRESH: Retriable,
    Action.COORDINATOR: Retriable,
    Action.SETTLE: AbortAndRetry,
    Action.ABORT: AbortAndRetry,
    Action.FENCED: Fenced,
    Action.CONFIG: ConfigError,
    Action.DATA_LOSS: DataLoss,
    Action.UNSUPPORTED: Unsupported,
}


def error(api: str, code: int, subject: str, meaning: str = "Nothing was committed.") -> SemelError:
    """Return the exception for a code that will not be repeated.

    ``subject`` names the request, ``meaning`` its consequence for the data.
    """
    hint = advice(code) or acl_hints.advice(api, code)
    remedy = f": {hint}" if hint else "."
    return _ERRORS[of(api, code)](f"{subject}: the broker answered {name(code)}{remedy} {meaning}", tag=name(code))


_CHECK = "Check that all brokers run and that bootstrap.servers is right, then start again."


def given_up(subject: str, problem: str, meaning: str, tag: str | None = None) -> Retriable:
    """Return the exception for a request that was repeated until its deadline. It is the last that users see of a
    broker that does not answer.

    ``problem`` is the last cause: the name of a code, or a message. If that message already has the advice, the advice
    is given once.
    """
    return Retriable(f"{subject}: {briefly(problem)} {meaning} {_CHECK}", tag=tag)


def unanswered(api: str) -> str:
    """Return the consequence of a request of this kind that was repeated and got no answer that settles it."""
    if api.startswith(("Metadata", "List", "Describe", "Find", "Fetch", "OffsetFetch")):
        return "Nothing was read or written by it."
    return "Whether a broker has done it is not known; asking again does no harm."


def briefly(problem: str) -> str:
    """Return a message of :func:`given_up` without its advice, or the name of a code, for use in another message."""
    cause = problem.removesuffix(_CHECK).rstrip(" .")
    return cause if cause.endswith("?") else f"{cause}."
