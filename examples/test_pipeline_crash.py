"""Kills examples/pipeline.py where it hurts, starts it again, and counts what a reader sees: a crash test of a pipeline
of your own looks the same.

pytest examples/test_pipeline_crash.py
"""

import sys
from pathlib import Path

import pyarrow as pa
from confluent_kafka.admin import AdminClient, NewTopic

import semel
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, ParticipantStep
from semel.testing import LOCAL, Action, CrashPlan, CrashPoint, SparkCluster, arrived, assert_exactly_once

pytest_plugins = ["semel.testing.fixtures"]  # the fixture kafka: a real one
PIPELINE = Path(__file__).with_name("pipeline.py")


def test_not_one_order_is_lost_or_doubled(kafka: Sandbox, tmp_path: Path) -> None:
    """A Python worker dies with rows in its hands, and the driver with its commit on the way; 500 orders are there
    before, and 500 come later.
    """
    servers = kafka.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    for created in admin.create_topics([NewTopic("orders", 2), NewTopic("priced", 2)]).values():
        created.result()
    write(servers, range(500))

    plan = CrashPlan(
        tmp_path / "plan", CrashPoint(ParticipantStep.SENT), CrashPoint(OwnerStep.COMMIT_SENT, 1, Action.DRIVER)
    )
    argv = [sys.executable, str(PIPELINE), servers, "orders", "priced", str(tmp_path / "checkpoint")]
    spark = SparkCluster(LOCAL)
    spark.run_until(argv, plan, lambda: arrived(servers, "priced") >= 500, most=1)

    write(servers, range(500, 1_000))
    spark.run_until(argv, plan, lambda: arrived(servers, "priced") >= 1_000, most=0)
    assert_exactly_once(
        servers, "priced", source="orders"
    )  # lost, doubled, reordered: by keys, read with a client that is not semel's


def write(servers: str, numbers: range) -> None:
    """Orders with their numbers as keys."""
    with (
        semel.Cluster({"bootstrap.servers": servers}) as cluster,
        cluster.producer("shop") as shop,
        shop.transaction() as txn,
    ):
        txn.send(
            "orders",
            pa.table({"key": [str(number) for number in numbers], "value": [f"order {number}" for number in numbers]}),
        )
