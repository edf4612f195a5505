"""A source whose log an unclean election has cut: the broker that leads had missed the last records."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from semel import cli
from semel.errors import DataLoss
from semel.sandbox import Node, Sandbox
from tests.mirror.support.harness import Running, alias_of, copy_once, mm2, produce, records, unique
from tests.support import topics
from tests.support.broker_faults import leader_of, wait_whole
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def three() -> Iterator[Sandbox]:
    settings = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "300"}
    with Sandbox.start(nodes=3, settings=settings) as sandbox:
        yield sandbox


@pytest.mark.exhaustive
def test_it_stops_and_names_what_is_gone(three: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    """While it runs: rows that were copied are not in the source any more, and others are in their place."""
    first, second = three.nodes[:2]
    topic = topics.create(
        three.bootstrap_servers,
        unique("unclean"),
        on=(first.id, second.id),
        min_insync_replicas="1",
        unclean_leader_election_enable="true",
    )
    file = mm2(tmp_path, three, b, topic, emit__checkpoints__enabled="false")
    target = f"{alias_of(file)}.{topic}"
    with Running(spark, file) as flows:
        produce(three, topic, [{"value": f"{i}"} for i in range(10)])
        wait_for(lambda: len(records(b, target).get(0, [])) == 10, flows.said)
        second.kill()
        wait_for(lambda: leader_of(three, topic, asked=alone(first)) is first, "the first one to lead alone")
        produce(three, topic, [{"value": f"{i}"} for i in range(10, 15)])
        wait_for(lambda: len(records(b, target).get(0, [])) == 15, flows.said)
        first.kill()
        second.start()
        second.wait_ready(120, nodes=2)
        wait_for(lambda: leader_of(three, topic, asked=alone(second)) is second, "an election that is not clean")
        produce(three, topic, [{"value": "other"}] * 30)
        wait_for(lambda: "is stopped, the others are copied" in flows.said(), flows.said)
    first.start()
    first.wait_ready(120, nodes=3)
    wait_whole(three)
    with pytest.raises(DataLoss) as again:
        copy_once(spark, file)
    assert flows.failed == []
    for refused in (flows.said(), str(again.value)):
        # it ends at 10 for whoever looks before the others are written
        assert re.search(rf"OFFSETS_GONE.*{topic}-0 \[10, 15\): the log (ends at 10|was cut)", refused), refused
        assert "semel mirror resolve" in refused
    where = ["--source", alias_of(file), "--target", "B", "--topic", topic]
    done = CliRunner().invoke(cli.app, ["mirror", "resolve", str(file), *where, "--skip", "--yes"])
    assert done.exit_code == 0, done.output
    copy_once(spark, file)
    values = [value for _, value, _, _ in records(b, target)[0]]
    assert values == [*(b"%d" % i for i in range(15)), *[b"other"] * 30]


def alone(node: Node) -> str:
    return f"127.0.0.1:{node.port}"
