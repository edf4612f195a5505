"""The least rights of whoever is on call: with these alone each command does its work, and without each of them it says
which one is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import javaproperties
import pyarrow as pa
import pytest
from confluent_kafka.admin import AclOperation as Do
from confluent_kafka.admin import ResourceType as On
from typer.testing import CliRunner, Result

import semel
from semel import cli
from semel.read import id_text
from semel.transaction.progress.record import KafkaSource, Progress, TopicEnd
from tests.objections.test_missing_rights import PASSWORD
from tests.spark.support.topics_and_drivers import everything, progress
from tests.support import topics
from tests.support.secured import Right, SecuredKafka, secured_kafka

PROGRESS = "semel-progress"
ID: Right = (On.TRANSACTIONAL_ID, "orders", Do.WRITE)
NEW_ID: Right = (On.TRANSACTIONAL_ID, "carried", Do.WRITE)
LOOK_AT_ID: Right = (On.TRANSACTIONAL_ID, "orders", Do.DESCRIBE)
LOOK_AT_GROUP: Right = (On.GROUP, "orders-group", Do.DESCRIBE)
OUT: Right = (On.TOPIC, "out", Do.READ)
IN: Right = (On.TOPIC, "in", Do.READ)
LOOK_AT_IN: Right = (On.TOPIC, "in", Do.DESCRIBE)
LOOK_AT_OUT: Right = (On.TOPIC, "out", Do.DESCRIBE)
READ_PROGRESS: Right = (On.TOPIC, PROGRESS, Do.READ)
WRITE_PROGRESS: Right = (On.TOPIC, PROGRESS, Do.WRITE)
#: What each command needs, and nothing else. docs/security.md has the same table.
NEEDS: dict[str, list[Right]] = {
    "txn describe orders": [LOOK_AT_ID, OUT],
    "txn abort orders --yes": [ID, OUT],
    "progress list": [READ_PROGRESS, LOOK_AT_IN],
    "progress describe orders": [READ_PROGRESS, LOOK_AT_IN],
    "progress reset orders --yes": [READ_PROGRESS, WRITE_PROGRESS, ID, OUT, LOOK_AT_IN, LOOK_AT_GROUP],
    "progress import carried --checkpoint CHECKPOINT --yes": [READ_PROGRESS, WRITE_PROGRESS, NEW_ID, LOOK_AT_IN],
    "verify --topic out --id key --against in": [OUT, IN],
}
#: What a sink needs, as far as a broker tells it.
SINK: list[Right] = [
    OUT,
    (On.TOPIC, "out", Do.WRITE),
    IN,
    READ_PROGRESS,
    WRITE_PROGRESS,
    ID,
    (On.GROUP, "orders-group", Do.READ),
]


@dataclass(frozen=True)
class OnCall:
    """Somebody on call, and an application that has a transaction open and has committed one."""

    cluster: SecuredKafka
    properties: Path

    @contextmanager
    def allowed(self, rights: Sequence[Right]) -> Iterator[None]:
        """These, and no others."""
        self.cluster.allow("oncall", rights)
        try:
            yield
        finally:
            for right in rights:
                self.cluster.withdraw("oncall", right)

    def run(self, command: str) -> Result:
        servers = self.cluster.kafka.servers("SASL_SSL")
        words = command.replace("CHECKPOINT", str(self.properties.parent)).split()
        return CliRunner().invoke(
            cli.app, [*words, "--bootstrap-server", servers, "--command-config", str(self.properties)]
        )

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """An application, by the plain listener: one batch is committed, another one stands open."""
        with (
            semel.Cluster({"bootstrap.servers": self.cluster.kafka.bootstrap_servers}) as cluster,
            cluster.producer("orders") as producer,
        ):
            client = cluster._client
            source = KafkaSource(client.cluster, {"in": TopicEnd(id_text(client.topics({"in"})["in"].id), {0: 0})})
            with producer.transaction() as txn:
                txn.send("out", pa.table({"key": ["a"], "value": ["x"]}))
                txn.send_offsets({("in", 0): 0}, group="orders-group")
                txn.commit(Progress(batch=1, sources=(source,)))
            txn = producer.transaction()
            txn.send("out", pa.table({"key": ["b"], "value": ["open"]}))
            yield


@pytest.fixture(scope="module")
def oncall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnCall]:
    with secured_kafka() as started:
        for name in ("in", "out"):
            topics.create(started.kafka.bootstrap_servers, name)
        started.add_scram_user("oncall", PASSWORD)
        properties = tmp_path_factory.mktemp("oncall") / "oncall.properties"
        login = started.login("SCRAM-SHA-256", "oncall", PASSWORD)
        with properties.open("w") as file:
            javaproperties.dump({name: value for name, value in login.items() if name != "bootstrap.servers"}, file)
        for name, text in (
            ("offsets", 'v1\n{}\n{"in":{"0":0}}'),
            ("commits", "v1\n{}"),
        ):  # a checkpoint of Spark's own source
            (properties.parent / name).mkdir()
            (properties.parent / name / "0").write_text(text)
        yield OnCall(started, properties)


def said(done: Result) -> str:
    return str(done.exception) + done.stderr


def _cases() -> list[Any]:
    """One that reads, and each that ends transactions or replaces progress; the others are exhaustive."""
    sample = ("txn describe", "txn abort", "progress reset")
    return [
        command if command.startswith(sample) else pytest.param(command, marks=pytest.mark.exhaustive)
        for command in NEEDS
    ]


@pytest.mark.parametrize("command", _cases())
def test_each_right_that_a_command_lacks_is_named_and_with_all_it_works(oncall: OnCall, command: str) -> None:
    servers = oncall.cluster.kafka.bootstrap_servers
    with oncall.at_work():
        before, kept = everything(servers, "out"), progress(servers, "orders", "producer")
        for right in NEEDS[command]:
            _, name, operation = right
            # of topics that one may not describe, a coordinator does not speak at all: the next test
            instead = [LOOK_AT_OUT] if right == OUT and command.startswith("txn") else []
            with oncall.allowed([one for one in NEEDS[command] if one != right] + instead):
                refused = oncall.run(command)
            assert refused.exit_code in (1, 2), f"it does not need {right}"
            assert name in said(refused)
            named = said(refused).partition("the right ")[2].split()[0]
            assert named in (operation.name.capitalize(), "Describe"), said(refused)
            assert progress(servers, "orders", "producer") == kept
        assert everything(servers, "out") == before
        with oncall.allowed(NEEDS[command]):
            done = oncall.run(command)
        assert done.exit_code == (1 if command.startswith("verify") else 0), said(
            done
        )  # the source is empty: what is in the topic is strange
        assert (progress(servers, "orders", "producer") is None) == ("reset" in command)


def test_what_one_may_not_describe_is_left_out_and_that_is_said(oncall: OnCall) -> None:
    with oncall.at_work():
        hidden = oncall.run("txn list")
        assert "that this login may describe" in hidden.output
        with oncall.allowed([LOOK_AT_ID]):
            assert "none that this login may describe" in oncall.run("txn describe orders").output
        with oncall.allowed([LOOK_AT_ID, LOOK_AT_OUT]):
            refused = oncall.run("txn list")
            assert "out-0" in said(refused)
            assert "the right Read on the topic is missing" in said(refused)
        with oncall.allowed([LOOK_AT_ID, OUT]):
            assert "orders" in oncall.run("txn list").output


def findings(oncall: OnCall) -> dict[str, Any]:
    done = oncall.run("doctor --json --topic out --source in --group orders-group --prefix orders")
    return {one["subject"]: one for one in json.loads(done.stdout)["findings"]}


def test_the_doctor_needs_no_right_and_tells_those_that_are_missing(oncall: OnCall) -> None:
    """Of whoever runs it: here the login of a sink."""
    with oncall.at_work():
        found = findings(oncall)
        for subject, right in {
            "output out": "the right Write and Read is missing",
            "source in": "the right Read is missing",
            f"progress topic {PROGRESS}": "the right Write and Read is missing",
            "group orders-group": "the right Describe on the group is missing, which Read implies",
            "prefix orders": "the right Describe on the transactional id is missing",
        }.items():
            assert found[subject]["verdict"] == "refused", subject
            assert right in found[subject]["found"], subject
        assert (found["clock"]["verdict"], found["transaction.max.timeout.ms"]["verdict"]) == (
            "not_checked",
            "not_checked",
        )
        assert "the right DescribeConfigs on the cluster is missing" in found["transaction.max.timeout.ms"]["found"]
        assert found["KAFKA-20734"]["verdict"] == found["operator"]["verdict"] == "warning"
        with oncall.allowed(SINK):
            found = findings(oncall)
            assert not [one for one in found.values() if one["verdict"] == "refused"]
            assert {found[subject]["verdict"] for subject in ("output out", "source in")} == {"ok"}
        with oncall.allowed(
            [*SINK, (On.BROKER, "kafka-cluster", Do.ALTER), (On.BROKER, "kafka-cluster", Do.DESCRIBE_CONFIGS)]
        ):
            found = findings(oncall)
            assert {
                found[subject]["verdict"] for subject in ("KAFKA-20734", "operator", "clock", "transaction.timeout.ms")
            } == {"ok"}
