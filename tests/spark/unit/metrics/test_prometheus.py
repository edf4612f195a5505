"""What is exported, and that dashboard, page and exporter speak of the same metrics.

No broker is asked: ``tests/spark/broker/test_metrics.py`` asks one.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import urllib.request
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from semel.config import ClientConfig
from semel.connect import metrics as connect
from semel.errors import ConfigError, Retriable
from semel.spark.metrics import cluster_poll, collector
from semel.spark.metrics import meter as metrics
from semel.spark.metrics.collector import METRICS, MetricsCollector, serve_metrics
from semel.spark.metrics.meter import BatchOutcome, Meter, TopicTotals, meter
from semel.steps import OwnerStep, reached

PAGE = (Path(__file__).parents[4] / "docs" / "metrics.md").read_text()
#: Those of the sinks, and of semel's own those of Connect: the page has one more test for Kafka's names.
ON_THE_PAGE = [*METRICS, *(metric for metric in connect.METRICS if metric.name.startswith("semel_"))]
DASHBOARD = json.loads((Path(collector.__file__).parent / "grafana.json").read_text())
EXPORTED = {name for metric in METRICS for name in metric.exported}
#: A clock that is looked at only where a test says so.
NEVER: dict[str, Any] = {"every_seconds": 1_000_000.0}

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No meters of other tests; the cluster has what a test says, and else nothing."""
    monkeypatch.setattr(metrics, "_meters", type(metrics._meters)())
    answers(monkeypatch)


def answers(patch: pytest.MonkeyPatch, *, lag: Any = None, held: Any = None) -> None:
    """What the cluster answers: offsets by partition, or an error."""

    def answer(value: Any) -> Callable[..., Mapping[tuple[str, int], int]]:
        def asked(*_: object) -> Mapping[tuple[str, int], int]:
            if isinstance(value, Exception):
                raise value
            return value or {}

        return asked

    patch.setattr(cluster_poll, "_lag", answer(lag))
    patch.setattr(cluster_poll, "held_back", answer(held))


def mine(prefix: str = "orders", server: str = "localhost", outputs: tuple[str, ...] = ("out",)) -> Meter:
    return meter(ClientConfig(((server, 9092),)), prefix, outputs)


def scraped(collector: MetricsCollector) -> Samples:
    registry = CollectorRegistry()
    registry.register(collector)
    return parsed(generate_latest(registry).decode())


def parsed(text: str) -> Samples:
    families = text_string_to_metric_families(text)
    found = [
        (sample.name, frozenset(sample.labels.items()), sample.value)
        for family in families
        for sample in family.samples
    ]
    assert len(found) == len({(name, labels) for name, labels, _ in found}), "one series twice"
    return {(name, labels): value for name, labels, value in found}


def value(samples: Samples, name: str, **labels: str) -> float | None:
    return samples.get((name, frozenset(labels.items())))


def test_each_series_is_listed_and_each_that_is_listed_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, lag={("in", 0): 1}, held={("out", 0): 1})
    with mine().measure(0) as batch:
        reached(OwnerStep.BEGUN)
        mine().ended(True)
        batch.outcome = BatchOutcome.WRITTEN
    samples = scraped(MetricsCollector())
    assert {name for name, _ in samples} == EXPORTED
    for metric in METRICS:
        labels = [{name for name, _ in labels} for name, labels in samples if name in metric.exported]
        assert all(found == set(metric.labels) for found in labels), metric.name


def test_values(monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, lag={("in", 0): 5, ("in", 1): 7, ("more", 0): 0}, held={("out", 0): 3, ("out", 1): 4})
    with mine().measure(0) as batch:
        mine().ended(False)
        mine().again()
        mine().ended(True)
        batch.outcome, batch.wrote = BatchOutcome.WRITTEN, {"out": TopicTotals(10, 500)}
    samples = scraped(MetricsCollector())
    assert value(samples, "semel_commits_total", prefix="orders") == 1
    assert value(samples, "semel_aborts_total", prefix="orders") == 1
    assert value(samples, "semel_reruns_total", prefix="orders") == 1
    assert {
        outcome.value: value(samples, "semel_batches_total", prefix="orders", outcome=outcome.value)
        for outcome in BatchOutcome
    } == {
        "written": 1,
        "skipped": 0,
        "rebuilt": 0,
        "stopped": 0,
        "failed": 0,
    }
    assert value(samples, "semel_rows_total", prefix="orders", topic="out") == 10
    assert value(samples, "semel_bytes_total", prefix="orders", topic="out") == 500
    assert value(samples, "semel_batch_seconds_count", prefix="orders") == 1
    assert value(samples, "semel_transaction_age_seconds", prefix="orders") == 0
    assert value(samples, "semel_lag_records", prefix="orders", topic="in") == 12
    assert value(samples, "semel_lag_records", prefix="orders", topic="more") == 0
    assert value(samples, "semel_last_stable_offset_held_back_records", prefix="orders", topic="out") == 7
    assert value(samples, "semel_cluster_unanswered_total") == 0


def test_a_sink_that_has_done_nothing_yet_shows_zeros() -> None:
    mine()
    samples = scraped(MetricsCollector())
    assert value(samples, "semel_commits_total", prefix="orders") == 0
    assert value(samples, "semel_rows_total", prefix="orders", topic="out") == 0
    assert value(samples, "semel_last_commit_timestamp_seconds", prefix="orders") is None


