"""Which records of a log count, by the markers after them."""

from __future__ import annotations

from semel.read.claimed_log import Settled, settle
from semel.read.raw_log import EndMarker, LogRecord


def record(offset: int, producer: int, *, transactional: bool = True, epoch: int = 0) -> LogRecord:
    return LogRecord(offset, producer, epoch, transactional, b"key", b"value")


def test_each_record_is_settled_by_the_next_marker_of_its_producer() -> None:
    one, two, three, four = record(0, 7), record(1, 8), record(3, 7), record(5, 8)
    events: list[LogRecord | EndMarker] = [
        one,
        two,
        EndMarker(2, 7, 1, True, 50),
        three,
        EndMarker(4, 8, 0, False, 60),
        four,
    ]
    assert settle(events) == [
        Settled(one, True, 50),
        Settled(two, False, 60),
        Settled(three, None),
        Settled(four, None),
    ]


def test_a_plain_record_counts_at_once_and_a_marker_does_not_change_it() -> None:
    plain = record(0, 7, transactional=False)
    assert settle([plain, EndMarker(1, 7, 0, False)]) == [Settled(plain, True)]


def test_unwanted_records_are_skipped_open_or_not() -> None:
    wanted, other = record(0, 7), record(1, 8)
    assert settle([wanted, other, EndMarker(2, 7, 0, True)], lambda one: one.producer_id == 7) == [
        Settled(wanted, True)
    ]
