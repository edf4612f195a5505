"""How a former transaction ended, by what was written of it (PROTOCOL 5.3).

With rows behind which a marker is looked for: tests/objections/test_a_partition_without_a_leader.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from semel.errors import DataLoss, Unsupported
from semel.read.raw_log import EndMarker, LogRecord
from semel.transaction.markers.outcome import transaction_outcome
from semel.transaction.progress.log import parse_progress_log
from semel.transaction.progress.record import Progress, RecordedOutcome, claim_key, decided_key, progress_key
from semel.wire.deadline import Deadline

QUERY, BATCH = progress_key("orders-out", "query"), progress_key("orders-out", "batch")
CLAIM = LogRecord(0, -1, -1, False, claim_key("orders-out"), b'{"v":1}')
OLD_DECIDED = LogRecord(1, -1, -1, False, b'["orders-out",{"scope":"decided"}]', RecordedOutcome(7, 4, True).encode())
NOBODY: Any = None


def record(offset: int, producer: int, epoch: int, key: bytes | None = QUERY) -> LogRecord:
    """Without a key, a record that forgets."""
    return LogRecord(offset, producer, epoch, True, key or QUERY, Progress(batch=offset).encode() if key else None)


def moved(offset: int, producer: int, epoch: int) -> LogRecord:
    return LogRecord(offset, producer, epoch, True, QUERY, Progress(moved="orders-new").encode())


def decided(offset: int, *decision: Any, prefix: str = "orders-out") -> LogRecord:
    return LogRecord(
        offset, -1, -1, False, decided_key(prefix, f"writer-{offset}"), RecordedOutcome(*decision).encode()
    )


@pytest.mark.parametrize(
    ("events", "committed"),
    [
        pytest.param([], None, id="no record of this prefix: another program's rows, or progress is kept elsewhere"),
        pytest.param([CLAIM, CLAIM], None, id="a claim says nothing: any process writes one"),
        pytest.param(
            [moved(1, 6, 3), EndMarker(2, 6, 4, True)],
            None,
            id="a record that says where this prefix has moved to is of another id",
        ),
        pytest.param([CLAIM, record(1, 7, 4), EndMarker(2, 7, 5, True)], True, id="its record is committed"),
        pytest.param([CLAIM, record(1, 7, 4), EndMarker(2, 7, 5, False)], False, id="its record is aborted"),
        pytest.param(
            [CLAIM, record(1, 7, 4, BATCH), EndMarker(2, 7, 5, True)], True, id="its record is of another scope"
        ),
        pytest.param([CLAIM, record(1, 7, 4)], None, id="its record is open, and names no rows"),
        pytest.param(
            [CLAIM, record(1, 7, 4), decided(2, 7, 4, True)], True, id="its owner has written it down: committed"
        ),
        pytest.param(
            [CLAIM, decided(1, 7, 4, False), decided(2, 7, 3, True)], False, id="its owner has written it down: aborted"
        ),
        pytest.param(
            [CLAIM, decided(1, 7, 4, False), decided(2, 7, 4, True)],
            False,
            id="two have written it down: the first counts",
        ),
        pytest.param([CLAIM, OLD_DECIDED], True, id="it was written down in version 1, with one key for all"),
        pytest.param(
            [CLAIM, decided(1, 7, 3, True), decided(2, 8, 4, True)], None, id="what was written down is of others"
        ),
        pytest.param(
            [CLAIM, decided(1, 7, 4, True, prefix="orders")], None, id="what was written down is of another prefix"
        ),
        pytest.param(
            [record(1, 7, 3), EndMarker(2, 7, 4, True)],
            False,
            id="the newest record is older: progress is the last thing that is written",
        ),
        pytest.param([record(1, 7, 3, None), EndMarker(2, 7, 4, True)], False, id="and it may be one that forgets"),
        pytest.param(
            [CLAIM, record(1, 7, 5), EndMarker(2, 7, 6, False)], None, id="a newer record may have pushed its own out"
        ),
        pytest.param(
            [CLAIM, record(1, 7, 5, BATCH), EndMarker(2, 7, 6, True)], None, id="and so may one of another scope"
        ),
        pytest.param(
            [CLAIM, record(1, 6, 9), EndMarker(2, 6, 10, True)],
            False,
            id="a record of the producer id before this one is older",
        ),
    ],
)
def test_by_what_was_written(events: list[LogRecord | EndMarker], committed: bool | None) -> None:
    assert transaction_outcome(NOBODY, 7, 4, parse_progress_log(events, QUERY, "here"), 7, Deadline(0)) is committed


def test_a_former_producer_id_is_older_than_whatever_else_is_there() -> None:
    settled = parse_progress_log([CLAIM, record(1, 7, 0), EndMarker(2, 7, 1, True)], QUERY, "here")
    assert transaction_outcome(NOBODY, 6, 32_766, settled, 7, Deadline(0)) is None


def test_who_does_not_know_the_ids_producer_id_of_now_takes_each_other_one_for_newer() -> None:
    settled = parse_progress_log([record(1, 8, 0), EndMarker(2, 8, 1, True)], QUERY, "here")
    assert transaction_outcome(NOBODY, 7, 4, settled, None, Deadline(0)) is None
    assert transaction_outcome(NOBODY, 8, 4, settled, None, Deadline(0)) is False


def test_what_is_written_down_is_refused_when_damaged_or_newer() -> None:
    assert RecordedOutcome.decode(b'{"committed":true,"epoch":4,"producer":7,"v":1}', "here") == RecordedOutcome(
        7, 4, True
    )
    for text in (b"{", b'{"v":1}', b'{"committed":1,"epoch":4,"producer":7,"v":1}', b"7"):
        with pytest.raises(DataLoss, match="here"):
            RecordedOutcome.decode(text, "here")
    with pytest.raises(Unsupported, match="has version 2"):
        RecordedOutcome.decode(b'{"v":2}', "here")
