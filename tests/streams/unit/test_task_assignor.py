"""Tasks stay where their state is, and no member has two more of a sub-topology than another."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from semel.streams.worker.task_assignor import share_out

TASKS = st.tuples(st.integers(0, 2), st.integers(0, 9))
CLAIMS = st.tuples(st.lists(TASKS, max_size=12), st.lists(TASKS, max_size=12))


@given(
    st.lists(st.integers(0, 8), max_size=3),
    st.dictionaries(st.text("abc", min_size=1, max_size=2), CLAIMS, min_size=1, max_size=5),
)
def test_each_task_has_one_member_and_all_have_as_many(counts: list[int], claims: dict[str, object]) -> None:
    shared = share_out(counts, claims)  # type: ignore[arg-type]
    everything = [(part, index) for part, count in enumerate(counts) for index in range(count)]
    assert sorted(chain.from_iterable(shared.values())) == everything
    for part in range(len(counts)):
        each = [Counter(number for number, _ in tasks)[part] for tasks in shared.values()]
        assert max(each) - min(each) <= 1


@given(st.lists(st.integers(1, 8), min_size=1, max_size=3), st.integers(1, 5))
def test_without_a_change_of_members_nothing_moves(counts: list[int], members: int) -> None:
    shared = share_out(counts, {str(number): ((), ()) for number in range(members)})
    assert share_out(counts, {member: (tasks, ()) for member, tasks in shared.items()}) == shared
    # it has restarted, and knows only its folders
    again = share_out(counts, {member: ((), sorted(tasks)) for member, tasks in shared.items()})
    assert {member: sorted(tasks) for member, tasks in again.items()} == {
        member: sorted(tasks) for member, tasks in shared.items()
    }


def test_a_third_member_takes_only_what_it_must() -> None:
    two = share_out([6], {"a": ((), ()), "b": ((), ())})
    three = share_out([6], {"a": (two["a"], ()), "b": (two["b"], ()), "c": ((), two["a"])})
    assert set(three["a"]) < set(two["a"])
    assert set(three["b"]) < set(two["b"])
    assert len(three["c"]) == 2
