"""What a sink says of Spark's settings before its first batch."""

from __future__ import annotations

import pytest

from semel.spark.jvm.values import Settings
from semel.spark.sink.foreach_batch import note_slow_sockets


@pytest.mark.parametrize("domain_sockets", [False, True])
def test_slow_sockets_are_noted(caplog: pytest.LogCaptureFixture, domain_sockets: bool) -> None:
    caplog.set_level("INFO", "semel.spark")
    note_slow_sockets(Settings(1, True, False, 1000, 1000, domain_sockets))
    assert ("spark.python.unix.domain.socket.enabled" in caplog.text) is not domain_sockets
