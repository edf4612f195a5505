"""Where a target's last records are in the source: any chain that a copier may leave is placed, or is called unsure."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.mirror.adoption.placing import Place, Unsure, Window, place, place_by_rows


def window(text: str, first: int = 0, *, from_start: bool = True, to_end: bool = True) -> Window:
    """A record for each letter."""
    prints = np.array([ord(letter) for letter in text], np.int64)
    return Window(np.arange(first, first + len(text)), prints, from_start, to_end)


def runs(found: Place) -> list[tuple[int, int, int]]:
    return [tuple(row) for row in np.stack([found.runs.source, found.runs.target, found.runs.count], axis=1).tolist()]


SURE = [
    pytest.param("abcdef", "abc", 2, 3, 0, [(0, 0, 3)], id="nothing beyond"),
    pytest.param("abcdef", "abcde", 2, 5, 2, [(0, 0, 5)], id="two beyond"),
    pytest.param("abcdef", "abcdcde", 1, 5, 3, [(2, 4, 3)], id="begun again earlier"),
    pytest.param("abcdef", "abcdebc", 2, 5, 2, [(0, 0, 5)], id="begun again, and stopped before"),
    pytest.param("abcdef", "cde", 2, 5, 2, [(2, 0, 3)], id="the target has lost its beginning"),
    pytest.param("abcabd", "abcab", 2, 5, 2, [(0, 0, 5)], id="alike, in one place only"),
    pytest.param("abcdef", "abc", None, 3, 3, [(0, 0, 3)], id="nothing known, from the beginning"),
]
NOT_SURE = [
    pytest.param("aaaaaa", "aaaa", 1, id="alike"),
    pytest.param("abcdef", "abx", 1, id="a record that is not in the source"),
    pytest.param("abcdef", "abd", 1, id="one is missing in between"),
    pytest.param("abcdef", "bcd", None, id="nothing known, and not the beginning"),
    pytest.param("abcdef", "xyz", 2, id="nothing in common"),
]


@pytest.mark.parametrize(("source", "target", "copied", "position", "beyond", "wanted"), SURE)
def test_a_place_that_is_sure(
    source: str, target: str, copied: int | None, position: int, beyond: int, wanted: list[tuple[int, int, int]]
) -> None:
    found = place(window(source), window(target), copied)
    assert isinstance(found, Place)
    assert (found.position, found.beyond, runs(found)) == (position, beyond, wanted)


@pytest.mark.parametrize(("source", "target", "copied"), NOT_SURE)
def test_a_place_that_is_not_sure(source: str, target: str, copied: int | None) -> None:
    assert isinstance(place(window(source), window(target), copied), Unsure)


def test_an_offset_of_the_rows_own_transaction() -> None:
    for source, target in (("abcdef", "abc"), ("aaaaaa", "aaa")):
        found = place(window(source), window(target), 2, trusted=True)
        assert isinstance(found, Place)
        assert (found.position, found.beyond) == (3, 0)
    for target in ("abcd", "ab", "abx"):
        gone = place(window("abcdef"), window(target), 2, trusted=True)
        assert gone == Unsure("the last record of the target is not the last one that was copied", more=False)
    # the copied record has left a compacted source
    compacted = Window(np.array([0, 1, 3]), np.array([97, 98, 100], np.int64), from_start=True, to_end=True)
    found = place(compacted, window("abc"), 2, trusted=True)
    assert isinstance(found, Place)
    assert (found.position, runs(found)) == (3, [])


def test_a_source_that_has_deleted_what_was_copied() -> None:
    def found(target: str) -> Place | Unsure:
        return place(window("cde", 2), window(target), 1)

    nothing, one = found("ab"), found("abc")
    assert isinstance(nothing, Place)
    assert isinstance(one, Place)
    assert (nothing.position, one.position, one.beyond) == (2, 3, 1)


def test_longer_windows_are_asked_for() -> None:
    short = window("def", 3, from_start=False)
    assert place(short, window("ghi", from_start=False), 3) == Unsure(
        "the last records of the target were not found in the source", more=True
    )
    found = place(short, window("def", 7, from_start=False), 5)
    assert isinstance(found, Place)
    assert found.more


def test_by_the_records_alone() -> None:
    found = place_by_rows(window("abcdef"), window("cd"))
    assert isinstance(found, Place)
    assert (found.position, runs(found)) == (4, [(2, 0, 2)])
    for source, target in (("abcabc", "bc"), ("abcdef", "xd"), ("abcdef", "dc"), ("abcdef", "x")):
        assert isinstance(place_by_rows(window(source), window(target)), Unsure)


@st.composite
def chains(draw: st.DrawFn) -> tuple[str, str, int, int]:
    """A source, the log that a copier at least once has made of it, the offset that it has committed last, and the
    highest one that it has written.
    """
    source = "".join(draw(st.lists(st.sampled_from("abcdefghijklmnopqrstuvwxyz"), min_size=4, max_size=24)))
    log, committed, highest = "", -1, -1
    for _ in range(draw(st.integers(1, 4))):
        end = draw(st.integers(committed + 1, len(source) - 1)) if committed < len(source) - 1 else committed
        log += source[committed + 1 : end + 1]
        highest = max(highest, end)
        committed = draw(st.integers(committed, end))
    return source, log, committed, highest


@given(chains())
def test_a_place_is_right_or_unsure(chain: tuple[str, str, int, int]) -> None:
    source, log, committed, highest = chain
    if committed < 0 or not log:
        return
    found = place(window(source), window(log), committed)
    if isinstance(found, Place):
        # or no reader can see a difference: records that are alike, one after the other
        assert found.position == highest + 1 or log.endswith(source[committed : found.position])
        for here, there, count in runs(found):
            assert source[here : here + count] == log[there : there + count]
    elif len(set(source)) == len(source):
        raise AssertionError(found.reason)
