"""Members of a group against a real broker: what a rebalance, a restart and a new partition do to an assignment."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.wire.api import membership
from semel.wire.client import Client
from semel.wire.consumer_protocol import ASSIGNORS, ConsumerProtocol
from semel.wire.group_member import GroupMember
from semel.wire.metadata import TopicPartition
from tests.support.topics import create
from tests.support.waiting import wait_for

Share = frozenset[TopicPartition]


@contextmanager
def member(
    servers: str, topic: str, *, session_ms: int = 6_000, poll_ms: int = 20_000, polled: bool = True, **options: Any
) -> Iterator[Any]:
    config = ClientConfig.parse({"bootstrap.servers": servers, "metadata.max.age.ms": 200})
    one = GroupMember(
        config,
        f"group-of-{topic}",
        ConsumerProtocol([topic], tuple(ASSIGNORS.values())),
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=poll_ms,
        heartbeat_ms=100,
        polled=polled,
        **options,
    )
    try:
        yield one
    finally:
        one.close()


def all_of(topic: str, count: int) -> Share:
    return frozenset((topic, index) for index in range(count))


@contextmanager
def polling(*members: GroupMember[Share]) -> Iterator[None]:
    """Poll all of them, each in a thread: a rebalance needs them at once."""
    stop = threading.Event()

    def poll(one: GroupMember[Share]) -> None:
        while not stop.wait(0.02):
            one.poll()

    threads = [threading.Thread(target=poll, args=(one,)) for one in members]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def in_one_generation(*members: GroupMember[Share]) -> bool:
    found = [one.current() for one in members]
    return None not in found and len({now.number for now in found if now is not None}) == 1


def grow(servers: str, topic: str, count: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result()


def test_new_partitions_are_shared_out(servers: str) -> None:
    topic, revoked = create(servers, "grows", 2), list[int]()
    with member(servers, topic, on_revoked=lambda: revoked.append(1)) as one:
        first = one.poll()
        assert first.assignment == all_of(topic, 2)
        assert one.poll() is first
        grow(servers, topic, 3)
        before = len(revoked)
        wait_for(lambda: one.poll() != first, "another generation")
        assert one.current().assignment == all_of(topic, 3)
        assert len(revoked) == before + 1


def test_a_second_member_gets_a_share_and_gives_it_back(servers: str) -> None:
    topic = create(servers, "shared", 4)
    with member(servers, topic) as one:
        assert one.poll() is not None
        with member(servers, topic) as two:
            with polling(one, two):
                wait_for(lambda: in_one_generation(one, two), "the share", 60)
            shares = [one.current(), two.current()]
            assert sorted(shares[0].assignment | shares[1].assignment) == sorted(all_of(topic, 4))
            assert [len(share.assignment) for share in shares] == [2, 2]
            assert [share.leads for share in shares] == [True, False]
        wait_for(lambda: len(one.poll().assignment) == 4, "the rest")


def test_a_static_member_that_comes_back_changes_nothing(servers: str) -> None:
    topic = create(servers, "static", 4)
    with member(servers, topic, instance="b") as other:
        with member(servers, topic, instance="a") as first:
            with polling(other, first):
                wait_for(lambda: in_one_generation(other, first), "one generation", 60)
            before, others = first.current(), other.current()
        with member(servers, topic, instance="a") as again:
            now = again.poll()
            assert (now.number, now.assignment) == (before.number, before.assignment)
            assert now.member != before.member
            assert other.poll() == others


def test_a_static_leader_that_comes_back_shares_out_nothing_and_watches_the_topics(servers: str) -> None:
    topic = create(servers, "static-leader", 2)
    with member(servers, topic, instance="a") as first:
        before = first.poll()
    with member(servers, topic, instance="a") as again:
        now = again.poll()
        assert (now.number, now.assignment, now.leads) == (before.number, before.assignment, True)
        grow(servers, topic, 3)
        wait_for(lambda: again.poll().assignment == all_of(topic, 3), "the new partition")


def test_a_member_that_polls_too_late_has_left_and_joins_at_its_next_poll(servers: str) -> None:
    topic, revoked = create(servers, "late-member", 1), list[int]()
    with member(servers, topic, poll_ms=500, on_revoked=lambda: revoked.append(1)) as one:
        first = one.poll()
        wait_for(lambda: one.current() is None, "that it leaves")
        with Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
            wait_for(lambda: not membership.members(client, f"group-of-{topic}", "consumer"), "an empty group")
        assert len(revoked) == 1
        again = one.poll()
        assert len(revoked) == 2
        assert (again.assignment, again.member != first.member) == (first.assignment, True)


def test_a_member_that_was_removed_joins_under_another_id(servers: str) -> None:
    topic = create(servers, "removed-member", 1)
    with member(servers, topic) as one, Client(ClientConfig.parse({"bootstrap.servers": servers})) as client:
        first = one.poll()
        membership.leave(client, f"group-of-{topic}", first.member)
        wait_for(lambda: one.current() is None, "that it knows")
        assert one.poll().member != first.member
        second = one.current()
        one.join_again()
        assert one.current() is None
        assert one.poll().member != second.member
        assert len(membership.members(client, f"group-of-{topic}", "consumer")) == 1


def test_a_leader_that_joins_again_has_left_first_so_that_another_one_leads(servers: str) -> None:
    topic = create(servers, "joins-again", 2)
    with (
        FaultProxy(servers) as proxy,
        member(proxy.bootstrap_servers, topic, polled=False) as first,
        member(servers, topic, polled=False) as second,
    ):
        first.join()
        second.join()
        wait_for(lambda: in_one_generation(first, second), "one generation", 60)
        assert first.current().leads
        leaves = proxy.delay_request("LeaveGroup", seconds=0.5)
        before = len(proxy.log)
        first.join_again()
        assert leaves.happened.is_set()
        wait_for(lambda: in_one_generation(first, second), "one generation", 60)
        asked = [seen.api for seen in proxy.log[before:] if seen.api in ("LeaveGroup", "JoinGroup")]
        assert asked[:2] == ["LeaveGroup", "JoinGroup"]
        assert (first.current().leads, second.current().leads) == (False, True)


def test_one_that_is_closed_while_it_joins_leaves_no_member_behind(servers: str) -> None:
    topic, stop = create(servers, "closed-member", 1), threading.Event()
    with (
        member(servers, topic, poll_ms=60_000) as one,
        Client(ClientConfig.parse({"bootstrap.servers": servers})) as client,
    ):
        assert one.poll() is not None
        with member(servers, topic, poll_ms=60_000, stopping=stop.is_set) as two:
            thread = threading.Thread(target=two.poll)
            thread.start()
            wait_for(lambda: len(membership.members(client, f"group-of-{topic}", "consumer")) == 2, "its join")
            stop.set()
            thread.join()
            began = time.monotonic()
        assert time.monotonic() - began < 10
        assert len(membership.members(client, f"group-of-{topic}", "consumer")) == 1


def test_a_static_member_that_is_closed_while_it_joins_does_not_fence_the_next_one(servers: str) -> None:
    """Its join has no member id yet: sent again, it would take the id of whoever has it then."""
    topic, stop = create(servers, "closed-static", 2), threading.Event()
    with (
        member(servers, topic, poll_ms=60_000) as other,
        Client(ClientConfig.parse({"bootstrap.servers": servers})) as client,
    ):
        assert other.poll() is not None
        with member(servers, topic, instance="x", poll_ms=60_000, stopping=stop.is_set) as closed:
            thread = threading.Thread(target=closed.poll)
            thread.start()
            wait_for(lambda: len(membership.members(client, f"group-of-{topic}", "consumer")) == 2, "its join")
            stop.set()
            thread.join()
            began = time.monotonic()
        assert time.monotonic() - began < 4
        assert not [one.name for one in threading.enumerate() if one is closed._thread]
        with member(servers, topic, instance="x", poll_ms=60_000) as successor, polling(other, successor):
            wait_for(lambda: in_one_generation(other, successor), "one generation", 60)
            assert successor.current().assignment | other.current().assignment == all_of(topic, 2)


def test_a_refusal_is_raised_once_a_poll(servers: str) -> None:
    topic = create(servers, "refused-member", 1)
    with member(servers, topic, session_ms=1) as one:
        for _ in range(2):
            with pytest.raises(ConfigError, match=r"INVALID_SESSION_TIMEOUT.*group\.min\.session\.timeout\.ms"):
                one.poll()
        assert one.current() is None