def test_one_prefix_in_two_clusters_is_one_series() -> None:
    for server in ("one", "two"):
        with mine(server=server).measure(0) as batch:
            mine(server=server).ended(True)
            batch.outcome, batch.wrote = BatchOutcome.WRITTEN, {"out": TopicTotals(3, 4)}
    samples = scraped(MetricsCollector())
    assert value(samples, "semel_commits_total", prefix="orders") == 2
    assert value(samples, "semel_rows_total", prefix="orders", topic="out") == 6


# ---- a cluster that cannot be asked


def test_what_cannot_be_asked_is_a_gap_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mine()
    collector = MetricsCollector(every_seconds=0)
    answers(monkeypatch, lag=Retriable("nobody is there"), held=Retriable("nobody is there"))
    with caplog.at_level(logging.WARNING, "semel"):
        found = [scraped(collector) for _ in range(3)]
    assert [value(samples, "semel_cluster_unanswered_total") for samples in found] == [1, 2, 3]
    assert all(value(samples, "semel_commits_total", prefix="orders") == 0 for samples in found)
    assert not [
        name for name, _ in found[-1] if name in ("semel_lag_records", "semel_last_stable_offset_held_back_records")
    ]
    assert [record.getMessage() for record in caplog.records].count(
        "metrics of the cluster are missing until it can be asked again: [SEMEL_TIMEOUT] nobody is there"
    ) == 1
    answers(monkeypatch, lag={("in", 0): 5})
    assert value(scraped(collector), "semel_lag_records", prefix="orders", topic="in") == 5


def test_a_missing_right_hides_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    mine()
    answers(monkeypatch, lag=ConfigError("no right to the source"), held={("out", 0): 3})
    samples = scraped(MetricsCollector())
    assert value(samples, "semel_last_stable_offset_held_back_records", prefix="orders", topic="out") == 3
    assert value(samples, "semel_cluster_unanswered_total") == 1


def test_registering_asks_nobody_and_the_cluster_is_asked_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Collection[str]] = []

    def count(_: object, outputs: Collection[str], __: object) -> dict[tuple[str, int], int]:
        asked.append(outputs)
        return {}

    monkeypatch.setattr(cluster_poll, "held_back", count)
    mine()
    registry, collector = CollectorRegistry(), MetricsCollector(**NEVER)
    registry.register(collector)
    assert asked == []
    for _ in range(3):
        generate_latest(registry)
    assert asked == [("out",)]


# ---- served


def test_served_over_http_until_it_is_closed() -> None:
    mine()
    with serve_metrics(0) as server:
        url = f"http://127.0.0.1:{server.port}/metrics"
        with urllib.request.urlopen(url, timeout=30) as answer:
            found = parsed(answer.read().decode())
        assert value(found, "semel_commits_total", prefix="orders") == 0
        with pytest.raises(ConfigError, match=f"METRICS_PORT.*127.0.0.1:{server.port}"):
            serve_metrics(server.port)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(url, timeout=30)


def test_a_registry_of_ones_own_is_served_and_left_as_it_was() -> None:
    registry = CollectorRegistry()
    Gauge("others", "Of the user's program.", registry=registry).set(7)
    for _ in range(2):
        with (
            serve_metrics(0, registry=registry) as server,
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30) as answer,
        ):
            found = parsed(answer.read().decode())
        assert (value(found, "others"), value(found, "semel_cluster_unanswered_total")) == (7, 0)
    assert {name for name, _ in parsed(generate_latest(registry).decode())} == {"others"}


def test_without_the_package_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "prometheus_client"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    for make in (MetricsCollector, lambda: serve_metrics(0)):
        with pytest.raises(ConfigError, match=r"MISSING_EXTRA.*in semel's checkout: pip install '\.\[metrics\]'"):
            make()


# ---- the dashboard and the page


def queried(text: str) -> set[str]:
    """Names of metrics in expressions, in a page, in rules."""
    return set(re.findall(r"\bsemel_[a-z_]+", text))


def expressions() -> list[str]:
    found = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
    return [*found, *(each["definition"] for each in DASHBOARD["templating"]["list"] if "definition" in each)]


def test_the_dashboard_queries_what_is_exported_and_all_of_it() -> None:
    found = queried("\n".join(expressions()))
    assert found - EXPORTED == set(), "a panel would stay empty"
    assert EXPORTED - found == set(), "nobody would see it"


def test_the_dashboard_groups_by_labels_that_are_there() -> None:
    labels = {metric.name: set(metric.labels) for metric in METRICS}
    for expression in expressions():
        names = [name for name in labels if name in expression]
        assert names, expression
        for group in re.findall(r"by \(([^)]*)\)", expression):
            asked = {label.strip() for label in group.split(",")} - {"instance"}
            assert all(asked <= labels[name] for name in names), expression


def covered(x: int, y: int, w: int, h: int) -> Iterable[tuple[int, int]]:
    return product(range(x, x + w), range(y, y + h))


def test_the_dashboards_panels_do_not_overlap_and_have_their_own_ids() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [cell for panel in panels for cell in covered(**panel["gridPos"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_the_page_has_each_metric_with_its_kind_and_labels() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if line.startswith("| `semel_")
    ]
    found = {row[0].strip("`"): (row[1], tuple(re.findall(r"`(\w+)`", row[2]))) for row in rows}
    assert found == {metric.name: (metric.kind.value, metric.labels) for metric in ON_THE_PAGE}


def test_the_page_names_nothing_else() -> None:
    assert queried(PAGE) - EXPORTED - {metric.name for metric in ON_THE_PAGE} == set()


@pytest.mark.parametrize("text", ["rate(semel_comits_total[5m])", "semel_lag"])
def test_a_metric_that_is_not_there_is_seen(text: str) -> None:
    assert queried(text) - EXPORTED
