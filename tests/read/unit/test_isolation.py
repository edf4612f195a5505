"""The filter of read_committed: hand-made cases, and against a model that knows how each transaction ended."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.read.isolation import visible
from semel.records.codecs import Codec
from semel.records.header import BatchHeader

ABORTS, COMMITS = True, False


def batch(
    offset: int, producer: int = -1, *, count: int = 1, transactional: bool = True, control: bool = False
) -> BatchHeader:
    last = max(count, 1) - 1
    plain = producer < 0
    return BatchHeader(
        0,
        100,
        offset,
        last,
        count,
        Codec.NONE,
        transactional and not plain,
        control,
        False,
        False,
        0,
        0,
        producer,
        0,
        0,
        0,
    )


def marker(offset: int, producer: int) -> BatchHeader:
    return batch(offset, producer, control=True)


def seen(
    batches: list[BatchHeader], aborted: list[tuple[int, int]], aborts: set[int], *, read_committed: bool = True
) -> list[int]:
    kept = visible(batches, aborted, lambda one: one.base_offset in aborts, read_committed=read_committed)
    return [one.base_offset for one in kept]


def test_committed_and_plain_rows_are_seen_and_markers_are_not() -> None:
    assert seen([batch(0), batch(1, 7), marker(2, 7), batch(3)], [], set()) == [0, 1, 3]


def test_aborted_rows_are_not_seen() -> None:
    assert seen([batch(0, 7), batch(1, 7), marker(2, 7), batch(3)], [(7, 0)], {2}) == [3]


def test_read_uncommitted_sees_all_but_markers() -> None:
    assert seen([batch(0, 7), marker(1, 7), batch(2)], [(7, 0)], {1}, read_committed=False) == [0, 2]


def test_the_list_may_come_in_any_order() -> None:
    log = [batch(0, 7), marker(1, 7), batch(2, 8), batch(3, 7), marker(4, 8), marker(5, 7), batch(6, 8), marker(7, 8)]
    for aborted in ([(7, 0), (8, 2)], [(8, 2), (7, 0)]):
        assert seen(log, aborted, {1, 4}) == [3, 6]


def test_an_abort_that_began_before_the_fetch_reaches_into_it() -> None:
    assert seen([batch(10, 7), marker(11, 7), batch(12, 7), marker(13, 7)], [(7, 2)], {11}) == [12]


def test_the_same_producer_commits_between_two_aborts() -> None:
    log = [batch(0, 7), marker(1, 7), batch(2, 7), marker(3, 7), batch(4, 7), marker(5, 7)]
    assert seen(log, [(7, 0), (7, 4)], {1, 5}) == [2]


def test_a_commit_marker_of_the_same_producer_ends_no_abort() -> None:
    """A stray marker: only an ABORT ends what the broker listed as aborted."""
    assert seen([batch(0, 7), marker(1, 7), batch(2, 7), marker(3, 7)], [(7, 0)], {3}) == []


def test_plain_rows_of_an_idempotent_producer_are_never_hidden() -> None:
    assert seen([batch(0, 7, transactional=False), batch(1, 7), marker(2, 7)], [(7, 1)], {2}) == [0]


def test_a_batch_that_holds_the_first_aborted_offset_is_hidden_whole() -> None:
    assert seen([batch(0, 7, count=5), marker(5, 7)], [(7, 0)], {5}) == []


@pytest.mark.parametrize("kind", ["leader change", "emptied by compaction"])
def test_other_control_batches_are_passed_over(kind: str) -> None:
    control = batch(1, -1 if kind == "leader change" else 7, count=0, control=True)
    assert seen([batch(0, 7), control, batch(2, 7), marker(3, 7), batch(4)], [(7, 0)], {3}) == [4]


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 60))
def test_against_a_model(seed: int, producers: int, steps: int) -> None:
    chance = random.Random(seed)
    log: list[BatchHeader] = []
    running: dict[int, int] = {}
    ended: list[tuple[int, int, int]] = []  # producer, first, marker of aborted transactions
    good: set[int] = set()
    pending: dict[int, list[int]] = {}
    aborts: set[int] = set()
    offset = 0
    for _ in range(steps):
        producer = chance.randrange(producers)
        offset += chance.choice([0, 0, 0, 3])  # compaction leaves holes
        if producer in running and chance.random() < 0.4:
            log.append(marker(offset, producer))
            first, mine = running.pop(producer), pending.pop(producer)
            if chance.random() < 0.5:
                good.update(mine)
            else:
                ended.append((producer, first, offset))
                aborts.add(offset)
        elif chance.random() < 0.2:
            log.append(batch(offset))
            good.add(offset)
        else:
            running.setdefault(producer, offset)
            log.append(batch(offset, producer, count=chance.randint(1, 3)))
            pending.setdefault(producer, []).append(offset)
        offset = log[-1].next_offset
    stable = min(running.values(), default=offset)
    fetched = [one for one in log if one.base_offset < stable][chance.randrange(len(log)) :]
    if not fetched:
        return
    low, high = fetched[0].base_offset, fetched[-1].last_offset
    aborted = [(producer, first) for producer, first, end in ended if first <= high and end >= low]
    chance.shuffle(aborted)
    assert seen(fetched, aborted, aborts) == [one.base_offset for one in fetched if one.base_offset in good]
