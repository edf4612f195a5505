"""Tables of metrics, their values at a scrape, and the server of several collectors."""

from __future__ import annotations

import urllib.request

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from semel.errors import ConfigError
from semel.metrics.families import Collector, Metric, MetricKind, Samples
from semel.metrics.server import serve

COUNT = Metric("one_total", MetricKind.COUNTER, ("prefix",), "Things.")
LEVEL = Metric("two", MetricKind.GAUGE, (), "A level.")
TIMES = Metric("three_seconds", MetricKind.SUMMARY, ("step",), "Times.")


class Things(Collector):
    metrics = (COUNT, LEVEL, TIMES)
    closed = False

    def fill(self, samples: Samples) -> None:
        samples.add(COUNT, 2, "a")
        samples.add(COUNT, 3, "a")
        samples.most(LEVEL, 5)
        samples.most(LEVEL, 4)
        samples.add(TIMES, 0.5, "begun", count=2)

    def close(self) -> None:
        self.closed = True


class Levels(Collector):
    metrics = (Metric("four", MetricKind.GAUGE, (), "Another level."),)

    def fill(self, samples: Samples) -> None:
        samples.add(self.metrics[0], 7)


def test_what_is_counted_is_added_and_of_a_level_the_greatest_is_kept() -> None:
    registry = CollectorRegistry()
    registry.register(Things())
    assert registry.get_sample_value("one_total", {"prefix": "a"}) == 5
    assert registry.get_sample_value("two") == 5
    assert registry.get_sample_value("three_seconds_count", {"step": "begun"}) == 2
    assert registry.get_sample_value("three_seconds_sum", {"step": "begun"}) == 0.5
    assert TIMES.exported == ("three_seconds_count", "three_seconds_sum")
    assert COUNT.exported == ("one_total",)


def test_several_collectors_are_served_and_closed() -> None:
    things = Things()
    with (
        serve([things, Levels()], 0) as server,
        urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as answer,
    ):
        text = answer.read().decode()
    assert 'one_total{prefix="a"} 5.0' in text
    assert "four 7.0" in text
    assert things.closed


def test_a_port_that_is_taken_leaves_the_registry_as_it_was() -> None:
    registry = CollectorRegistry()
    with serve([Things()], 0) as server, pytest.raises(ConfigError, match="METRICS_PORT"):
        serve([Levels()], server.port, registry=registry)
    assert generate_latest(registry) == b""


def test_a_registry_that_has_one_of_them_keeps_it_alone() -> None:
    registry = CollectorRegistry()
    registry.register(Things())
    with pytest.raises(ValueError, match="Duplicated"):
        serve([Levels(), Things()], 0, registry=registry)
    assert registry.get_sample_value("four") is None
    assert registry.get_sample_value("two") == 5
