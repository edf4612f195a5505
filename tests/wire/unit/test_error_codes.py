"""The table of error codes: a row for each code that kafka-python knows, and none more."""

import pytest
from kafka.errors import kafka_errors

from semel.errors import AbortAndRetry, ConfigError, DataLoss, Fenced, Retriable, SemelError, Unsupported
from semel.wire import error_codes
from semel.wire.error_codes import _ADVICE, _BY_API, _ERRORS, _TABLE, Action

#: The codes of a broker; its own class for errors without a code is none.
KNOWN = {code: error for code, error in kafka_errors.items() if code is not None}


def test_there_is_a_row_for_each_code_and_none_more() -> None:
    assert set(_TABLE) == set(KNOWN)


def test_the_names_are_those_of_the_java_client() -> None:
    different = {code: (name, KNOWN[code].message) for code, (name, _) in _TABLE.items() if KNOWN[code].message != name}
    # the five that kafka-python calls by names of its own
    assert different == {
        -1: ("UNKNOWN_SERVER_ERROR", "UNKNOWN"),
        0: ("NONE", "NO_ERROR"),
        6: ("NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_FOR_PARTITION"),
        10: ("MESSAGE_TOO_LARGE", "MESSAGE_SIZE_TOO_LARGE"),
        17: ("INVALID_TOPIC_EXCEPTION", "INVALID_TOPIC"),
    }


def test_a_code_that_nobody_knows_asks_for_a_person() -> None:
    assert error_codes.name(9999) == "error 9999"
    assert error_codes.of("EndTxn", 9999) is Action.CONFIG
    assert isinstance(error_codes.error("EndTxn", 9999, "committing"), ConfigError)


@pytest.mark.parametrize(
    ("api", "code", "asked"),
    [
        ("Produce", 0, Action.OK),
        ("Produce", 6, Action.REFRESH),
        ("Produce", 19, Action.RETRY),
        ("Produce", 10, Action.CONFIG),
        ("Produce", 45, Action.ABORT),
        ("Produce", 120, Action.ABORT),
        ("EndTxn", 16, Action.COORDINATOR),
        ("EndTxn", 51, Action.RETRY),
        ("AddPartitionsToTxn", 51, Action.RETRY),
        ("OffsetFetch", 88, Action.RETRY),
        ("Fetch", 1, Action.DATA_LOSS),
        ("Metadata", 35, Action.UNSUPPORTED),
        # what means one thing here and another there
        ("Metadata", 3, Action.REFRESH),
        ("Produce", 3, Action.REFRESH),
        ("TxnOffsetCommit", 3, Action.CONFIG),
        ("Produce", 2, Action.ABORT),
        ("Fetch", 2, Action.DATA_LOSS),
        ("FindCoordinator", 15, Action.RETRY),
        ("EndTxn", 15, Action.COORDINATOR),
        ("InitProducerId", 47, Action.FENCED),
        ("InitProducerId", 90, Action.FENCED),
        ("InitProducerId", 48, Action.ABORT),
        ("InitProducerId", 49, Action.ABORT),
        ("Produce", 100, Action.REFRESH),
        ("Fetch", 100, Action.DATA_LOSS),
        ("Fetch", 103, Action.DATA_LOSS),
        ("DescribeTransactions", 105, Action.SETTLE),
        ("InitProducerId", 105, Action.CONFIG),
    ],
)
def test_what_a_code_asks_for(api: str, code: int, asked: Action) -> None:
    assert error_codes.of(api, code) is asked


@pytest.mark.parametrize("api", ["EndTxn", "AddPartitionsToTxn", "TxnOffsetCommit", "Produce"])
@pytest.mark.parametrize("code", [47, 48, 49, 90])
def test_what_settles_nothing_by_itself_is_left_to_the_owner(api: str, code: int) -> None:
    assert error_codes.of(api, code) is Action.SETTLE


def test_each_exception_is_one() -> None:
    same = {key: asked for key, asked in _BY_API.items() if _TABLE[key[1]][1] is asked}
    assert same == {}


def test_only_known_codes_have_advice() -> None:
    assert set(_ADVICE) <= set(_TABLE)


@pytest.mark.parametrize(
    ("asked", "cls"),
    [
        (Action.RETRY, Retriable),
        (Action.REFRESH, Retriable),
        (Action.COORDINATOR, Retriable),
        (Action.SETTLE, AbortAndRetry),
        (Action.ABORT, AbortAndRetry),
        (Action.FENCED, Fenced),
        (Action.CONFIG, ConfigError),
        (Action.DATA_LOSS, DataLoss),
        (Action.UNSUPPORTED, Unsupported),
    ],
)
def test_each_outcome_but_ok_is_an_error_of_its_action(asked: Action, cls: type[SemelError]) -> None:
    assert set(_ERRORS) == set(Action) - {Action.OK}
    codes = [code for code, (_, row) in _TABLE.items() if row is asked and ("Other", code) not in _BY_API]
    for code in codes:
        assert type(error_codes.error("Other", code, "asking")) is cls


def test_a_message_says_what_was_asked_what_was_answered_what_it_means_and_what_to_do() -> None:
    error = error_codes.error("Produce", 10, "writing to out-0", "Nothing of this transaction is visible.")
    assert str(error) == (
        "[SEMEL_MESSAGE_TOO_LARGE] writing to out-0: the broker answered MESSAGE_TOO_LARGE: a record or batch is"
        " larger than the topic's max.message.bytes. Make rows smaller, or raise max.message.bytes. Nothing of this"
        " transaction is visible."
    )
    plain = error_codes.error("EndTxn", 42, "committing 'orders'")
    assert (
        str(plain)
        == "[SEMEL_INVALID_REQUEST] committing 'orders': the broker answered INVALID_REQUEST. Nothing was committed."
    )


def test_what_was_given_up_says_what_to_do_once() -> None:
    advice = "Check that all brokers run and that bootstrap.servers is right, then start again."
    inner = error_codes.given_up("Metadata was not settled", "a:1 could not be reached: refused.", "Nothing was read.")
    assert (
        str(inner)
        == f"[SEMEL_TIMEOUT] Metadata was not settled: a:1 could not be reached: refused. Nothing was read. {advice}"
    )
    outer = error_codes.given_up("no answer for in-0", inner.message, "Nothing was written.", "CONNECTION")
    assert outer.message == f"no answer for in-0: {inner.message.removesuffix(advice)}Nothing was written. {advice}"
    assert outer.tag == "CONNECTION"
    assert (
        "settled: NOT_COORDINATOR. Nothing"
        in error_codes.given_up("EndTxn was not settled", "NOT_COORDINATOR", "Nothing was written.").message
    )
