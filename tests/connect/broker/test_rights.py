"""The least rights of a worker and of a task, on a broker that allows nothing else, and what is said without each."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka.admin import AclOperation as Do
from confluent_kafka.admin import ResourceType as On

from semel.config import ClientConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.stores.config_format import connector_record
from semel.connect.stores.offsets import OffsetStore
from semel.connect.stores.statuses import TaskState
from semel.connect.tasks.rows import Rows
from semel.connect.tasks.writers import ExactlyOnce
from semel.connect.worker.worker import Worker
from semel.errors import ConfigError
from semel.wire.client import Client
from tests.connect.support.lines import STRING
from tests.support import topics
from tests.support.secured import Right, SecuredKafka, secured_kafka

PASSWORD = "of the worker"
#: docs/connect-operate.md has them in words.
WORKER: list[Right] = [
    (On.TRANSACTIONAL_ID, "connect-cluster-g", Do.WRITE),
    (On.GROUP, "g", Do.READ),
    *((On.TOPIC, topic, do) for topic in ("configs", "statuses", "semel-progress") for do in (Do.READ, Do.WRITE)),
    (On.TOPIC, "offsets", Do.READ),
]
TASK: list[Right] = [
    (On.TRANSACTIONAL_ID, "g-c-0", Do.WRITE),
    *((On.TOPIC, topic, do) for topic in ("out", "offsets", "semel-progress") for do in (Do.READ, Do.WRITE)),
]
#: What is written when nobody waits for it is said in the log.
ONLY_LOGGED = (On.TOPIC, "statuses", Do.WRITE)


@pytest.fixture(scope="module")
def cluster() -> Iterator[SecuredKafka]:
    with secured_kafka() as started:
        topics.create(started.kafka.bootstrap_servers, "out")
        for name in ("configs", "statuses", "offsets"):
            topics.create(started.kafka.bootstrap_servers, name, cleanup_policy="compact")
        for user, rights in (("worker", WORKER), ("task", TASK)):
            started.add_scram_user(user, PASSWORD)
            started.allow(user, rights)
        started.allow("worker", [(On.BROKER, "kafka-cluster", Do.CREATE)])
        _work(started)
        _write(started)
        yield started


def _properties(cluster: SecuredKafka, user: str) -> dict[str, str]:
    return {
        **cluster.login("SCRAM-SHA-256", user, PASSWORD),
        "default.api.timeout.ms": "10000",
        "group.id": "g",
        "config.storage.topic": "configs",
        "offset.storage.topic": "offsets",
        "status.storage.topic": "statuses",
        "listeners": "",
        "key.converter": STRING,
        "value.converter": STRING,
        "exactly.once.source.support": "enabled",
    }


def _work(cluster: SecuredKafka) -> None:
    """What a worker does in the cluster by itself."""
    worker = Worker(_properties(cluster, "worker"), [])
    try:
        worker.prepare()
        term = worker._now
        term.store.write([connector_record("c", {"name": "c"})])
        term.statuses.put_connector("c", TaskState("RUNNING", "here"))
        term.store.check_leader()
    finally:
        worker.stop()


def _write(cluster: SecuredKafka) -> None:
    """What a task does there."""
    config = WorkerConfig.parse(_properties(cluster, "task"))
    with Client(ClientConfig.parse(config.producer)) as client:
        store = OffsetStore(client, config.offsets_topic, "c")
        writer = ExactlyOnce(client, "g-c-0", store)
        try:
            writer.start()
            store.read()
            writer.write(Rows([("out", pa.table({"value": [b"one"]}))], {'{"p": 1}': ({"p": 1}, {"n": 1})}))
            writer.commit()
        finally:
            writer.close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("right", [right for right in WORKER if right != ONLY_LOGGED], ids=str)
def test_each_right_that_a_worker_lacks_is_named(cluster: SecuredKafka, right: Right) -> None:
    cluster.withdraw("worker", right)
    try:
        with pytest.raises(ConfigError) as refused:
            _work(cluster)
    finally:
        cluster.allow("worker", [right])
    assert right[1] in str(refused.value)


@pytest.mark.exhaustive
@pytest.mark.parametrize("right", TASK, ids=str)
def test_each_right_that_a_task_lacks_is_named(cluster: SecuredKafka, right: Right) -> None:
    cluster.withdraw("task", right)
    try:
        with pytest.raises(ConfigError) as refused:
            _write(cluster)
    finally:
        cluster.allow("task", [right])
    assert right[1] in str(refused.value)
