"""The table of PROTOCOL 6, row by row, and its refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from semel.errors import DataLoss
from semel.spark.sink.differences import Rows
from semel.spark.sink.micro_batch import PlannedBatch, SourceBatch
from semel.spark.sink.progress_mismatch import Mismatch
from semel.spark.sink.reconcile import Decision, Rebuild, Run, Skip, reconcile
from semel.transaction.progress.record import KafkaSource, OpaqueSource, Progress, Source, TopicEnd

Q = "query-1"


def at(
    ends: Mapping[int, int], *, topic: str = "in", id: str = "t1", cluster: str = "c1", name: str | None = None
) -> KafkaSource:
    return KafkaSource(cluster, {topic: TopicEnd(id, dict(ends))}, name)


def part(
    start: Source | None, end: Source | None, began: KafkaSource | None = None, name: str | None = None
) -> SourceBatch:
    named = name if name is not None else next((s.name for s in (end, start) if s is not None), None)
    return SourceBatch(named, start, end, began)


def plan(batch: int, *sources: SourceBatch, query: str = Q, stateful: bool = False) -> PlannedBatch:
    return PlannedBatch(query, batch, stateful, sources)


def simple(batch: int, start: int, end: int, *, query: str = Q, stateful: bool = False) -> PlannedBatch:
    return plan(batch, part(at({0: start}), at({0: end}), at({0: 0})), query=query, stateful=stateful)


def progress(batch: int | None, *sources: Source, query: str | None = Q, run: str = "run-1") -> Progress:
    return Progress(query=query, run=run, batch=batch, sources=sources)


def refused(decision: Decision) -> Mismatch:
    assert isinstance(decision, Mismatch), decision
    return decision


P41 = progress(41, at({0: 100}))


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


# Several sources


def test_source_added_at_the_end_starts_where_it_began() -> None:
    new = part(at({0: 5}, topic="two"), at({0: 9}, topic="two"), at({0: 5}, topic="two"))
    old = part(at({0: 100}), at({0: 110}), at({0: 0}))
    assert reconcile(plan(42, old, new), P41) == Run()
    assert reconcile(plan(42, old, new, stateful=True), P41) == Run()
    refused(reconcile(plan(43, old, new), P41))
    refused(reconcile(plan(42, old, new, query="other"), P41))
    refused(reconcile(plan(42, replace(old, start=at({0: 99})), new), P41))
    found = refused(reconcile(plan(42, old, replace(new, start=at({0: 6}, topic="two"))), P41))
    assert "source 1 is not in the progress" in found.message


def test_source_added_in_front_changes_positions_and_is_refused() -> None:
    new = part(at({0: 5}, topic="two"), at({0: 9}, topic="two"), at({0: 5}, topic="two"))
    refused(reconcile(plan(42, new, part(at({0: 100}), at({0: 110}), at({0: 0}))), P41))


def test_sources_with_names_are_compared_by_name_wherever_they_stand() -> None:
    done = progress(41, at({0: 100}, name="a"), at({0: 7}, topic="two", name="b"))
    a = part(at({0: 100}, name="a"), at({0: 110}, name="a"))
    b = part(at({0: 7}, topic="two", name="b"), at({0: 8}, topic="two", name="b"))
    assert reconcile(plan(42, b, a), done) == Run()
    began = at({0: 3}, topic="new", name="c")
    c = part(began, at({0: 4}, topic="new", name="c"), began)
    assert reconcile(plan(42, c, b, a), done) == Run()
    found = refused(reconcile(plan(42, c, a), done))
    assert "source 'b' of the progress is not in the query" in found.message


def test_named_source_that_the_logged_batch_does_not_know_yet() -> None:
    """Added by name before the replay of a batch that was planned without it."""
    done = progress(41, at({0: 100}, name="a"))
    nothing = part(None, None, None, name="c")
    assert reconcile(plan(41, part(at({0: 90}, name="a"), at({0: 100}, name="a")), nothing), done) == Skip()
    assert (
        reconcile(plan(41, part(at({0: 90}, name="a"), at({0: 100}, name="a")), nothing, stateful=True), done)
        == Rebuild()
    )
    assert reconcile(plan(42, part(at({0: 100}, name="a"), at({0: 101}, name="a")), nothing), done) == Run()


def test_added_source_with_rows_is_not_skipped() -> None:
    new = part(at({0: 5}, topic="two"), at({0: 9}, topic="two"), at({0: 5}, topic="two"))
    refused(reconcile(plan(41, part(at({0: 90}), at({0: 100})), new), P41))


def test_names_that_come_or_go_are_refused() -> None:
    refused(reconcile(plan(42, part(at({0: 100}, name="a"), at({0: 110}, name="a"))), P41))
    refused(reconcile(simple(42, 100, 110), progress(41, at({0: 100}, name="a"))))


def test_source_used_twice_is_two_sources() -> None:
    twice = progress(41, at({0: 100}), at({0: 100}))
    one = part(at({0: 100}), at({0: 110}), at({0: 0}))
    assert reconcile(plan(42, one, one), twice) == Run()
    assert "startingOffsets=committed" in refused(reconcile(plan(42, one), twice)).message
    ahead = progress(41, at({0: 100}), at({0: 130}, name="ahead"))
    told = refused(reconcile(plan(0, one, one, query="other"), ahead)).message
    assert "startingOffsets=committed" not in told, "it would begin at 100 for both"
    assert (
        """its own startingOffsets: source 0 {"in":{"0":100}}; source 'ahead' {"in":{"0":130}} (let each read all"""
        in told
    )


def both(*ends: tuple[str, int], name: str | None = None) -> KafkaSource:
    """A source of several topics, each with one partition."""
    return KafkaSource("c1", {topic: TopicEnd(f"id-{topic}", {0: end}) for topic, end in ends}, name)


A_AND_B = progress(41, both(("a", 100)), both(("b", 200)))


@pytest.mark.parametrize("stateful", [False, True])
def test_two_sources_that_are_exchanged_are_refused_with_what_they_would_repeat(stateful: bool) -> None:
    """As where the two of a union are given in the other order: by position each reads on what the other has read."""
    first = part(both(("a", 100), ("b", 0)), both(("b", 50)), both(("a", 0), ("b", 0)))
    second = part(both(("b", 200), ("a", 0)), both(("a", 50)), both(("a", 0), ("b", 0)))
    found = refused(reconcile(plan(42, first, second, stateful=stateful), A_AND_B))
    assert (
        "source 0: b-0 was read up to 200 by another source of the query, which reads it no more, and starts at 0 here"
        in found.message
    )
    assert set(found.repeated) == {Rows("a", 0, 0, 100), Rows("b", 0, 0, 200)}
    assert reconcile(plan(42, first, second, stateful=stateful), A_AND_B, override=found.token) == Run(overridden=found)


@pytest.mark.parametrize(
    ("start", "repeated", "missed"), [(0, (Rows("b", 0, 0, 200),), ()), (250, (), (Rows("b", 0, 200, 250),))]
)
def test_a_topic_that_is_moved_to_a_new_source(start: int, repeated: tuple[Rows], missed: tuple[Rows]) -> None:
    done = progress(41, both(("a", 100), ("b", 200), name="x"))
    old = part(both(("a", 100), ("b", 200), name="x"), both(("a", 110), name="x"), both(("a", 0), ("b", 0), name="x"))

    def taken_up_at(offset: int) -> PlannedBatch:
        began = both(("b", offset), name="y")
        return plan(42, old, part(began, both(("b", offset + 9), name="y"), began))

    found = refused(reconcile(taken_up_at(start), done))
    assert (found.repeated, found.missed) == (repeated, missed)
    assert reconcile(taken_up_at(200), done) == Run(), "exactly there nothing is read twice, and nothing is passed over"


def test_a_topic_that_two_sources_read_is_no_moved_one() -> None:
    old = part(both(("a", 100)), both(("a", 110)), both(("a", 0)))
    new = part(both(("b", 200), ("a", 0)), both(("b", 200), ("a", 50)), both(("b", 0), ("a", 0)))
    assert reconcile(plan(42, old, new), A_AND_B) == Run()


def test_message_to_several_sources_of_which_one_lacks_something_gives_each_its_offsets() -> None:
    lacking = part(both(("b", 200)), both(("b", 210)), both(("b", 200)))
    done = progress(41, both(("a", 100)), both(("b", 200), ("c", 5)))
    told = refused(reconcile(plan(0, part(both(("a", 100)), both(("a", 110))), lacking, query="other"), done)).message
    assert "startingOffsets=committed" not in told, "it does not know which source left c out"
    assert """source 1 {"b":{"0":200},"c":{"0":5}} (let each read all""" in told


# Sources that are not semel's: equal or not


def other(text: str) -> OpaqueSource:
    return OpaqueSource(text)


P41_FILES = progress(41, other("f9"))


@pytest.mark.parametrize("stateful", [False, True])
def test_other_source_runs_where_its_start_is_the_progress(stateful: bool) -> None:
    assert reconcile(plan(42, part(other("f9"), other("f12")), stateful=stateful), P41_FILES) == Run()
    found = refused(reconcile(plan(42, part(other("f8"), other("f12")), stateful=stateful), P41_FILES))
    assert "starts at f8 and the progress ends at f9" in found.message
    assert (found.repeated, found.missed) == ((), ())


@pytest.mark.parametrize(("batch", "query"), [(42, "other"), (43, Q), (0, "other")])
def test_other_source_never_runs_under_another_query_or_number(batch: int, query: str) -> None:
    refused(reconcile(plan(batch, part(other("f9"), other("f12")), query=query), P41_FILES))


def test_other_source_is_skipped_only_where_equal_or_where_the_checkpoint_has_p_itself() -> None:
    assert reconcile(plan(41, part(other("f8"), other("f9"))), P41_FILES) == Skip()
    refused(reconcile(plan(41, part(other("f7"), other("f8"))), P41_FILES))
    refused(reconcile(plan(40, part(other("f7"), other("f9"))), P41_FILES))
    assert reconcile(plan(40, part(other("f7"), other("f8"))), P41_FILES, logged=[other("f9")]) == Skip()
    refused(reconcile(plan(40, part(other("f7"), other("f8"))), P41_FILES, logged=[other("f10")]))
    refused(reconcile(plan(40, part(other("f7"), other("f8"))), P41_FILES, logged=[None]))


def test_mixed_sources_need_both() -> None:
    done = progress(41, at({0: 100}), other("f9"))
    assert reconcile(plan(41, part(at({0: 90}), at({0: 100})), part(other("f8"), other("f9"))), done) == Skip()
    assert reconcile(plan(42, part(at({0: 100}), at({0: 101})), part(other("f9"), other("f9"))), done) == Run()
    refused(reconcile(plan(41, part(at({0: 90}), at({0: 101})), part(other("f8"), other("f9"))), done))
    refused(reconcile(plan(7, part(at({0: 100}), at({0: 101})), part(other("f9"), other("f9")), query="other"), done))
    older = plan(40, part(at({0: 80}), at({0: 90})), part(other("f7"), other("f8")))
    assert reconcile(older, done, logged=[at({0: 100}), other("f9")]) == Skip()
    refused(reconcile(older, done, logged=[at({0: 101}), other("f9")]))


def test_source_of_another_kind_is_refused() -> None:
    found = refused(reconcile(plan(42, part(other("f9"), other("f12"))), P41))
    assert "of another kind" in found.message
    refused(reconcile(simple(42, 0, 9), P41_FILES))
    refused(reconcile(simple(41, 0, 9), P41_FILES))


def test_new_other_source_has_no_start() -> None:
    assert reconcile(plan(42, part(at({0: 100}), at({0: 101})), part(None, other("f0"))), P41) == Run()
    refused(reconcile(plan(42, part(at({0: 100}), at({0: 101})), part(other("f0"), other("f1"))), P41))


# Refusals: the token, the words


def test_token_of_a_refusal_runs_the_batch_once() -> None:
    batch = simple(42, 90, 130)
    found = refused(reconcile(batch, P41))
    assert f"onProgressMismatch=checkpoint:{found.token}" in found.message
    assert reconcile(batch, P41, override=found.token) == Run(overridden=found)
    moved = progress(42, at({0: 130}))
    spent = refused(reconcile(simple(43, 120, 140), moved, override=found.token))
    assert spent.token != found.token
    assert "is for another batch or another progress record" in spent.message


@pytest.mark.parametrize(
    ("batch", "done"),
    [
        (simple(43, 90, 130), P41),
        (simple(42, 90, 131), P41),
        (simple(42, 91, 130), P41),
        (simple(42, 90, 130, query="other"), P41),
        (simple(42, 90, 130), progress(41, at({0: 101}))),
        (simple(42, 90, 130), progress(40, at({0: 100}))),
        (simple(42, 90, 130), progress(41, at({0: 100}), run="run-2")),
        (simple(42, 90, 130), None),
    ],
)
def test_token_fits_nothing_else(batch: PlannedBatch, done: Progress | None) -> None:
    token = refused(reconcile(simple(42, 90, 130), P41)).token
    assert refused(reconcile(batch, done, override=token)).token != token


def test_token_where_there_is_no_progress() -> None:
    token = refused(reconcile(simple(7, 5, 9), None)).token
    assert isinstance(reconcile(simple(7, 5, 9), None, override=token), Run)
    refused(reconcile(simple(7, 5, 9), progress(6, at({0: 4})), override=token))


def test_token_is_not_asked_where_the_table_decides() -> None:
    assert reconcile(simple(41, 90, 100), P41, override="0" * 16) == Skip()
    assert reconcile(simple(42, 100, 110), P41, override="0" * 16) == Run()


def test_message_is_a_block_that_says_what_is_where_and_the_ways_out() -> None:
    found = refused(reconcile(simple(0, 7, 9, query="other"), P41))
    error = found.error()
    first, *further = str(error).split("\n")
    assert first.endswith(". Nothing was written.")
    assert all(line.startswith("    ") for line in further)
    said = [line.strip() for line in further]
    assert said[:4] == [
        "source 0: in-0 starts at 7 and is committed up to 100",
        "It would repeat rows in-0 7 to 99 (93 offsets)",
        "It would miss no rows",
        "Ways out:",
    ]
    assert [line[:4] for line in said[4:]] == ["(1) ", "(2) ", "(3) "]
    assert "\n" not in found.reason
    assert str(error).startswith("[SEMEL_PROGRESS_MISMATCH] ")
    for word in (
        "batch 0 of query other",
        f"batch 41 of query {Q}",
        "Nothing was written",
        "startingOffsets=committed and this transactionalIdPrefix",
        "onProgressMismatch=checkpoint:",
        "semel progress reset",
    ):
        assert word in str(error)


def test_message_to_a_query_that_reads_other_topics_asks_whose_the_prefix_is() -> None:
    elsewhere = part(at({0: 0}, topic="other"), at({0: 9}, topic="other"))
    message = refused(reconcile(plan(0, elsewhere, query="another"), P41, prefix="orders' own")).message
    assert (
        "if the progress belongs to another query (it reads in), give this one its own transactionalIdPrefix" in message
    )
    assert "startingOffsets=committed" not in message, "there is nothing of these topics to go on from"
    assert "`semel progress reset 'orders'\"'\"' own'`" in message
    assert "another query" not in refused(reconcile(plan(43, elsewhere), P41)).message


def test_message_to_an_older_checkpoint_says_so() -> None:
    assert "the checkpoint is older" in refused(reconcile(simple(41, 80, 120), P41)).message


def test_message_where_the_progress_was_set_by_hand_promises_no_rows_once() -> None:
    """What lies between where it was set and where the query stood is written already."""
    message = refused(reconcile(simple(42, 100, 130), progress(None, at({0: 0}), query=None))).message
    assert "to resume from the progress, which was set by hand (rows written after it are written again" in message
    assert "nothing repeated" not in message
    assert "with nothing repeated or missed" in refused(reconcile(simple(0, 7, 9, query="other"), P41)).message


def test_message_without_progress_names_the_former_prefix() -> None:
    message = refused(reconcile(simple(7, 5, 9), None)).message
    assert "if you changed the prefix, and no sink uses the old one any more: `semel progress rename" in message
    assert "startingOffsets=committed" not in message


def test_message_without_progress_says_what_stands_in_front_and_when_each_way_is_right() -> None:
    message = refused(reconcile(plan(7, part(at({0: 5, 1: 3}), at({0: 9, 1: 3}), at({0: 2, 1: 3}))), None)).message
    assert (
        "source 0 of the batch begins after rows in-0 2 to 4 (3 offsets), and nothing says that they were written"
        in message
    )
    assert "Use it only if every earlier batch was written another way" in message
    assert "Use it if nothing was written yet" in message
    assert "begins behind" not in refused(reconcile(simple(7, 0, 9), None)).message


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        (simple(42, 90, 130), "as the checkpoint has it, which writes the repeated rows again."),
        (simple(42, 110, 130), "as the checkpoint has it, which never writes the missed rows."),
        (simple(40, 100, 130, stateful=True), "as the checkpoint has it, whatever it repeats or misses."),
    ],
)
def test_message_says_what_the_token_does_to_the_rows(batch: PlannedBatch, said: str) -> None:
    assert said in refused(reconcile(batch, P41)).message


def test_message_of_a_thousand_partitions_stays_readable_and_the_ranges_are_whole() -> None:
    everywhere = dict.fromkeys(range(1000), 10)
    found = refused(
        reconcile(plan(42, part(at(dict.fromkeys(range(1000), 4)), at(everywhere))), progress(41, at(everywhere)))
    )
    assert len(found.repeated) == 1000
    assert "and 980 more" in found.message
    assert "rows of 980 more partitions (6000 offsets)" in found.message
    assert len(found.message) < 5000
