"""``semel txn`` on prepared transactions: named, committed by hand, and swept by their decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

import semel
import semel.steps
from semel import cli
from semel.config import ClientConfig
from semel.database import Outbox
from semel.sandbox import Sandbox
from semel.sandbox.settings import TWO_PHASE_COMMIT
from semel.steps import OutboxStep, Step
from semel.testing.records import read
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress
from semel.transaction.transactional_id import IdKind
from semel.transaction.two_phase.prepared import Prepared
from semel.transaction.two_phase.producer import TwoPhaseProducer
from semel.wire.client import Client
from tests.support.topics import create

_numbers = count(1)


class Store:
    """A cluster that takes prepared transactions, and a topic of one's own."""

    def __init__(self, brokers: Sandbox) -> None:
        self.servers = brokers.bootstrap_servers
        self.topic = create(self.servers, f"prepared-command-{next(_numbers)}", 2)
        self.cluster = semel.Cluster({"bootstrap.servers": self.servers})

    def prepare(self, value: str) -> Prepared:
        with self.cluster.producer(self.topic, two_phase=True) as producer, producer.transaction() as txn:
            txn.send(self.topic, pa.table({"value": [value]}))
            return txn.prepare()

    def run(self, *arguments: str, answer: str = "") -> Result:
        return CliRunner().invoke(cli.app, ["txn", *arguments, "--bootstrap-server", self.servers], input=answer)

    def listed(self) -> list[dict[str, Any]]:
        found = json.loads(self.run("list", "--prepared", "--json").output)
        return [one for one in found if one["prefix"] == self.topic]

    @property
    def visible(self) -> list[str]:
        values = read(self.servers, [self.topic], {"value": "value"}, wait_for_open=False)["value"].to_pylist()
        return sorted(str(value) for value in values)


@pytest.fixture(scope="module")
def brokers() -> Iterator[Sandbox]:
    with Sandbox.start(settings=TWO_PHASE_COMMIT) as sandbox:
        yield sandbox


@pytest.fixture
def store(brokers: Sandbox) -> Iterator[Store]:
    made = Store(brokers)
    with made.cluster:
        yield made


def test_prepared_ones_are_listed_and_described(store: Store) -> None:
    with store.cluster.producer(f"{store.topic}-owner") as owner:
        txn = owner.transaction()
        txn.send(store.topic, pa.table({"value": ["open"]}))
        prepared = store.prepare("one")
        (found,) = store.listed()
        assert (found["transactional_id"], found["kind"], found["prepared"]) == (
            prepared.transactional_id,
            "unit",
            True,
        )
        text = store.run("list", "--prepared").output
        assert "never" in text
        assert "if a program's store holds the decision: semel txn sweep PREFIX" in text
        assert f"{store.topic}-owner" not in text, "an owner's transaction is open, and not prepared"
        assert "the decision is in its program's store" in store.run("describe", prepared.transactional_id).output
        refused = store.run("commit", f"{store.topic}-owner", "--yes")
        assert (refused.exit_code, refused.exception and "SEMEL_NOT_PREPARED" in str(refused.exception)) == (1, True)
        txn.abort()
    store.cluster.abort(prepared)


def test_one_is_committed_by_hand_after_a_question(store: Store) -> None:
    prepared = store.prepare("one")
    said = store.run("commit", prepared.transactional_id, answer="n\n")
    assert (said.exit_code, store.visible) == (1, [])
    assert "become visible for ever" in said.output
    said = store.run("commit", prepared.transactional_id, "--yes", "--json")
    assert json.loads(said.output)["committed"] is True
    assert store.visible == ["one"]
    again = store.run("commit", prepared.transactional_id, "--yes")
    assert "SEMEL_NOTHING_TO_COMMIT" in str(again.exception)
    store.cluster.commit(prepared)


def test_a_sweep_without_decisions_only_names_them(store: Store) -> None:
    assert store.run("sweep", store.topic).exit_code == 0
    prepared = store.prepare("one")
    said = store.run("sweep", store.topic)
    assert said.exit_code == 1
    assert prepared.transactional_id in said.output
    assert len(store.listed()) == 1
    store.cluster.abort(prepared)


