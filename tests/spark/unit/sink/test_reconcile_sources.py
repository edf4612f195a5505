"""The table of PROTOCOL 6 for several sources: added, named, moved, and of other kinds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from semel.spark.sink.differences import Rows
from semel.spark.sink.micro_batch import PlannedBatch
from semel.spark.sink.reconcile import Rebuild, Run, Skip, reconcile
from tests.spark.support.reconcile_plans import P41, Q, at, both, other, part, plan, progress, refused, simple

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
