"""What a writing task answers when it is stopped: by us, by Spark, or by something that nobody has thought of."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from semel.errors import AbortAndRetry, ConfigError
from semel.spark.job.task import result_of
from semel.transaction.participant import SECOND_ATTEMPT
from semel.transaction.ticket import Receipt

ROWS = [pa.record_batch({"value": ["x"]}), pa.record_batch({"value": ["y"]})]


def cut_short() -> Iterator[pa.RecordBatch]:
    """Rows whose stage before ended: Spark closes the stream, and tells why elsewhere."""
    yield ROWS[0]
    raise OSError("the stream has ended")


def unknown(rows: Iterator[pa.RecordBatch]) -> Receipt:
    next(rows)
    raise OverflowError("too much")


def refused(rows: Iterator[pa.RecordBatch]) -> Receipt:
    raise ConfigError("not this row")


def second(rows: Iterator[pa.RecordBatch]) -> Receipt:
    raise AbortAndRetry("again", tag=SECOND_ATTEMPT)


def taking_all(rows: Iterator[pa.RecordBatch]) -> Receipt:
    raise AssertionError(f"{len(list(rows))} rows were taken")


def test_what_nobody_has_thought_of_is_answered_with_its_cause() -> None:
    """Raised, it would start the task again, and the driver would be told of a second attempt alone."""
    told = result_of(unknown, iter(ROWS))
    assert isinstance(told, AbortAndRetry)
    assert told.tag == "TASK_BROKE"
    assert "OverflowError: too much (test_task.py, line " in told.message


def test_our_refusal_is_theanswer() -> None:
    told = result_of(refused, iter(ROWS))
    assert isinstance(told, ConfigError)
    assert told.message == "not this row"


def test_what_ends_the_rows_is_sparks_to_tell() -> None:
    with pytest.raises(OSError, match="the stream has ended"):
        result_of(taking_all, cut_short())


def test_a_second_attempt_writes_nothing_and_yet_takes_its_rows() -> None:
    rows = iter(ROWS)
    told = result_of(second, rows)
    assert isinstance(told, AbortAndRetry)
    assert told.tag == SECOND_ATTEMPT
    assert list(rows) == []
    with pytest.raises(OSError, match="the stream has ended"):
        result_of(second, cut_short())
