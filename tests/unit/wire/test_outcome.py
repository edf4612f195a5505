"""The table of error codes: a row for each code that kafka-python knows, and none more."""

import pytest
from kafka.errors import kafka_errors

from semel.errors import AbortAndRetry, ConfigError, DataLoss, Fenced, Retriable, SemelError, Unsupported
from semel.wire import outcome
from semel.wire.outcome import _ADVICE, _BY_API, _ERRORS, _TABLE, Outcome

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
    assert outcome.name(9999) == "error 9999"
    assert outcome.of("EndTxn", 9999) is Outcome.CONFIG
    assert isinstance(outcome.error("EndTxn", 9999, "committing"), ConfigError)


@pytest.mark.parametrize(
    ("api", "code", "asked"),
    [
        ("Produce", 0, Outcome.OK),
        ("Produce", 6, Outcome.REFRESH),
        ("Produce", 19, Outcome.RETRY),
        ("Produce", 10, Outcome.CONFIG),
        ("Produce", 45, Outcome.ABORT),
        ("Produce", 120, Outcome.ABORT),
        ("EndTxn", 16, Outcome.COORDINATOR),
        ("EndTxn", 51, Outcome.RETRY),
        ("AddPartitionsToTxn", 51, Outcome.RETRY),
        ("OffsetFetch", 88, Outcome.RETRY),
        ("Fetch", 1, Outcome.DATA_LOSS),
        ("Metadata", 35, Outcome.UNSUPPORTED),
        # what means one thing here and another there
        ("Metadata", 3, Outcome.REFRESH),
        ("Produce", 3, Outcome.REFRESH),
        ("TxnOffsetCommit", 3, Outcome.CONFIG),
        ("Produce", 2, Outcome.ABORT),
        ("Fetch", 2, Outcome.DATA_LOSS),
        ("FindCoordinator", 15, Outcome.RETRY),
        ("EndTxn", 15, Outcome.COORDINATOR),
        ("InitProducerId", 47, Outcome.FENCED),
        ("InitProducerId", 90, Outcome.FENCED),
        ("InitProducerId", 48, Outcome.ABORT),
        ("InitProducerId", 49, Outcome.ABORT),
        ("Produce", 100, Outcome.REFRESH),
        ("Fetch", 100, Outcome.DATA_LOSS),
        ("Fetch", 103, Outcome.DATA_LOSS),
        ("DescribeTransactions", 105, Outcome.SETTLE),
        ("InitProducerId", 105, Outcome.CONFIG),
    ],
)
def test_what_a_code_asks_for(api: str, code: int, asked: Outcome) -> None:
    assert outcome.of(api, code) is asked


@pytest.mark.parametrize("api", ["EndTxn", "AddPartitionsToTxn", "TxnOffsetCommit", "Produce"])
@pytest.mark.parametrize("code", [47, 48, 49, 90])
def test_what_settles_nothing_by_itself_is_left_to_the_owner(api: str, code: int) -> None:
    assert outcome.of(api, code) is Outcome.SETTLE


def test_each_exception_is_one() -> None:
    same = {key: asked for key, asked in _BY_API.items() if _TABLE[key[1]][1] is asked}
    assert same == {}


def test_only_known_codes_have_advice() -> None:
    assert set(_ADVICE) <= set(_TABLE)


@pytest.mark.parametrize(
    ("asked", "cls"),
    [
        (Outcome.RETRY, Retriable),
        (Outcome.REFRESH, Retriable),
        (Outcome.COORDINATOR, Retriable),
        (Outcome.SETTLE, AbortAndRetry),
        (Outcome.ABORT, AbortAndRetry),
        (Outcome.FENCED, Fenced),
        (Outcome.CONFIG, ConfigError),
        (Outcome.DATA_LOSS, DataLoss),
        (Outcome.UNSUPPORTED, Unsupported),
    ],
)
def test_each_outcome_but_ok_is_an_error_of_its_action(asked: Outcome, cls: type[SemelError]) -> None:
    assert set(_ERRORS) == set(Outcome) - {Outcome.OK}
    codes = [code for code, (_, row) in _TABLE.items() if row is asked and ("Other", code) not in _BY_API]
    for code in codes:
        assert type(outcome.error("Other", code, "asking")) is cls


def test_a_message_says_what_was_asked_what_was_answered_what_it_means_and_what_to_do() -> None:
    error = outcome.error("Produce", 10, "writing to out-0", "Nothing of this transaction is visible.")
    assert str(error) == (
        "[SEMEL_MESSAGE_TOO_LARGE] writing to out-0: the broker answered MESSAGE_TOO_LARGE: a record or batch is larger than the topic's"
        " max.message.bytes. Make rows smaller, or raise max.message.bytes. Nothing of this transaction is visible."
    )
    plain = outcome.error("EndTxn", 42, "committing 'orders'")
    assert str(plain) == "[SEMEL_INVALID_REQUEST] committing 'orders': the broker answered INVALID_REQUEST. Nothing was committed."


def test_what_was_given_up_says_what_to_do_once() -> None:
    advice = "Check that all brokers run and that bootstrap.servers is right, then start again."
    inner = outcome.given_up("Metadata was not settled", "a:1 could not be reached: refused.", "Nothing was read.")
    assert str(inner) == f"[SEMEL_TIMEOUT] Metadata was not settled: a:1 could not be reached: refused. Nothing was read. {advice}"
    outer = outcome.given_up("no answer for in-0", inner.message, "Nothing was written.", "CONNECTION")
    assert outer.message == f"no answer for in-0: {inner.message.removesuffix(advice)}Nothing was written. {advice}"
    assert outer.tag == "CONNECTION"
    assert "settled: NOT_COORDINATOR. Nothing" in outcome.given_up("EndTxn was not settled", "NOT_COORDINATOR", "Nothing was written.").message
