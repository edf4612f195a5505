"""The table of PROTOCOL 6, row by row, and its refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from semel.errors import DataLoss
from semel.spark.sink.differences import Rows
from semel.spark.sink.reconcile import Decision, Rebuild, Run, Skip, reconcile
from semel.transaction.progress.record import KafkaSource, Progress, TopicEnd
from tests.spark.support.reconcile_plans import P41, Q, at, part, plan, progress, refused, simple


@pytest.mark.parametrize("stateful", [False, True])
def test_no_progress_runs_batch_0_and_refuses_every_other(stateful: bool) -> None:
    assert reconcile(simple(0, 5, 9, stateful=stateful), None) == Run()
    found = refused(reconcile(simple(7, 5, 9, stateful=stateful), None))
    assert "the sink has no progress" in found.message
    assert (found.repeated, found.missed) == ((), ())


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("end", [100, 130])
def test_next_batch_of_the_same_query_that_starts_at_the_progress_runs(stateful: bool, end: int) -> None:
    assert reconcile(simple(42, 100, end, stateful=stateful), P41) == Run()


@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize(("start", "repeated", "missed"), [(90, 10, 0), (110, 0, 10)])
def test_next_batch_that_starts_elsewhere_is_refused_with_its_ranges(
    stateful: bool, start: int, repeated: int, missed: int
) -> None:
    found = refused(reconcile(simple(42, start, 130, stateful=stateful), P41))
    assert found.repeated == ((Rows("in", 0, start, 100),) if repeated else ())
    assert found.missed == ((Rows("in", 0, 100, start),) if missed else ())
    verb = "repeat rows in-0 90 to 99" if repeated else "miss rows in-0 100 to 109"
    assert verb in found.message
    assert "(10 offsets)" in found.message


@pytest.mark.parametrize(("batch", "query"), [(0, "other"), (7, "other"), (42, "other"), (43, Q), (50, Q), (3, Q)])
def test_stateless_with_sources_of_ours_runs_under_any_query_and_number_at_the_progress(batch: int, query: str) -> None:
    assert reconcile(simple(batch, 100, 130, query=query), P41) == Run()


@pytest.mark.parametrize(("batch", "query"), [(0, "other"), (7, "other"), (42, "other"), (43, Q), (50, Q), (3, Q)])
def test_stateful_does_not(batch: int, query: str) -> None:
    found = refused(reconcile(simple(batch, 100, 130, query=query, stateful=True), P41))
    assert "keeps state" in found.message
    assert "The offsets alone do not show which rows" in found.message
    assert "Sums would start at a wrong value, in a new checkpoint at 0" in found.reason
    assert "a new, empty checkpoint (this one holds the refused batch), which begins at" in found.message
    assert "startingOffsets=committed" not in found.message, "an empty checkpoint has none of the state"
    assert f"a copy of the checkpoint of query {Q} that has reached batch 41" in found.message
    assert "the state is built again from all rows" in found.message


@pytest.mark.parametrize(
    ("batch", "start", "end"), [(41, 90, 100), (41, 50, 100), (41, 50, 80), (40, 50, 100), (0, 0, 100), (41, 100, 100)]
)
def test_stateless_batch_below_the_progress_is_skipped(batch: int, start: int, end: int) -> None:
    assert reconcile(simple(batch, start, end), P41) == Skip()


@pytest.mark.parametrize(
    ("stateful", "batch", "done"), [(False, 0, Skip()), (False, 41, Skip()), (True, 41, Rebuild())]
)
def test_a_query_that_begins_earlier_than_it_once_did_is_not_taken_for_done(
    stateful: bool, batch: int, done: Decision
) -> None:
    """Its offset log is lost, and it is started with other offsets: the progress says nothing of the rows in front of
    where it began.
    """

    def begun(offset: int | None) -> Progress:
        there = TopicEnd("t1", {0: 100}, None if offset is None else {0: offset})
        return progress(41, KafkaSource("c1", {"in": there}))

    planned = simple(batch, 0, 100, stateful=stateful)
    found = refused(reconcile(planned, begun(50)))
    assert "in-0 begins at 0 now and began at 50: this query has never read the rows between" in found.message
    assert reconcile(planned, begun(50), override=found.token) == Run(overridden=found)
    for known in (0, None):  # as it did; by a semel that did not say so
        assert reconcile(planned, begun(known)) == done
    later = plan(batch, part(at({0: 60}), at({0: 100}), at({0: 60})), stateful=stateful)
    assert reconcile(later, begun(50)) == done
    another = refused(reconcile(replace(planned, query="other"), begun(50)))
    assert "this query has never read" not in another.message


@pytest.mark.parametrize(("batch", "start", "end"), [(41, 90, 101), (40, 99, 200), (0, 0, 101)])
def test_stateless_batch_that_only_begins_below_the_progress_is_refused(batch: int, start: int, end: int) -> None:
    found = refused(reconcile(simple(batch, start, end), P41))
    assert found.repeated == (Rows("in", 0, start, 100),)


@pytest.mark.parametrize(("batch", "start", "end"), [(42, 90, 100), (43, 0, 10)])
def test_nothing_above_the_progress_is_skipped_by_its_offsets_alone(batch: int, start: int, end: int) -> None:
    refused(reconcile(simple(batch, start, end), P41))


def test_another_query_is_never_skipped() -> None:
    """A new checkpoint that begins anew would be skipped up to the progress, though the user asked for it."""
    found = refused(reconcile(simple(0, 0, 50, query="other"), P41))
    assert found.repeated == (Rows("in", 0, 0, 100),)


def test_all_partitions_must_be_below() -> None:
    done = progress(41, at({0: 100, 1: 7}))
    assert reconcile(plan(41, part(at({0: 90, 1: 5}), at({0: 100, 1: 7}))), done) == Skip()
    found = refused(reconcile(plan(41, part(at({0: 90, 1: 5}), at({0: 100, 1: 8}))), done))
    assert found.repeated == (Rows("in", 0, 90, 100), Rows("in", 1, 5, 7))


def test_stateful_replay_of_the_very_batch_rebuilds() -> None:
    assert reconcile(simple(41, 90, 100, stateful=True), P41) == Rebuild()


@pytest.mark.parametrize(("batch", "end"), [(41, 99), (41, 101), (40, 100), (40, 90)])
def test_stateful_replay_of_anything_else_is_refused(batch: int, end: int) -> None:
    """A checkpoint restored from an older copy: batch 40 has no state for what follows."""
    refused(reconcile(simple(batch, 80, end, stateful=True), P41))


def test_stateful_replay_with_another_set_of_partitions_is_refused() -> None:
    refused(reconcile(plan(41, part(at({0: 90, 1: 0}), at({0: 100, 1: 0})), stateful=True), P41))


# Partitions and topics


def test_partitions_found_later_start_at_0() -> None:
    assert reconcile(plan(42, part(at({0: 100, 1: 0}), at({0: 100, 1: 20}))), P41) == Run()


@pytest.mark.parametrize("query", [Q, "other"])
def test_partitions_found_later_that_start_above_0_are_data_loss(query: str) -> None:
    found = refused(reconcile(plan(42, part(at({0: 100, 1: 6}), at({0: 100, 1: 20})), query=query), P41))
    assert found.missed == (Rows("in", 1, 0, 6),)
    assert found.tag == "DATA_LOSS"
    assert isinstance(found.error(), DataLoss)


def test_topic_found_later_starts_at_0_too() -> None:
    def both(old: int, new: int) -> KafkaSource:
        return KafkaSource("c1", {"in": TopicEnd("t1", {0: old}), "more": TopicEnd("t2", {0: new})})

    assert reconcile(plan(42, part(both(100, 0), both(120, 9))), P41) == Run()
    found = refused(reconcile(plan(42, part(both(100, 4), both(120, 9))), P41))
    assert found.missed == (Rows("more", 0, 0, 4),)


@pytest.mark.parametrize("stateful", [False, True])
def test_partition_or_topic_that_the_batch_lacks_is_refused(stateful: bool) -> None:
    done = progress(41, at({0: 100, 1: 7}))
    found = refused(reconcile(simple(42, 100, 120, stateful=stateful), done))
    assert "in-1 is in the progress (up to 7) and not in the batch" in found.message
    found = refused(
        reconcile(plan(42, part(at({0: 3}, topic="else"), at({0: 4}, topic="else")), stateful=stateful), P41)
    )
    assert "in-0 is in the progress (up to 100)" in found.message


@pytest.mark.parametrize("batch", [41, 42])
@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("start_id", ["t1", "t2"])
def test_topic_created_again_is_refused_as_data_loss(batch: int, stateful: bool, start_id: str) -> None:
    """The new topic's offsets look like old ones: neither running nor skipping by them is right."""
    found = refused(
        reconcile(plan(batch, part(at({0: 100}, id=start_id), at({0: 100}, id="t2")), stateful=stateful), P41)
    )
    assert "created again" in found.message
    assert "startingOffsets=committed" not in found.message, "where the progress ends means nothing for the new topic"
    assert (found.tag, found.repeated, found.missed) == ("DATA_LOSS", (), ())


