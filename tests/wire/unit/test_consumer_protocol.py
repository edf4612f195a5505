"""What members of a consumer group say, and the two assignors, against kafka-python's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from semel.config import ClientConfig
from semel.wire.api.membership import Joined, Member
from semel.wire.client import Client
from semel.wire.consumer_protocol import ASSIGNORS, ConsumerProtocol, Subscription, subscriptions

MEMBERS = st.dictionaries(
    st.text("abcd", min_size=1, max_size=2),
    st.tuples(st.sets(st.sampled_from(["t", "u", "v"]), min_size=1), st.booleans()),
    min_size=1,
    max_size=5,
)
COUNTS = st.fixed_dictionaries({"t": st.integers(0, 7), "u": st.integers(0, 7), "v": st.integers(0, 7)})


def joined(members: dict[str, Member]) -> Joined:
    return Joined("consumer", "range", 1, "a", None, "a", members)


def said(topics: Any, version: int = 0, user_data: bytes | None = b"") -> bytes:
    return bytes(ConsumerProtocolSubscription(version, sorted(topics), user_data).encode())


@pytest.mark.parametrize("theirs", [RangePartitionAssignor, RoundRobinPartitionAssignor])
@given(MEMBERS, COUNTS)
def test_all_clients_share_out_alike(
    theirs: Any, members: dict[str, tuple[set[str], bool]], counts: dict[str, int]
) -> None:
    """Any of them may lead: a member that comes back under another leader keeps its partitions."""
    read = set().union(*(topics for topics, _ in members.values()))
    counts = {topic: count for topic, count in counts.items() if count and topic in read}
    if theirs is RoundRobinPartitionAssignor:  # kafka-python's raises where subscriptions differ (3.0.12)
        members = {name: (read, static) for name, (_, static) in members.items()}
    given_members = {
        name: Member(said(topics), f"static-{name}" if static else None) for name, (topics, static) in members.items()
    }
    ours = ASSIGNORS[theirs.name].assign(counts, subscriptions(joined(given_members)))
    rows = [
        SimpleNamespace(
            member_id=name,
            group_instance_id=member.instance,
            metadata=ConsumerProtocolSubscription.decode(member.metadata),
        )
        for name, member in sorted(given_members.items(), key=lambda row: (row[1].instance is None, row[0]))
    ]
    cluster = SimpleNamespace(partitions_for_topic=lambda topic: set(range(counts.get(topic, 0))) or None)
    expected = {
        name: sorted(
            (row.topic, index)
            for row in ConsumerProtocolAssignment.decode(one.encode()).assigned_partitions
            for index in row.partitions
        )
        for name, one in theirs.assign(cluster, rows).items()
    }
    assert {name: sorted(ours.get(name, ())) for name in expected} == expected


def test_newer_members_are_understood_and_static_ones_come_first() -> None:
    newer = ConsumerProtocolSubscription(3, ["t"], b"claims", [("t", [1])], 5, "rack")
    found = subscriptions(joined({"a": Member(said(["u"], user_data=None)), "z": Member(bytes(newer.encode()), "one")}))
    assert list(found.items()) == [("z", ({"t"}, b"claims")), ("a", ({"u"}, b""))]


def test_an_assignment_is_read_and_none_is_empty() -> None:
    protocol = ConsumerProtocol(["t"], tuple(ASSIGNORS.values()))
    data = bytes(ConsumerProtocolAssignment(1, [("t", [0, 2])], b"x").encode())
    assert protocol.accept(joined({}), data) == {("t", 0), ("t", 2)}
    assert protocol.accept(joined({}), b"") == frozenset()
    assert protocol.metadata() == {"range": said(["t"]), "roundrobin": said(["t"])}


def test_who_has_just_shared_out_asks_no_broker() -> None:
    protocol = ConsumerProtocol([], tuple(ASSIGNORS.values()))
    with Client(ClientConfig.parse({"bootstrap.servers": "localhost:1"})) as client:
        assert protocol.assign(client, joined({"a": Member(said([]))})).keys() == {"a"}
        assert not protocol.outdated(client)


def test_round_robin_passes_over_members_that_do_not_read_a_topic() -> None:
    members = {"a": Subscription({"t", "u"}), "b": Subscription({"t"})}
    shares = ASSIGNORS["roundrobin"].assign({"t": 3, "u": 2}, members)
    assert {member: sorted(share) for member, share in shares.items()} == {
        "a": [("t", 0), ("t", 2), ("u", 0), ("u", 1)],
        "b": [("t", 1)],
    }
