"""Foreign-key joins of tables."""

from __future__ import annotations

import pytest

from semel.errors import ConfigError, Unsupported
from semel.streams import App
from semel.streams.nodes.tables.subscriptions import Instruction, Response, Subscription, value_hash
from semel.streams.testing import Driver
from tests.streams.support.topologies import said


def shop() -> tuple[App, Driver]:
    app = App("shop")
    orders, users = (app.table(name, key="string", value="json", name=name) for name in ("orders", "users"))
    joined = orders.left_join(
        users,
        lambda order, user: [order["cents"], user and user["name"]],
        foreign_key_extractor=lambda record: record.value["by"],
        name="bills",
        named="billed",
    )
    joined.to_stream().to("bills")
    return app, Driver(app)


def test_both_sides_change_the_result() -> None:
    app, driver = shop()
    driver.pipe("orders", {"by": "ann", "cents": 5}, key="1", timestamp=1)
    driver.pipe("users", {"name": "Ann"}, key="ann", timestamp=2)
    driver.pipe("orders", {"by": "bob", "cents": 6}, key="1", timestamp=3)
    driver.pipe("users", {"name": "Anne"}, key="ann", timestamp=4)
    driver.pipe("orders", None, key="1", timestamp=5)
    assert said(driver, "bills") == [
        (b"1", "[5,null]", 1),
        (b"1", '[5,"Ann"]', 2),
        (b"1", "[6,null]", 3),
        (b"1", None, 5),
    ]
    assert driver.store("billed-subscription-store") == {}
    topics = app.topology.internal_topics()
    assert {"shop-billed-subscription-registration-topic", "shop-billed-subscription-response-topic"} <= set(topics)


def test_subscriptions_and_responses_are_what_kafka_writes() -> None:
    own = value_hash(b"hello")
    assert own is not None
    assert own.hex() == "30bfb4f39919e764566aea857401d1c6"
    for one in (
        Subscription(own, Instruction.ANSWER_ALWAYS, b"key", 7),
        Subscription(None, Instruction.DELETE, b"", 0),
    ):
        assert Subscription.parse(one.encode()) == one
    assert Subscription(None, Instruction.DELETE_AND_ANSWER, b"k", 1).encode() == b"\x81\x01k\0\0\0\1"
    assert Response.parse(Response(own, b"v").encode()) == Response(own, b"v")
    assert Response.parse(b"\x80") == Response(None, None)


def test_foreign_keys_that_begin_alike_are_apart() -> None:
    _, driver = shop()
    driver.pipe_many("orders", [(name, {"by": name, "cents": 1}, 1) for name in ("a", "ab", "\x7f")])
    driver.pipe("users", {"name": "A"}, key="a", timestamp=2)
    assert said(driver, "bills")[3:] == [(b"a", '[1,"A"]', 2)]


def test_what_cannot_be_joined_is_refused() -> None:
    app = App("refused")
    one, other = (app.table(name, key="string", value="json") for name in ("one", "other"))
    with pytest.raises(ConfigError, match="a function of a record"):
        one.join(other, lambda this, that: this, foreign_key_extractor="by")  # type: ignore[arg-type]
    with pytest.raises(Unsupported, match="a name for a join of tables by their keys"):
        one.join(other, lambda this, that: this, name="joined")
