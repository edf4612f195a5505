"""A query on a secured cluster: exact when it is killed, on executors of its own, and its secrets are nowhere that
Spark keeps or shows anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from semel.steps import ParticipantStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.testing.spark.spark_cluster import SparkCluster
from semel.testing.spark.spark_home import spark_home
from tests.spark.support.topics_and_drivers import assert_exact, new_copy, program
from tests.support.secured import SecuredKafka, secured_kafka

PASSWORD = "hidden-from-spark-7309"
KILLS = (CrashPoint(ParticipantStep.SENT, 3, Action.EXECUTOR),)


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecuredKafka]:
    with secured_kafka() as started:
        started.add_scram_user("alice", PASSWORD)
        yield started


def test_exact_and_without_a_secret_in_what_spark_keeps(cluster: SecuredKafka, tmp_path: Path) -> None:
    events = tmp_path / "events"
    events.mkdir()
    key = cluster.secured.certificate("alice").read_text()
    pem = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": key}
    secured = {**cluster.login("SCRAM-SHA-512", "alice", PASSWORD), **pem}
    copy = replace(new_copy(cluster.kafka, tmp_path, "secured", rows=800, per_batch=200), kafka=secured)
    plan = CrashPlan(tmp_path / "plan", *KILLS)
    log = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
        "spark.log.level": "INFO",
    }
    spark = SparkCluster(settings=log)
    spark.run_until_done(program("copy", copy), plan, len(KILLS))
    assert_exact(copy)

    applications = [path.name.removeprefix("eventlog_v2_") for path in events.iterdir()]
    executors = [spark_home() / "work" / application for application in applications]
    public = {
        events: copy.source,
        plan.directory: copy.prefix,
        Path(copy.checkpoint): copy.source,
        **dict.fromkeys(executors, "Executor"),
    }
    for folder, known in public.items():
        kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        assert any(known.encode() in text for text in kept.values()), (
            f"the control: a search of {folder} finds what is no secret"
        )
        assert not [
            path for path, text in kept.items() for secret in (PASSWORD, key.splitlines()[1]) if secret.encode() in text
        ]
