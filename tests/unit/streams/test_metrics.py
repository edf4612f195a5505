"""The numbers of an application: what is counted, what a window forgets, and a cluster that does not answer."""

from __future__ import annotations

from itertools import count

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from semel.config import ClientConfig
from semel.streams.metrics import NAMES, StreamsCollector, WorkerMeter, meter_of

AVERAGE, LONGEST = (f"kafka_streams_stream_thread_metrics_commit_latency_{name}" for name in ("avg", "max"))
PROCESSED = "kafka_streams_stream_task_metrics_process_total"
_names = count(1)


def values(meter: WorkerMeter) -> dict[tuple[str, ...], float]:
    return {(name, *labels): value for name, labels, value in meter.samples()}


def test_the_longest_commit_is_that_of_the_last_minute() -> None:
    now = [0.0]
    meter = WorkerMeter(lambda: now[0])
    assert (AVERAGE,) not in values(meter)
    for at, took in ((0, 0.9), (30, 0.1), (31, 0.3)):
        now[0] = at
        meter.committed(took, {}, {})
    assert values(meter)[LONGEST,] == 900
    now[0] = 61
    assert (values(meter)[AVERAGE,], values(meter)[LONGEST,]) == (200, 300)
    now[0] = 100
    assert (LONGEST,) not in values(meter)
    assert values(meter)["kafka_streams_stream_thread_metrics_commit_total",] == 3


def test_a_worker_that_starts_again_counts_on_and_a_task_that_left_has_no_lag() -> None:
    name, config = f"metered-{next(_names)}", ClientConfig.parse({"bootstrap.servers": "localhost:1"})
    meter = meter_of(name, config)
    meter.assigned(["0_0", "0_1"], {("in", 0): 5})
    assert values(meter)[PROCESSED, "0_1"] == 0
    meter.worked("0_0", 3)
    assert meter.positions == {("in", 0): 5}
    meter.assigned([], {})
    meter = meter_of(name, config)
    meter.worked("0_0", 4)
    assert values(meter)[PROCESSED, "0_0"] == 7
    assert meter.positions == {}


def test_a_cluster_that_does_not_answer_is_a_gap_in_the_lag(caplog: pytest.LogCaptureFixture) -> None:
    name = f"metered-{next(_names)}"
    meter = meter_of(name, ClientConfig.parse({"bootstrap.servers": "localhost:1"}))
    meter.committed(0.1, {("in", 0): 5}, {"0_0": 2})
    registry = CollectorRegistry()
    registry.register(StreamsCollector(within_ms=100))
    told = generate_latest(registry).decode()
    assert f'dropped_records_total{{application_id="{name}",task_id="0_0"}} 2.0' in told
    assert all(f"# HELP {one} " in told for one in NAMES)
    assert "records_lag{" not in told
    assert f"the lag of application {name!r} could not be asked" in caplog.text
