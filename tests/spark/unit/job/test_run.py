"""The driver's side of a job of tickets: what becomes of Spark's errors and of the tasks' answers."""

from __future__ import annotations

import pytest

from semel.errors import AbortAndRetry, ConfigError
from semel.spark.job.run import receipts_of, spark_errors
from semel.transaction.participant import SECOND_ATTEMPT
from semel.transaction.ticket import Receipt
from semel.wire.api.transactions import Identity

RECEIPT = Receipt(0, Identity("id", 1, 0), {}, 3, 0)


def test_receipts_are_returned() -> None:
    assert receipts_of([RECEIPT, RECEIPT]) == [RECEIPT, RECEIPT]


def test_the_first_error_is_raised() -> None:
    with pytest.raises(ConfigError, match="the first"):
        receipts_of([RECEIPT, ConfigError("the first"), ConfigError("the second")])


def test_a_second_attempt_only_echoes_the_error_of_the_first() -> None:
    echo = AbortAndRetry("again", tag=SECOND_ATTEMPT)
    with pytest.raises(ConfigError, match="the cause"):
        receipts_of([echo, ConfigError("the cause")])
    with pytest.raises(AbortAndRetry, match=SECOND_ATTEMPT):
        receipts_of([RECEIPT, echo])


@pytest.mark.parametrize("runs_users_code", [False, True])
def test_our_error_is_found_in_sparks_text(runs_users_code: bool) -> None:
    with pytest.raises(ConfigError, match="no such column"), spark_errors(runs_users_code=runs_users_code):
        raise RuntimeError(f"Job aborted: semel.errors.ConfigError: {ConfigError('no such column')}")


@pytest.mark.parametrize("runs_users_code", [False, True])
def test_an_error_that_is_not_of_sparks_java_is_passed_on(runs_users_code: bool) -> None:
    with pytest.raises(ZeroDivisionError), spark_errors(runs_users_code=runs_users_code):
        raise ZeroDivisionError
