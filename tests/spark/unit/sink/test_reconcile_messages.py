"""The texts of refusals by PROTOCOL 6, and the tokens that answer them."""

from __future__ import annotations

import pytest

from semel.spark.sink.micro_batch import PlannedBatch
from semel.spark.sink.reconcile import Run, Skip, reconcile
from semel.transaction.progress.record import Progress
from tests.spark.support.reconcile_plans import P41, Q, at, part, plan, progress, refused, simple

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