def test_a_sweep_by_a_file_of_decisions(store: Store, tmp_path: Path) -> None:
    decided, _ = store.prepare("decided"), store.prepare("undecided")
    file = tmp_path / "decisions"
    file.write_text(f"{decided}\n{str(decided)[:40]}")
    refused = store.run("sweep", store.topic, "--decisions", str(file), "--yes")
    assert "line 2 of" in str(refused.exception)
    assert len(store.listed()) == 2, "refused before any was ended"
    file.write_text(f"{decided}\n")
    assert store.run("sweep", store.topic, "--decisions", str(file), answer="n\n").exit_code == 1
    assert len(store.listed()) == 2
    said = store.run("sweep", store.topic, "--decisions", str(file), "--yes", "--json")
    told = json.loads(said.output)
    assert (told["committed"], len(told["aborted"])) == ([decided.transactional_id], 1)
    assert (store.visible, store.listed()) == (["decided"], [])


def test_a_sweep_by_the_database_of_an_outbox(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process died between the decision and its end, and does not start any more."""

    class Died(BaseException):
        pass

    def die(step: Step, detail: str) -> None:
        if step is OutboxStep.DECIDED:
            raise Died

    url = f"sqlite:///{tmp_path}/orders.db"
    outbox = Outbox(sa.create_engine(url), store.cluster, store.topic)
    monkeypatch.setattr(semel.steps, "_observer", die)
    with pytest.raises(Died), outbox.unit() as unit:
        unit.send(store.topic, pa.table({"value": ["decided"]}))
    monkeypatch.setattr(semel.steps, "_observer", None)
    assert len(store.listed()) == 1
    other = f"sqlite:///{tmp_path}/other.db"
    refused = store.run("sweep", store.topic, "--database", other, "--yes")
    assert "SEMEL_OUTBOX_OTHER_DATABASE" in str(refused.exception)
    assert sa.inspect(sa.create_engine(other)).get_table_names() == []
    with pytest.raises(semel.ConfigError, match="has never had an outbox of that prefix"):
        Outbox(sa.create_engine(other), store.cluster, store.topic).recover()
    assert len(store.listed()) == 1, "what another database has decided is not aborted"
    refused = store.run("sweep", store.topic, "--database", "postgresql+pg8000://localhost/orders", "--yes")
    assert "SEMEL_DATABASE_DRIVER" in str(refused.exception)
    said = store.run("sweep", store.topic, "--database", url, "--yes")
    assert said.exit_code == 0, said.output
    assert "A running outbox is fenced" in said.output
    assert (store.visible, store.listed()) == (["decided"], [])
    refused = store.run("sweep", store.topic, "--database", "no-url", "--yes")
    assert "SEMEL_WRONG_VALUE" in str(refused.exception)


def test_doctor_says_whether_every_broker_takes_them(kafka: Sandbox, store: Store) -> None:
    for servers, words in (
        (store.servers, "every broker takes transactions that only a decision ends"),
        (kafka.bootstrap_servers, "transaction.two.phase.commit.enable=true"),
    ):
        said = CliRunner().invoke(cli.app, ["doctor", "--bootstrap-server", servers, "--json"])
        (found,) = [one for one in json.loads(said.output)["findings"] if one["subject"] == "two-phase commit"]
        assert words in found["found"] + found["advice"]
        assert found["verdict"] == "ok"


def test_parts_of_a_batch_are_ended_as_its_progress_decides(store: Store) -> None:
    """The driver is gone after its decision, and a late task has left another part."""
    with Client(ClientConfig.parse({"bootstrap.servers": store.servers})) as client:
        with Producer(client, store.topic, scope="query") as owner:
            owner.take_over()
            decided, late = (prepare_part(client, store.topic, value) for value in ("decided", "late"))
            with owner.transaction() as txn:
                txn.enlist([decided])
                txn.commit(Progress(query="q", batch=3))
        for command in ("commit", "abort"):
            refused = store.run(command, late.transactional_id, "--yes")
            assert refused.exit_code == 1
            assert f"semel txn sweep {store.topic}" in str(refused.exception)
        assert store.visible == []
        assert store.run("sweep", store.topic, answer="n\n").exit_code == 1
        assert len(store.listed()) == 2
        swept = json.loads(store.run("sweep", store.topic, "--yes", "--json").output)
        assert (swept["committed"], swept["aborted"]) == ([decided.transactional_id], [late.transactional_id])
        assert store.visible == ["decided"]
        assert store.listed() == []


def prepare_part(client: Client, topic: str, value: str) -> Prepared:
    with TwoPhaseProducer(client, topic, True, kind=IdKind.TASK) as producer, producer.transaction() as unit:
        unit.send(topic, pa.table({"value": [value]}))
        return unit.prepare()
