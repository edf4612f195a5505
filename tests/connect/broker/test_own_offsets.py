"""Connectors with an offsets topic of their own, and with clients that lead elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semel.connect.stores.config_format import STOPPED
from semel.processes.supervisor import State
from semel.sandbox import Sandbox
from semel.testing.records import arrived, read
from tests.connect.support.place import Place
from tests.support import topics
from tests.support.waiting import wait_for


@pytest.fixture
def place(spark: SparkSession, kafka: Sandbox, tmp_path: Path) -> Place:
    return Place(spark, kafka.bootstrap_servers, tmp_path)


def _newest(servers: str, topic: str, connector: str) -> str | None:
    """The newest offset of a connector in an offsets topic."""
    rows = read(servers, [topic], {"key": "key", "value": "value"}, missing="").sort_by("offset").to_pylist()
    found = [row["value"] for row in rows if row["key"].startswith(f'["{connector}",{{"name"')]
    return found[-1] if found else None


def test_from_the_workers_offsets_to_ones_own_and_back(place: Place) -> None:
    own = f"own-{place.offsets}"
    with place.running(place.numbers(40)):
        place.wait_arrived(40)
    with place.running(place.numbers(80, **{"offsets.storage.topic": own}), **place.stored) as running:
        place.wait_arrived(80)
        wait_for(lambda: _newest(place.servers, place.offsets, place.name) == '{"next":80}', "the copy", 30)
        shown = [{"partition": {"name": "numbers", "base": 10}, "offset": {"next": 80}}]
        assert running.worker.herder.offsets(place.name) == shown
    assert _newest(place.servers, own, place.name) == '{"next":80}'
    with place.running(place.numbers(100), **place.stored) as running:  # its own topic is forgotten
        place.wait_arrived(100)
        running.worker.herder.set_target(place.name, STOPPED)
    assert sorted(map(int, place.values())) == list(range(100))


def test_offsets_of_ones_own_are_removed_from_both(place: Place) -> None:
    own = {"offsets.storage.topic": f"own-{place.offsets}"}
    with place.running(place.numbers(20, **own), **place.stored) as running:
        place.wait_arrived(20)
        herder = running.worker.herder
        herder.set_target(place.name, STOPPED)
        wait_for(lambda: herder.status(place.name)["connector"]["state"] == "STOPPED", "its end")
        herder.alter_offsets(place.name, None)
        assert herder.offsets(place.name) == []
        assert _newest(place.servers, place.offsets, place.name) == ""
        assert _newest(place.servers, own["offsets.storage.topic"], place.name) == ""


@pytest.mark.exhaustive  # its sample is the first one: what is told apart is a cluster instead of a topic
def test_a_connector_that_writes_to_another_cluster(place: Place) -> None:
    with Sandbox.start() as other:
        topics.create(other.bootstrap_servers, place.topic, 1)
        clients = {f"{who}.override.bootstrap.servers": other.bootstrap_servers for who in ("producer", "admin")}
        half = {"producer.override.bootstrap.servers": other.bootstrap_servers}
        with place.running(place.numbers(30, **clients), place.numbers(9, name="half", **half)) as running:
            running.wait_started(f"{place.name}-0")
            wait_for(lambda: _newest(place.servers, place.offsets, place.name) == '{"next":30}', "the copy", 60)
            found = running.worker.statuses.shown("half")
            assert found is not None
            assert "addresses of one cluster" in found["connector"]["trace"]
        with place.running(place.numbers(50, **clients)) as running:
            wait_for(lambda: _newest(place.servers, place.offsets, place.name) == '{"next":50}', "the copy", 60)
        assert running.states[f"{place.name}-0"].state is State.STOPPED
        assert _newest(other.bootstrap_servers, place.offsets, place.name) == '{"next":50}'
        rows = read(other.bootstrap_servers, [place.topic], {"value": "value"})
        assert sorted(map(int, rows["value"].to_pylist())) == list(range(50))
    assert place.values() == []


@pytest.mark.exhaustive  # its sample is the first one, where the copy succeeds
def test_a_copy_that_cannot_be_made_holds_nobody_up(spark: SparkSession, tmp_path: Path) -> None:
    """The worker's cluster is frozen while a connector writes to another one."""
    with Sandbox.start() as kafka, Sandbox.start() as other:
        place = Place(spark, kafka.bootstrap_servers, tmp_path)
        topics.create(other.bootstrap_servers, place.topic, 1)
        clients = {f"{who}.override.bootstrap.servers": other.bootstrap_servers for who in ("producer", "admin")}
        with place.running(place.numbers(100_000_000, **clients), **place.stored) as running:
            running.wait_started(f"{place.name}-0")
            (node,) = kafka.nodes
            node.freeze()
            try:
                wanted = arrived(other.bootstrap_servers, place.topic) + 1_000
                wait_for(lambda: arrived(other.bootstrap_servers, place.topic) >= wanted, "a thousand more", 60)
            finally:
                node.thaw()
            wait_for(lambda: _copied(place) >= wanted, lambda: f"the copy of {wanted}", 60)
            assert running.states[f"{place.name}-0"].launches == 1
        rows = read(other.bootstrap_servers, [place.topic], {"value": "value"})
        assert sorted(map(int, rows["value"].to_pylist())) == list(range(rows.num_rows))


def _copied(place: Place) -> int:
    found = _newest(place.servers, place.offsets, place.name)
    return int(json.loads(found)["next"]) if found else 0
