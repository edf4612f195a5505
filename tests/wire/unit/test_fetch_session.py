"""The state of a fetch session beside a broker's rules for one (KIP-227): ids, epochs, changes, and errors."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import pytest

from semel.wire.api.fetch_frames import Answer, Fetched, Position
from semel.wire.fetch_session import FetchSession, FormerSessions, without_session
from semel.wire.metadata import TopicPartition

A, B, AGAIN = uuid.UUID(int=1), uuid.UUID(int=2), uuid.UUID(int=3)
A0, A1, B0 = ("a", 0), ("a", 1), ("b", 0)
AT = {A0: Position(A, 5), A1: Position(A, 6), B0: Position(B, 7)}
IDS = {A0: (A, 0), A1: (A, 1), B0: (B, 0)}
NOT_FOUND, WRONG_EPOCH, OTHER_IDS, THROTTLED = 70, 71, 106, 89


def news(end: int = 9) -> Fetched:
    return Fetched(0, end, end, 0, (), memoryview(b""))


def answer(session: int, partitions: Iterable[TopicPartition] = (), code: int = 0) -> Answer:
    return Answer(code, session, {IDS[one]: news() for one in partitions})


def begun(session: int = 42) -> FetchSession:
    """Return a session that a broker has given."""
    state = FetchSession()
    state.request(AT)
    assert state.answered(answer(session, AT)).keys() == AT.keys()
    return state


def test_the_first_request_names_all_and_the_next_ones_what_changes() -> None:
    state = FetchSession()
    first = state.request(AT)
    assert (first.session, first.positions, list(first.forgotten)) == ((0, 0), AT, [])
    assert state.answered(answer(42, AT)) == dict.fromkeys(AT, news())
    again = state.request(dict(AT))
    assert (again.session, again.positions, list(again.forgotten)) == ((42, 1), {}, [])
    assert state.answered(answer(42, [A1])) == {A1: news()}
    moved = AT | {A1: Position(A, 10)}
    third = state.request(moved)
    assert (third.session, third.positions, list(third.forgotten)) == ((42, 2), {A1: moved[A1]}, [])
    assert state.answered(answer(42)) == {}
    same = state.request(None)
    assert (same.session, same.positions, list(same.forgotten)) == ((42, 3), {}, [])


@pytest.mark.parametrize("change", [Position(A, 5, 3), Position(A, 5, -1, 2)], ids=["leader epoch", "last epoch"])
def test_an_epoch_is_a_change(change: Position) -> None:
    assert begun().request(AT | {A0: change}).positions == {A0: change}


def test_partitions_are_forgotten_and_come_back() -> None:
    state = begun()
    left = state.request({A0: AT[A0]})
    assert (left.positions, set(left.forgotten)) == ({}, {(A, 1), (B, 0)})
    assert state.answered(answer(42)) == {}
    back = state.request(AT)
    assert (back.positions, list(back.forgotten)) == ({A1: AT[A1], B0: AT[B0]}, [])
    assert state.answered(answer(42, [B0])) == {B0: news()}


def test_a_topic_that_was_made_again_replaces_the_former_one() -> None:
    state = begun()
    asked = state.request(AT | {B0: Position(AGAIN, 0)})
    assert (asked.positions, list(asked.forgotten)) == ({B0: Position(AGAIN, 0)}, [(B, 0)])
    assert state.answered(Answer(0, 42, {(AGAIN, 0): news()})) == {B0: news()}


def test_an_answer_of_a_forgotten_partition_ends_the_session() -> None:
    state = begun()
    state.request({A0: AT[A0]})
    assert state.answered(answer(42, [A0, B0])) == {A0: news()}
    assert state.request(None).session == (42, 0)


@pytest.mark.parametrize("code", [NOT_FOUND, WRONG_EPOCH, OTHER_IDS])
def test_a_session_that_the_broker_does_not_know_begins_anew(code: int) -> None:
    """Nothing is known of any partition by such an answer, and nothing has gone wrong with one."""
    state = begun()
    moved = AT | {A0: Position(A, 8)}
    state.request(moved)
    assert state.answered(answer(0, code=code)) == {}
    first = state.request(None)
    assert (first.session, first.positions) == ((0 if code == NOT_FOUND else 42, 0), moved)
    assert state.answered(answer(43, AT)).keys() == AT.keys()
    assert state.request(None).session == (43, 1)


@pytest.mark.parametrize("code", [NOT_FOUND, -1])
def test_the_code_of_a_first_answer_is_that_of_each_partition(code: int) -> None:
    """Else a broker that refuses each session would be asked without a pause."""
    state = FetchSession()
    state.request(AT)
    assert {one.code for one in state.answered(answer(0, code=code)).values()} == {code}
    assert state.request(None).session == (0, 0)


def test_another_code_of_a_whole_answer_is_that_of_each_partition() -> None:
    state = begun()
    state.request(None)
    found = state.answered(answer(0, code=-1))
    assert ({one.code for one in found.values()}, set(found)) == ({-1}, set(AT))
    assert state.request(None).session == (42, 0)


def test_a_lost_connection_begins_a_new_session_in_the_place_of_the_former() -> None:
    state = begun()
    moved = {A0: Position(A, 8), B0: AT[B0]}
    state.request(moved)
    state.lost()
    first = state.request(None)
    assert (first.session, first.positions, list(first.forgotten)) == ((42, 0), moved, [])


def test_a_broker_without_a_place_is_asked_for_all_each_time() -> None:
    state = FetchSession()
    for _ in range(3):
        asked = state.request(AT)
        assert (asked.session, asked.positions) == ((0, 0), AT)
        assert state.answered(answer(0, AT)).keys() == AT.keys()
    state.request(AT)
    state.answered(answer(42, AT))
    assert state.request(None).session == (42, 1)


def test_a_throttled_first_answer_gives_no_session() -> None:
    """It is empty, and names none. A partition that is missing in it is to be asked for again."""
    state = FetchSession()
    state.request(AT)
    assert {one.code for one in state.answered(answer(0)).values()} == {THROTTLED}
    state.request(AT)
    assert {one.code for one in state.answered(answer(42, [A0])).values()} == {0, THROTTLED}
    assert state.request(None).session == (42, 0)


def test_a_throttled_answer_of_a_session_has_no_news() -> None:
    state = begun()
    state.request(None)
    assert state.answered(answer(42)) == {}
    assert state.request(None).session == (42, 2)


def test_the_epoch_wraps_to_one() -> None:
    """0 would begin a session."""
    state = begun()
    state._epoch = 2**31 - 1
    assert state.request(None).session == (42, 2**31 - 1)
    state.answered(answer(42))
    assert state.request(None).session == (42, 1)


def test_a_session_that_was_left_gives_its_place_to_the_next_one_at_its_node() -> None:
    former = FormerSessions()
    former.leave(1, begun(42))
    former.leave(1, FetchSession())
    assert former.next(2).request(AT).session == (0, 0)
    assert former.next(1).request(AT).session == (42, 0)
    assert former.next(1).request(AT).session == (0, 0)


def test_a_request_that_stands_alone_asks_for_no_session() -> None:
    asked = without_session(AT)
    assert (asked.session, asked.positions, list(asked.forgotten)) == ((0, -1), AT, [])
