"""Where numbers are born: what one call of a sink and all of them together are, without Spark and Kafka."""

from __future__ import annotations

import threading
from itertools import count

import pytest

from semel.config import ClientConfig
from semel.errors import Fenced
from semel.spark.metrics import meter as metrics
from semel.spark.metrics.meter import BatchOutcome, Meter, TopicTotals, find, meter, meters
from semel.steps import OwnerStep, SinkStep, keep_timing_in_thread, reached

CONFIG = ClientConfig((("localhost", 9092),))
_numbers = count(1)


@pytest.fixture
def mine() -> Meter:
    return Meter(CONFIG, "orders", ("out",))


def written(mine: Meter, number: int, *, rows: int = 10, run: str = "run") -> None:
    with mine.measure(number) as batch:
        batch.run = run
        mine.ended(True)
        batch.outcome, batch.wrote = BatchOutcome.WRITTEN, {"out": TopicTotals(rows, rows * 5)}


def test_calls_add_up(mine: Meter) -> None:
    written(mine, 0)
    with mine.measure(1) as batch:
        mine.ended(False)
        mine.again()
        mine.ended(True)
        batch.outcome, batch.wrote = BatchOutcome.WRITTEN, {"out": TopicTotals(3, 30), "other": TopicTotals(1, 7)}
    with mine.measure(1) as batch:
        batch.outcome = BatchOutcome.SKIPPED
    totals = mine.totals
    assert (totals.commits, totals.aborts, totals.reruns) == (2, 1, 1)
    assert totals.batches == {"written": 2, "skipped": 1}
    assert totals.wrote == {"out": TopicTotals(13, 80), "other": TopicTotals(1, 7)}
    assert [(b.number, b.commits, b.aborts, b.reruns) for b in mine.batches] == [
        (0, 1, 0, 0),
        (1, 1, 1, 1),
        (1, 0, 0, 0),
    ]
    assert mine.batches[1].as_dict()["rows"] == 4
    assert totals.seconds == sum(b.seconds for b in mine.batches)


def test_what_is_raised_has_failed_and_its_rows_do_not_count(mine: Meter) -> None:
    with pytest.raises(Fenced), mine.measure(0):
        raise Fenced("gone")
    with pytest.raises(ZeroDivisionError), mine.measure(1):
        _ = 1 / 0
    assert [(b.outcome, b.error) for b in mine.batches] == [
        (BatchOutcome.FAILED, "FENCED"),
        (BatchOutcome.FAILED, None),
    ]
    assert (mine.totals.batches, mine.totals.wrote, mine.totals.committed_at) == ({"failed": 2}, {}, None)


def test_steps_are_timed_from_one_to_the_next_and_beside_each_other(
    mine: Meter, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    monkeypatch.setattr("semel.steps.time.monotonic", lambda: clock[0])

    def after(seconds: float, step: OwnerStep | SinkStep) -> None:
        clock[0] += seconds
        reached(step)

    with mine.measure(0) as batch:
        after(1, SinkStep.CALLED)
        after(2, OwnerStep.BEGUN)
        after(4, OwnerStep.COMMIT_ANSWERED)
        watching = keep_timing_in_thread(lambda: after(8, OwnerStep.MARKERS_SEEN))
        after(16, OwnerStep.BEGUN)
    waiting = threading.Thread(target=watching)
    waiting.start()
    waiting.join()
    reached(OwnerStep.CLAIMED)  # nobody's: the call is over
    assert batch.steps == {"called": 1, "begun": 18, "commit_answered": 4, "markers_seen": 24}
    assert mine.totals.steps == {"called": (1, 1), "begun": (2, 18), "commit_answered": (1, 4), "markers_seen": (1, 24)}
    assert batch.seconds == 23


def test_another_thread_has_its_own_call(mine: Meter) -> None:
    """A second call for one batch may be refused while the first is at work: what the first does is not its own."""
    with mine.measure(0) as first:
        other = threading.Thread(target=written, args=(mine, 1))
        other.start()
        other.join()
        mine.ended(True)
        first.outcome = BatchOutcome.WRITTEN
    assert [(b.number, b.commits) for b in mine.batches] == [(1, 1), (0, 1)]


def test_it_is_bounded(mine: Meter) -> None:
    for number in range(250):
        written(mine, number)
    assert [b.number for b in mine.batches] == list(range(150, 250))
    assert mine.totals.commits == 250


def test_meters_are_kept_by_prefix_and_cluster_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_meters", type(metrics._meters)())
    one = meter(CONFIG, "one", ("a",))
    assert meter(CONFIG, "one", ("b",)) is one
    assert one.outputs == ("b",), "a sink that is made anew goes on with the numbers, and has its own settings"
    assert meter(ClientConfig((("elsewhere", 9092),)), "one", ("a",)) is not one
    for number in range(metrics._PREFIXES):
        meter(CONFIG, f"other-{number}", ())
    assert len(meters()) == metrics._PREFIXES
    assert one not in meters()


def test_a_batch_is_found_by_run_and_number() -> None:
    run = f"run-{next(_numbers)}"
    mine = meter(CONFIG, f"found-{run}", ("out",))
    for number in (0, 1):
        written(mine, number, run=run, rows=number)
    found = find(run, 1)
    assert found is not None
    assert found.wrote == {"out": TopicTotals(1, 5)}
    assert (find(run, 2), find("other", 1)) == (None, None)
