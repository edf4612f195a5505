"""The transaction timeout (DESIGN rule 10): what was set, else 15 minutes, else the broker's maximum where that is
less.
"""

from __future__ import annotations

import pytest

import semel
from semel.sandbox import Sandbox


def test_it_is_limited_by_the_brokers() -> None:
    with Sandbox.start(settings={"transaction.max.timeout.ms": "60000"}) as strict:
        for given, found in (({}, 60_000), ({"transaction.timeout.ms": 30_000}, 30_000)):
            with (
                semel.Cluster({"bootstrap.servers": strict.bootstrap_servers, **given}) as cluster,
                cluster.producer("short") as producer,
            ):
                producer.take_over()
                assert producer.timeout_ms == found
        longer = {"bootstrap.servers": strict.bootstrap_servers, "transaction.timeout.ms": 90_000}
        with (
            semel.Cluster(longer) as cluster,
            cluster.producer("long") as producer,
            pytest.raises(semel.ConfigError, match="INVALID_TRANSACTION_TIMEOUT"),
        ):
            producer.take_over()


def test_it_is_15_minutes_where_the_brokers_allow_that(kafka: Sandbox) -> None:
    with (
        semel.Cluster({"bootstrap.servers": kafka.bootstrap_servers}) as cluster,
        cluster.producer("usual") as producer,
    ):
        producer.take_over()
        assert producer.timeout_ms == 900_000
