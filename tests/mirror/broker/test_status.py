"""``semel mirror status`` and the metrics: what they say of partitions that are copied, behind, held back, lost."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from prometheus_client import CollectorRegistry, generate_latest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from semel import cli
from semel.mirror.metrics import METRICS, MirrorCollector
from semel.sandbox import Sandbox
from tests.mirror.support.harness import alias_of, copy_once, mm2, produce, transactions, unique
from tests.support import topics
from tests.support.waiting import PATIENCE_S


def shown(file: Path, *options: str, code: int = 0) -> str:
    found = CliRunner().invoke(cli.app, ["mirror", "status", str(file), *options])
    assert found.exit_code == code, found.output
    return found.output


def checked(file: Path) -> str:
    return CliRunner().invoke(cli.app, ["mirror", "check", str(file)]).output.splitlines()[0]


def rows(file: Path, code: int = 0) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(shown(file, "--json", code=code))
    return found


def test_what_status_and_metrics_say(a: Sandbox, b: Sandbox, spark: SparkSession, tmp_path: Path) -> None:
    topic = topics.create(a.bootstrap_servers, unique("status"), 2)
    produce(a, topic, [{"value": f"{i}", "partition": 0} for i in range(10)])
    file = mm2(tmp_path, a, b, topic)
    flow, target = f"{alias_of(file)}->B", f"{alias_of(file)}.{topic}"
    before = rows(file)
    assert [(one["flow"], one["position"], one["lag"], one["problem"]) for one in before] == [
        (flow, None, None, "")
    ] * 2
    assert "not begun" in shown(file)
    assert checked(file) == f"{flow}, exactly once, from the earliest offset on"

    copy_once(spark, file)
    assert checked(file) == (
        f"{flow}, exactly once, resumes after round 1: `semel mirror status` shows the offsets of 2 partitions"
    )
    done = {
        "flow": flow,
        "topic": topic,
        "target": target,
        "held_back": 0,
        "problem": "",
        "paused": False,
        "seconds": None,
        "lag": 0,
        "way_out": "",
    }
    assert rows(file) == [{**done, "partition": 0, "position": 10}, {**done, "partition": 1, "position": 0}]

    produce(a, topic, [{"value": "more", "partition": 0}] * 4)
    left = transactions(a, topic, "o")
    first, _ = rows(file)
    assert (first["position"], first["lag"], first["held_back"]) == (10, 4, 3)
    assert 0 <= first["seconds"] < 600
    assert "3 held back by an open transaction" in shown(file)
    left.abort_transaction(60)

    registry = CollectorRegistry()
    registry.register(MirrorCollector())
    told = generate_latest(registry).decode()
    labels = f'{{partition="0",source="{alias_of(file)}",target="B",topic="{target}"}}'
    assert f"kafka_connect_mirror_mirrorsourceconnector_record_count{labels} 10.0" in told
    latencies = re.findall(rf"_replication_latency_ms_(?:min|avg|max){re.escape(labels)} (\S+)", told)
    least, most, mean = map(float, latencies)
    assert 0 <= least <= mean <= most <= PATIENCE_S * 1000
    assert f'semel_mirror_running{{source="{alias_of(file)}",target="B"}} 0.0' in told
    assert all(f"# HELP {metric.name} " in told for metric in METRICS)

    admin, at = AdminClient({"bootstrap.servers": a.bootstrap_servers}), TopicPartition(topic, 0, 12)
    admin.delete_records([at])[at].result(30)
    first, second = rows(file, code=1)
    assert (first["lag"], first["problem"]) == (None, "the log starts at 12 (retention, or records were deleted)")
    assert second["problem"] == ""
    admin = AdminClient({"bootstrap.servers": b.bootstrap_servers})
    admin.delete_topics([target])[target].result(30)
    assert f"the target topic {target} is gone" in shown(file, code=1)
