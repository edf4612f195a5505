"""What a caller gives that cannot be, or that is not there yet: refused before anything is sent. No broker listens."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy

from semel import Cluster
from semel.database import Outbox
from semel.errors import ConfigError

CLUSTER = Cluster({"bootstrap.servers": "localhost:1"})


@pytest.mark.parametrize("number", [0, -1, 1.5, "10", None, True])
@pytest.mark.parametrize("name", ["session_timeout_ms", "max_poll_interval_ms", "max_poll_records"])
def test_numbers_of_a_session(name: str, number: Any) -> None:
    given: dict[str, Any] = {name: number}
    with pytest.raises(ConfigError, match=f"{name}={number!r} is no whole number above 0. Nothing was read"):
        CLUSTER.session("name", group="group", topics=["in"], **given)


def test_one_transaction_of_two_clusters() -> None:
    producer: Any = CLUSTER.producer
    with pytest.raises(ConfigError, match=r"SEMEL_WRONG_VALUE.*an ordinary producer, whose commit decides"):
        producer("orders", two_phase=True, clusters=[CLUSTER])


@pytest.mark.parametrize("version", ["x", 1.5, True])
def test_the_version_of_a_unit(version: Any) -> None:
    outbox = Outbox(sqlalchemy.create_engine("sqlite:///nowhere/at/all.db"), CLUSTER, "shop", two_phase="bounded")
    with pytest.raises(ConfigError, match="SEMEL_OUTBOX_VERSION"), outbox.unit(version=version):
        pytest.fail("the block ran")
