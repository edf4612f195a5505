"""What is said of brokers and clocks that a test cannot have at hand."""

from __future__ import annotations

import pytest

from semel.admin.check import Result
from semel.admin.doctor import _compared
from semel.admin.doctor_brokers import _broker
from semel.wire.api.cluster_clock import Clock
from semel.wire.api_versions import Versions

MARKERS = 27


@pytest.mark.parametrize(
    ("metadata", "transactions", "markers", "verdict", "told"),
    [
        (21, 0, 1, Result.REFUSED, "Kafka 3.9"),
        (25, 2, 1, Result.OK, "Kafka 4.0"),
        (27, 2, 1, Result.OK, "Kafka 4.1"),
        (29, 2, 2, Result.OK, "Kafka 4.2"),
        (30, 1, 2, Result.REFUSED, "transaction.version=1"),
        (33, 2, 2, Result.OK, "Kafka 4.4"),
        (99, 2, 2, Result.OK, "not known here"),
    ],
)
def test_a_broker(metadata: int, transactions: int, markers: int, verdict: Result, told: str) -> None:
    versions = Versions(
        "b:9092", {MARKERS: (0, markers)}, {"transaction.version": transactions}, {"metadata.version": metadata}
    )
    found = _broker(1, versions)
    assert found.verdict is verdict
    assert told in found.found
    assert ("pgrade" in found.advice) == (verdict is Result.REFUSED)
    assert ("skips an epoch" in found.advice) == (verdict is Result.OK and markers == 1)


@pytest.mark.parametrize(
    ("ahead", "doubt", "verdict", "told"),
    [
        (0, 1, Result.OK, "0 ms ahead"),
        (-4_000, 1, Result.OK, "4000 ms behind"),
        (9_000, 5, Result.WARNING, "9000 ms ahead"),
        (9_000, 5_000, Result.OK, ""),
    ],
)
def test_clocks(ahead: float, doubt: float, verdict: Result, told: str) -> None:
    found = _compared(Clock(1, ahead, doubt))
    assert found.verdict is verdict
    assert told in found.found
