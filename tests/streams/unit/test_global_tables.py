"""Streams that are joined with a global table."""

from __future__ import annotations

import pytest

from semel.errors import ConfigError
from semel.streams import App
from semel.streams.testing import Driver
from semel.streams.topology.mermaid import mermaid
from tests.streams.support.topologies import said


def test_a_record_is_joined_by_a_key_of_its_value() -> None:
    app = App("orders")
    users = app.global_table("users", key="string", value="string", name="users")
    orders = app.stream("orders", key="string", value="json")
    joined = orders.join(
        users, lambda order, user: f"{user}: {order['cents']}", key_selector=lambda one: one.value["by"], value="string"
    )
    joined.to("out")
    orders.left_join(users, lambda _, user: user, key_selector=lambda one: one.value["by"]).to("left")
    driver = Driver(app)
    driver.pipe("users", "Ann", key="1", timestamp=9)
    driver.pipe_many("orders", [("x", {"by": "1", "cents": 5}, 1), ("y", {"by": "2", "cents": 6}, 2)])
    driver.pipe("users", None, key="1", timestamp=9)
    driver.pipe("orders", {"by": "1", "cents": 7}, key="x", timestamp=3)
    assert said(driver, "out") == [(b"x", "Ann: 5", 1)]
    assert [row[1] for row in said(driver, "left")] == ['"Ann"', None, None]


def test_a_global_table_is_drawn_and_has_a_number_without_tasks() -> None:
    app = App("drawn")
    users = app.global_table("users", key="string", value="string", name="users")
    app.stream("orders", key="string").join(users, lambda order, user: user, key_selector=lambda one: one.key).to("out")
    assert "Sub-topology: 0 for global store (will not generate tasks)" in app.describe()
    (part,) = app.topology.sub_topologies()
    assert part.number == 1
    assert part.stores == []
    drawn = mermaid(app.topology)
    assert 'global0(["users: in each worker"])' in drawn
    assert "-.- global0" in drawn


def test_what_cannot_be_joined_is_refused() -> None:
    app, other = App("one"), App("other")
    users = app.global_table("users")
    orders = app.stream("orders")
    with pytest.raises(ConfigError, match="by a key_selector"):
        orders.join(users, lambda order, user: user)
    with pytest.raises(ConfigError, match="global table of its application"):
        orders.join(other.global_table("users"), lambda order, user: user, key_selector=lambda one: one.key)
    with pytest.raises(ConfigError, match="topic 'users' is read twice"):
        app.stream("users")
    with pytest.raises(ConfigError, match="two stores are named 'x'"):
        app.table("a", name="x"), app.global_table("b", name="x")
