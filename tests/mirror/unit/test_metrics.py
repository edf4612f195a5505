"""The latency of copies: from the times in the headers of batches to the metrics."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pyarrow as pa
import pytest

from semel.mirror import meter as metrics
from semel.mirror.config.properties import read_properties
from semel.mirror.copy import Piece, Times
from semel.mirror.meter import FlowMeter
from semel.mirror.metrics import METRICS
from semel.records.encode import encode

AT = ("A.orders", 0)


@pytest.fixture
def meter(tmp_path: Path) -> FlowMeter:
    file = tmp_path / "mm2.properties"
    servers = "A.bootstrap.servers = localhost:1\nB.bootstrap.servers = localhost:2\n"
    file.write_text(f"clusters = A, B\n{servers}A->B.enabled = true\n")
    return FlowMeter(read_properties(file).flows[0])


def test_the_latency_of_what_was_committed_lately(meter: FlowMeter, monkeypatch: pytest.MonkeyPatch) -> None:
    began = time.time() * 1000
    now = int(began)
    meter.add({AT: (10, 1)}, {AT: Times(now - 9_000, now - 5_000, 10 * (now - 7_000), 10)})
    meter.add({AT: (30, 1)}, {AT: Times(now - 4_000, now - 1_000, 30 * (now - 3_000), 30)})
    took = time.time() * 1000 - began + 2
    found = meter.latencies[AT]
    for value, least in ((found.least, 1_000), (found.mean, 4_000), (found.most, 9_000)):
        assert least - 1 <= value <= least + took
    monkeypatch.setattr(metrics, "_WINDOW_S", -1.0)
    assert meter.latencies == {}


def test_a_clock_that_is_behind_makes_no_latency_below_0(meter: FlowMeter) -> None:
    later = int(time.time() * 1000) + 3_600_000
    meter.add({AT: (1, 1)}, {AT: Times(later, later, later, 1)})
    assert (meter.latencies[AT].least, meter.latencies[AT].mean, meter.latencies[AT].most) == (0, 0, 0)


def test_the_times_of_several_batches_add_up() -> None:
    assert Times(5, 9, 70, 10) + Times(2, 8, 10, 2) == Times(2, 9, 80, 12)
    assert Times() + Times(2, 8, 10, 2) == Times(2, 8, 10, 2)


def test_the_times_come_from_the_headers_of_batches() -> None:
    def piece(*milliseconds: int) -> Piece:
        rows = pa.table({"value": [b""] * len(milliseconds), "timestamp": pa.array(milliseconds, pa.int64())})
        (made,) = encode(rows)
        return Piece(memoryview(b"".join(made.chunks)), 0, len(milliseconds))

    assert Times.of([piece(1_000, 2_000, 3_000), piece(5_000)]) == Times(1_000, 5_000, 11_000, 4)
    assert Times.of([piece(-1), piece(7_000)]) == Times(7_000, 7_000, 7_000, 1)  # one without a time
    assert Times.of([]) == Times()


def test_rates_are_those_of_the_window(meter: FlowMeter, monkeypatch: pytest.MonkeyPatch) -> None:
    meter._began -= 2 * metrics._WINDOW_S
    meter.add({AT: (30, 3_000)})
    assert meter.rates[AT] == metrics.Rate(0.5, 50)
    monkeypatch.setattr(metrics, "_WINDOW_S", -1.0)
    assert (meter.rates[AT].records, meter.copied[AT]) == (0, (30, 3_000))


def test_the_age_of_records_is_that_at_the_reading(meter: FlowMeter) -> None:
    now = int(time.time() * 1000)
    rows = pa.table({"value": [b"", b""], "timestamp": pa.array([now - 9_000, now - 5_000], pa.int64())})
    (made,) = encode(rows)
    meter.add({AT: (2, 1)}, {AT: Times.of([Piece(memoryview(b"".join(made.chunks)), 0, 2)])})
    age = meter.ages[AT]
    for value, least in ((age.least, 5_000), (age.newest, 5_000), (age.mean, 7_000), (age.most, 9_000)):
        assert least <= value < least + 4_000


def test_the_dashboard_queries_what_is_exported_and_all_of_it_by_its_labels() -> None:
    dashboard = json.loads((Path(metrics.__file__).parent / "grafana.json").read_text())
    labels = {metric.name: set(metric.labels) for metric in METRICS}
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    found = {name for expression in expressions for name in re.findall(r"\b(?:kafka|semel)_\w+", expression)}
    assert found == labels.keys()
    for expression in expressions:
        ((name, by),) = [
            (n, b)
            for n in re.findall(r"\b(?:kafka|semel)_\w+", expression)
            for b in re.findall(r"by \(([^)]*)\)", expression)
        ]
        assert {label.strip() for label in by.split(",")} <= labels[name], expression
