"""Names on the target, and what is never mirrored."""

from __future__ import annotations

import pytest

from semel.mirror.policy import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from semel.mirror.topic_filter import DEFAULT_EXCLUDED, TopicFilter

DEFAULT = DefaultReplicationPolicy("A", "B", clusters=("A", "B", "C", "eu.west"))
IDENTITY = IdentityReplicationPolicy("A", "B")


def test_names() -> None:
    assert DEFAULT.format_remote_topic("orders") == "A.orders"
    assert DefaultReplicationPolicy("A", "B", separator="__").format_remote_topic("orders") == "A__orders"
    assert IDENTITY.format_remote_topic("orders") == "orders"
    assert DEFAULT.checkpoints_topic == IDENTITY.checkpoints_topic == "A.checkpoints.internal"


def test_where_a_topic_comes_from() -> None:
    assert [DEFAULT.topic_source(name) for name in ("C.A.orders", "orders")] == ["C", None]
    assert DEFAULT.upstream_topic("C.A.orders") == "A.orders"
    assert [DEFAULT.original_topic(name) for name in ("C.eu.west.orders", "iot.orders")] == ["orders", "iot.orders"]
    assert IDENTITY.topic_source("C.orders") is None
    assert IDENTITY.upstream_topic("C.orders") == IDENTITY.original_topic("C.orders") == "C.orders"


def test_heartbeats_have_their_way_in_their_names() -> None:
    for names in (DEFAULT, IDENTITY):
        assert names.format_remote_topic("heartbeats") == "A.heartbeats"
        assert names.refused("heartbeats") is None
        assert names.refused("B.heartbeats") == "it has come from B"
        heartbeats = [
            name for name in ("heartbeats", "A.heartbeats", "heartbeats.A") if names.is_heartbeats_topic(name)
        ]
        assert heartbeats == ["heartbeats", "A.heartbeats"]
    assert DEFAULT.is_heartbeats_topic("X.Y.heartbeats"), "another mirror's clusters"
    assert IDENTITY.format_remote_topic("iot.heartbeats") == "iot.heartbeats"


@pytest.mark.parametrize("policy", [DefaultReplicationPolicy, IdentityReplicationPolicy])
def test_an_alias_with_the_separator_in_it_is_known_as_it_is_written(policy: type[ReplicationPolicy]) -> None:
    names = policy("us.east", "us.west", clusters=("us.east", "us.west"))
    assert names.topic_source("us.west.us.east.heartbeats") == "us.west"
    assert names.upstream_topic("us.west.us.east.heartbeats") == "us.east.heartbeats"
    assert names.refused("us.west.heartbeats") == "it has come from us.west"
    assert names.refused("us.east.us.west.heartbeats") == "it has come from us.west"
    assert names.refused("heartbeats") is None


def test_names_that_come_back() -> None:
    default, identity = DefaultReplicationPolicy("B", "A"), IdentityReplicationPolicy("B", "A")
    assert IDENTITY.returns_names(identity)
    assert not any((IDENTITY.returns_names(default), DEFAULT.returns_names(identity), DEFAULT.returns_names(default)))


def test_what_positions_record() -> None:
    assert (DEFAULT.recorded_name, IDENTITY.recorded_name) == ("default.", "identity")
    assert DefaultReplicationPolicy("A", "B", separator="_").recorded_name == "default_"


@pytest.mark.parametrize("names", [DEFAULT, IDENTITY], ids=["default", "identity"])
@pytest.mark.parametrize(
    "topic",
    """__consumer_offsets __transaction_state .hidden mm2-offsets.A.internal mm2-offset-syncs.B.internal
    B.checkpoints.internal connect-configs-internal semel-progress semel-mirror-segments""".split(),
)
def test_what_is_never_mirrored(names: ReplicationPolicy, topic: str) -> None:
    assert names.refused(topic) is not None


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("B.orders", "it has come from B"),
        ("C.B.orders", "it has come from B"),
        ("heartbeats", None),
        ("iot.heartbeats", None),
        ("C.iot.heartbeats", None),
        ("heartbeats.iot", None),
        ("iot.semel-progress", None),
        ("C.semel-progress", "semel's own"),
        ("C.orders", None),
        ("Bs.orders", None),
        ("orders.B", None),
        ("B", None),
        ("orders", None),
    ],
)
def test_cycles_are_cut_by_names(topic: str, reason: str | None) -> None:
    assert DEFAULT.refused(topic) == reason
    assert IDENTITY.refused(topic) is None


def test_another_separator() -> None:
    names = DefaultReplicationPolicy("A", "B", separator="_")
    assert names.refused("B_orders") == "it has come from B"
    assert names.refused("B.orders") is None


@pytest.mark.parametrize("policy", [DefaultReplicationPolicy, IdentityReplicationPolicy])
@pytest.mark.parametrize(
    ("own", "checkpoints", "internal"),
    [
        (True, "A_checkpoints_internal", {"C_checkpoints_internal", "mm2-offset-syncs_C_internal"}),
        (False, "A.checkpoints.internal", set()),
    ],
)
def test_the_separator_of_mirrormakers_own_topics(
    own: bool, checkpoints: str, internal: set[str], policy: type[ReplicationPolicy]
) -> None:
    names = policy("A", "B", "_", internal_separator_enabled=own)
    assert names.checkpoints_topic == checkpoints
    asked = """C_checkpoints_internal mm2-offset-syncs_C_internal C.checkpoints.internal mm2-offset-syncs.C.internal
    orders_internal orders_checkpoints"""
    always = {"C.checkpoints.internal", "mm2-offset-syncs.C.internal"}
    assert {topic for topic in asked.split() if names.refused(topic) is not None} == always | internal


def test_topics_match_whole_names() -> None:
    chosen = TopicFilter.parse(("topics", "orders, eu-.*|us-.*"), ("topics.exclude", f"{DEFAULT_EXCLUDED}, eu-secret"))
    names = ("orders", "orders2", "eu-1", "us-1", "my-eu-1", "eu-secret", "us-1.replica", "")
    assert [name for name in names if chosen.matches(name)] == ["orders", "eu-1", "us-1"]
    assert not TopicFilter.parse(("topics", ""), ("topics.exclude", "")).matches("orders")
