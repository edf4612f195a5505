"""Tasks stay where their state is, and no member has two more of a sub-topology than another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import chain

from hypothesis import given
from hypothesis import strategies as st

from semel.config import ClientConfig
from semel.streams.worker.task_assignor import (
    Claims,
    Standbys,
    Task,
    TaskAssignor,
    place_standbys,
    share_out,
    stay_ready,
    with_lags,
)
from semel.wire.client import Client
from semel.wire.consumer_protocol import ConsumerProtocol, Subscription

TASKS = st.tuples(st.integers(0, 2), st.integers(0, 9))
NUMBERS = st.dictionaries(TASKS, st.integers(0, 30_000), max_size=12)
CLAIMS = st.builds(Claims, st.lists(TASKS, max_size=12), st.lists(TASKS, max_size=12), NUMBERS, NUMBERS)
COUNTS = st.lists(st.integers(0, 8), max_size=3)
MEMBERS = st.dictionaries(st.text("abc", min_size=1, max_size=2), CLAIMS, min_size=1, max_size=5)
#: The last sub-topology has no state.
STATEFUL = (0, 1)
SIZE = 1_000_000


def in_alone(there: Collection[str]) -> list[list[str]]:
    return [[topic for topic in there if topic == "in"]]


@given(COUNTS, MEMBERS)
def test_each_task_has_one_member_and_all_have_as_many(counts: list[int], claims: dict[str, Claims]) -> None:
    shared = share_out(counts, claims)
    everything = [(part, index) for part, count in enumerate(counts) for index in range(count)]
    assert sorted(chain.from_iterable(shared.values())) == everything
    for part in range(len(counts)):
        each = [Counter(number for number, _ in tasks)[part] for tasks in shared.values()]
        assert max(each) - min(each) <= 1


@given(st.lists(st.integers(1, 8), min_size=1, max_size=3), st.integers(1, 5))
def test_without_a_change_of_members_nothing_moves(counts: list[int], members: int) -> None:
    shared = share_out(counts, {str(number): Claims() for number in range(members)})
    assert share_out(counts, {member: Claims(tasks) for member, tasks in shared.items()}) == shared
    # it has restarted, and knows only its folders
    again = share_out(counts, {member: Claims((), sorted(tasks)) for member, tasks in shared.items()})
    assert {member: sorted(tasks) for member, tasks in again.items()} == {
        member: sorted(tasks) for member, tasks in shared.items()
    }


def test_a_third_member_takes_only_what_it_must() -> None:
    two = share_out([6], {"a": Claims(), "b": Claims()})
    three = share_out([6], {"a": Claims(two["a"]), "b": Claims(two["b"]), "c": Claims((), two["a"])})
    assert set(three["a"]) < set(two["a"])
    assert set(three["b"]) < set(two["b"])
    assert len(three["c"]) == 2


Shared = dict[str, list[Task]]


def assigned(counts: list[int], claims: dict[str, Claims], settings: Standbys) -> tuple[Shared, Shared, int]:
    """Return the tasks and the standby tasks of each member, and how many members warm up."""
    claims = with_lags(claims)
    shared, warmups = stay_ready(share_out(counts, claims, settings.recovery_lag), claims, settings)
    return shared, place_standbys(shared, claims, settings, warmups), len(warmups)


def caught_up(shared: Shared, copies: Shared) -> dict[str, Claims]:
    """Return the claims of members that have all that they were given."""
    return {
        member: Claims(
            shared[member],
            [*shared[member], *copies[member]],
            dict.fromkeys(copies[member], 0),
            dict.fromkeys([*shared[member], *copies[member]], SIZE),
        )
        for member in shared
    }


@given(COUNTS, MEMBERS, st.integers(0, 3))
def test_each_task_runs_once_and_its_copies_are_on_other_members(
    counts: list[int], claims: dict[str, Claims], replicas: int
) -> None:
    shared, copies, warming = assigned(counts, claims, Standbys(replicas, stateful=STATEFUL))
    everything = [(part, index) for part, count in enumerate(counts) for index in range(count)]
    assert sorted(chain.from_iterable(shared.values())) == everything
    assert warming <= (2 if replicas else 0)
    for task in everything:
        there = [member for member in copies for one in copies[member] if one == task]
        assert len(there) == len(set(there))
        assert all(task not in shared[member] for member in there)
        least = min(replicas, len(claims) - 1) if task[0] in STATEFUL else 0
        assert least <= len(there) <= least + warming


@given(st.lists(st.integers(1, 8), min_size=1, max_size=2), st.integers(2, 5), st.integers(1, 2))
def test_a_copy_takes_over_and_numbers_are_equal_in_the_end(counts: list[int], members: int, replicas: int) -> None:
    settings = Standbys(replicas, stateful=STATEFUL)
    first, copies, warming = assigned(counts, {str(number): Claims() for number in range(members)}, settings)
    assert not warming
    each = [len(tasks) for tasks in copies.values()]
    assert max(each) - min(each) <= 2
    claims = caught_up(first, copies)
    again, again_copies, warming = assigned(counts, claims, settings)
    assert (sets(again), sets(again_copies), warming) == (sets(first), sets(copies), 0)

    del claims["0"]
    shared, now, warming = assigned(counts, claims, settings)
    for member, tasks in shared.items():
        assert set(first[member]) <= set(tasks) <= {*first[member], *copies[member]}
    assert_even(counts, settled(counts, shared, now, warming, settings))

    claims = caught_up(shared, now) | {"0": Claims()}  # it comes back, with nothing: it warms up first
    back, later, warming = assigned(counts, claims, settings)
    assert all(set(tasks) <= {*shared.get(member, ()), *now.get(member, ())} for member, tasks in back.items())
    assert_even(counts, settled(counts, back, later, warming, settings))


def sets(shared: Shared) -> dict[str, set[Task]]:
    return {member: set(tasks) for member, tasks in shared.items()}


def settled(counts: list[int], shared: Shared, copies: Shared, warming: int, settings: Standbys) -> Shared:
    """Share out until no member warms up any more."""
    for _ in range(20):
        if not warming:
            return shared
        shared, copies, warming = assigned(counts, caught_up(shared, copies), settings)
    raise AssertionError("it does not come to an end")


def assert_even(counts: list[int], shared: Shared) -> None:
    for part in range(len(counts)):
        each = [Counter(number for number, _ in tasks)[part] for tasks in shared.values()]
        assert max(each) - min(each) <= 1


def test_little_state_moves_at_once_and_much_state_only_to_a_copy() -> None:
    settings = Standbys(1, recovery_lag=100, stateful=(0,))
    for size, moves in ((100, 1), (101, 0)):
        claims = {"a": Claims([(0, 0), (0, 1)], (), {}, {(0, 0): size, (0, 1): size}), "b": Claims()}
        shared, copies, warming = assigned([2], claims, settings)
        assert (len(shared["b"]), warming) == (moves, 1 - moves)
        assert (0, 1) in copies["b"] or moves


def test_the_leader_shares_out_again_once_members_had_time_to_warm_up() -> None:
    running = Claims([(0, 0), (0, 1)], (), {}, {(0, 0): SIZE, (0, 1): SIZE})
    leader = TaskAssignor(in_alone, Claims, Standbys(1, probing_ms=0, stateful=(0,)))
    protocol = ConsumerProtocol(["in"], [leader])

    def share(new: Claims) -> set[int]:
        """Return the partitions that the new member gets."""
        said = {"old": TaskAssignor(in_alone, lambda: running), "new": TaskAssignor(in_alone, lambda: new)}
        members = {member: Subscription(["in"], one.user_data()) for member, one in said.items()}
        return {index for _, index in leader.assign({"in": 2}, members)["new"]}

    assert share(Claims()) == set()
    assert leader.is_due()
    with Client(ClientConfig.parse({"bootstrap.servers": "localhost:1"})) as client:
        assert protocol.outdated(client)  # asks no broker
    assert len(share(Claims((), (), {(0, 0): 0, (0, 1): 5}))) == 1
    assert not leader.is_due()


def test_folders_of_a_restart_are_as_good_as_they_are_new() -> None:
    """One member has started first and has all tasks. The next one has folders, and one of them is old."""
    offsets = {(0, 0): SIZE, (0, 1): SIZE, (0, 2): SIZE, (0, 3): SIZE}
    running, folders = Claims(list(offsets), [], {}, offsets), {(0, 0): SIZE - 5, (0, 1): SIZE - 5, (0, 2): 5}
    claims = {"a": running, "b": Claims((), list(folders), {}, folders)}
    shared, copies, warming = assigned([4], claims, Standbys(1, stateful=(0,)))
    assert (set(shared["b"]), warming) == ({(0, 0), (0, 1)}, 0)
    assert sorted(copies["a"] + copies["b"]) == list(offsets)
    older = Claims((), [(0, 0)], {}, {(0, 0): 5})
    shared, _, _ = assigned([2], {"a": older, "b": Claims((), [(0, 0)], {}, folders)}, Standbys())
    assert (0, 0) in shared["b"]  # nobody runs it, and its folder has more


def test_what_members_say_to_each_other_is_read_again() -> None:
    claims = {"a": Claims([(0, 0)], [(0, 0)], {}, {(0, 0): 7}), "b": Claims((), [(0, 1)], {(0, 1): 3}, {(0, 1): 9})}
    leader = TaskAssignor(in_alone, Claims, Standbys(1, stateful=(0,)))
    said = {
        member: Subscription(["in"], TaskAssignor(in_alone, lambda one=one: one).user_data())  # type: ignore[misc]
        for member, one in claims.items()
    }
    assert leader.assign({"in": 2}, said) == {"a": [("in", 0)], "b": [("in", 1)]}
    for member, copy in (("a", (0, 1)), ("b", (0, 0))):
        theirs = TaskAssignor(in_alone, Claims)
        theirs.on_assignment(leader.assignment_data(member))
        assert theirs.standbys == {copy}
        assert theirs.topics == frozenset(["in"])
        theirs.on_assignment(b"")  # a leader of an older version
        assert theirs.standbys == set()
        assert theirs.topics is None
    assert not leader.is_due()
    assert leader.assign({"in": 2}, {"a": Subscription(["in"], b"{}")}) == {"a": [("in", 0), ("in", 1)]}
