"""The peers: what Kafka's tool reports."""

from __future__ import annotations

import pytest

from bench.perf_tool import rate_in

REPORTED = """\
250000 records sent, 49990.0 records/sec (4.77 MB/sec), 12.0 ms avg latency, 300.0 ms max latency.
312345 records sent, 62469.0 records/sec (5.96 MB/sec), 10.0 ms avg latency, 100.0 ms max latency.
600000 records sent, 58823.529412 records/sec (5.61 MB/sec), 11.00 ms avg latency, 300.00 ms max latency, \
9 ms 50th, 20 ms 95th, 30 ms 99th.
"""


def test_the_rate_is_that_of_the_whole_run() -> None:
    assert rate_in(REPORTED) == 58823.529412


def test_a_tool_that_reports_nothing_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="reported no rate"):
        rate_in("usage: producer-performance\n")
