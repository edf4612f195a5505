"""Whether somebody has written progress since: what an owner that was fenced may still say of its own transaction."""

from __future__ import annotations

import pytest

from semel.transaction.end_txn import written_by_successor
from semel.transaction.progress.log import ProgressLog, ProgressRecord
from semel.transaction.progress.record import Progress
from semel.wire.api.transactions import Identity

OURS = Identity("orders", 7, 3)


def record(offset: int, producer_id: int, epoch: int) -> ProgressRecord:
    return ProgressRecord(offset, producer_id, epoch, Progress(batch=0), True)


@pytest.mark.parametrize(
    ("offset", "producer_id", "epoch", "newer"),
    [
        (9, 7, 2, False),  # what was there when the id was taken over
        (11, 7, 2, False),  # our own transaction before this one
        (11, 7, 3, False),
        (11, 7, 5, True),  # whoever has fenced us
        (11, 8, 0, True),  # the same, at the epochs' end
        (9, 8, 0, False),
    ],
)
def test_newer_progress_is_known_by_its_place_and_its_writer(
    offset: int, producer_id: int, epoch: int, newer: bool
) -> None:
    before = ProgressLog((record(9, 7, 1),))
    assert written_by_successor(OURS, before, ProgressLog((record(offset, producer_id, epoch),))) is newer
    assert written_by_successor(OURS, ProgressLog(()), ProgressLog(())) is False