def test_a_checkpoint_from_before_the_topic_was_created_again_is_told_what_it_would_repeat() -> None:
    """The progress is of the new topic by then: it can be gone on from."""
    done = progress(41, at({0: 80, 1: 0}, id="t2"))
    found = refused(reconcile(plan(30, part(at({0: 100}, id="t1"), at({0: 120, 1: 0}, id="t2"))), done))
    assert (
        "created again (id t1, now t2), and the progress is of the new one: this checkpoint is older" in found.message
    )
    assert (found.tag, found.repeated, found.missed) == ("PROGRESS_MISMATCH", (Rows("in", 0, 0, 80),), ())
    assert (
        "to resume from the progress, with nothing repeated or missed, start with a new, empty checkpoint"
        in found.message
    )


def test_it_is_told_too_what_retention_has_taken_of_the_new_topic() -> None:
    done = progress(41, at({0: 80}, id="t2"))
    planned = KafkaSource("c1", {"in": TopicEnd("t2", {0: 120}, began={0: 95})})
    found = refused(reconcile(plan(30, part(at({0: 100}, id="t1"), planned)), done))
    assert "in-0 of the new one begins at 95, and is committed only up to 80" in found.message
    assert (found.tag, found.repeated, found.missed) == ("DATA_LOSS", (), (Rows("in", 0, 80, 95),))


@pytest.mark.parametrize("batch", [41, 42])
@pytest.mark.parametrize("start_cluster", ["c1", "c2"])
def test_source_of_another_cluster_is_refused(batch: int, start_cluster: str) -> None:
    found = refused(reconcile(plan(batch, part(at({0: 100}, cluster=start_cluster), at({0: 100}, cluster="c2"))), P41))
    assert "reads cluster c2 and the progress is of cluster c1" in found.message
