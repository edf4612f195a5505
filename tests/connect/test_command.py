"""``semel connect test``: it finds a connector that keeps its offset in memory, and no fault in another."""

from __future__ import annotations

import pytest

from semel.steps import ConnectStep
from semel.testing.connector import check_connector


@pytest.mark.exhaustive
@pytest.mark.parametrize("kind", ["Numbers", "Forgetful"])
def test_a_connector_is_tested(kind: str) -> None:
    given = {"connector.class": f"tests.connect.support.numbers.{kind}", "topic": "numbers", "limit": "400"}
    found = check_connector(given)
    assert found.expected == 400
    assert found.struck == tuple(ConnectStep)
    assert not found.lost
    assert found.exact is (kind == "Numbers")
    assert (sum(found.doubled.values()) > 0) is (kind == "Forgetful")
