"""Names on the target, and what is never mirrored."""

from __future__ import annotations

import pytest

from semel.mirror.policy import DEFAULT_EXCLUDED, ReplicationPolicy, TopicFilter

DEFAULT, IDENTITY = ReplicationPolicy("A", "B"), ReplicationPolicy("A", "B", identity=True)


def test_names() -> None:
    assert DEFAULT.remote_topic("orders") == "A.orders"
    assert ReplicationPolicy("A", "B", separator="__").remote_topic("orders") == "A__orders"
    assert IDENTITY.remote_topic("orders") == "orders"


@pytest.mark.parametrize("names", [DEFAULT, IDENTITY], ids=["default", "identity"])
@pytest.mark.parametrize(
    "topic",
    """__consumer_offsets __transaction_state .hidden mm2-offsets.A.internal mm2-offset-syncs.B.internal
    B.checkpoints.internal connect-configs-internal heartbeats semel-progress semel-mirror-segments""".split(),
)
def test_what_is_never_mirrored(names: ReplicationPolicy, topic: str) -> None:
    assert names.refused(topic) is not None


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        ("B.orders", "it has come from B"),
        ("C.B.orders", "it has come from B"),
        ("C.heartbeats", "heartbeats of MirrorMaker 2"),
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
    names = ReplicationPolicy("A", "B", separator="_")
    assert names.refused("B_orders") == "it has come from B"
    assert names.refused("B.orders") is None


def test_topics_match_whole_names() -> None:
    chosen = TopicFilter.parse(("topics", "orders, eu-.*|us-.*"), ("topics.exclude", f"{DEFAULT_EXCLUDED}, eu-secret"))
    names = ("orders", "orders2", "eu-1", "us-1", "my-eu-1", "eu-secret", "us-1.replica", "")
    assert [name for name in names if chosen.matches(name)] == ["orders", "eu-1", "us-1"]
    assert not TopicFilter.parse(("topics", ""), ("topics.exclude", "")).matches("orders")
