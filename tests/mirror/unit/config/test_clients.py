"""The clients of a flow: which keys they take, and which no client reads."""

from __future__ import annotations

from pathlib import Path

from tests.mirror.unit.config.test_properties import read


def test_overrides_of_a_connector_are_of_the_target(tmp_path: Path) -> None:
    more = """
        producer.override.request.timeout.ms = 1000
        B.producer.retry.backoff.ms = 5
        A->B.producer.override.retry.backoff.ms = 6
        A->B.producer.override.compression.type = zstd
        A->B.admin.override.retry.backoff.max.ms = 70
        A->B.consumer.override.fetch.max.bytes = 8
        B.producer.override.request.timeout.ms = 9
    """
    found = read(tmp_path, more)
    (one,) = found.flows
    assert one.source == {"bootstrap.servers": "a:9092"}
    assert one.target == {
        "bootstrap.servers": "b:9092",
        "request.timeout.ms": "1000",
        "retry.backoff.ms": "6",
        "retry.backoff.max.ms": "70",
    }
    assert found.accepted == (
        "A->B.consumer.override.fetch.max.bytes",
        "A->B.producer.override.compression.type",
        "B.producer.override.request.timeout.ms",
    )


def test_keys_of_clients_that_no_flow_has_are_listed(tmp_path: Path) -> None:
    more = """
        A.consumer.fetch.max.bytes = 1
        A.admin.retry.backoff.ms = 2
        A.source.consumer.fetch.max.bytes = 3
        A.source.admin.retry.backoff.ms = 4
        A.producer.linger.ms = 5
        A.producer.compression.type = zstd
        B.producer.request.timeout.ms = 7000
        B.consumer.fetch.max.bytes = 8
        B.target.producer.request.timeout.ms = 9000
        emit.heartbeats.enabled = false
    """
    always = ["A.source.admin.retry.backoff.ms", "A.source.consumer.fetch.max.bytes"]
    of_sides = [*always, "B.target.producer.request.timeout.ms"]
    found = read(tmp_path, more)
    assert found.accepted == tuple(
        sorted([*of_sides, "A.producer.compression.type", "A.producer.linger.ms", "B.consumer.fetch.max.bytes"])
    )
    (one,) = found.flows
    assert (one.source["fetch.max.bytes"], one.source["retry.backoff.ms"]) == ("1", "2")
    assert one.target["request.timeout.ms"] == "7000"
    both = read(tmp_path, more + "B->A.enabled = true\n")
    assert both.accepted == tuple(sorted([*of_sides, "A.producer.compression.type"]))
