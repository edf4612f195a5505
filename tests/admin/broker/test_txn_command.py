"""``semel txn``: what stands open by a client that is not ours is found, shown, and ended, and nothing else is."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaException, Producer
from typer.testing import CliRunner, Result

import semel
from semel import cli
from semel.admin.txn import abort_transaction, describe_transaction
from semel.config import ClientConfig
from semel.errors import ConfigError
from semel.sandbox import Sandbox
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.wire.client import Client
from tests.spark.support.topics_and_drivers import values
from tests.support import topics
from tests.support.other_client import delete
from tests.support.waiting import TRANSACTION_MS, wait_for

_numbers = count(1)


class Owner:
    """A transaction of librdkafka's, with rows on one partition, that stands open.

    Its name is wider than a terminal.
    """

    def __init__(self, kafka: Sandbox) -> None:
        self.servers = kafka.bootstrap_servers
        self.id = self.topic = f"txn-command-{'long-' * 20}{next(_numbers)}"
        topics.create(self.servers, self.topic, 2)
        self._producer = Producer(
            {"bootstrap.servers": self.servers, "transactional.id": self.id, "transaction.timeout.ms": TRANSACTION_MS}
        )
        self._producer.init_transactions(30)
        self.begin("open")

    def begin(self, value: str) -> None:
        self._producer.begin_transaction()
        self._producer.produce(self.topic, value, partition=0)
        assert self._producer.flush(30) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(30)

    def write_behind(self, rows: int) -> None:
        """By somebody else, without a transaction."""
        other = Producer({"bootstrap.servers": self.servers})
        for number in range(rows):
            other.produce(self.topic, f"behind {number}", partition=0)
        assert other.flush(30) == 0

    @property
    def visible(self) -> list[str]:
        return values(self.servers, self.topic)


def run(owner: Owner, *arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(cli.app, ["txn", *arguments, "--bootstrap-server", owner.servers], input=answer)


def shown(owner: Owner) -> dict[str, Any]:
    (found,) = [one for one in json.loads(run(owner, "list", "--json").output) if one["transactional_id"] == owner.id]
    return dict(found)


def test_what_is_open_is_listed_with_who_waits_behind_it(kafka: Sandbox) -> None:
    owner = Owner(kafka)
    owner.write_behind(5)
    found = shown(owner)
    assert (found["state"], found["open"], found["kind"], found["prefix"]) == ("Ongoing", True, "owner", owner.id)
    assert found["held"] == [{"topic": owner.topic, "partition": 0, "first_offset": 0, "records_waiting": 6}]
    assert 0 <= found["age_s"] < TRANSACTION_MS / 1000
    assert found["timeout_ms"] == TRANSACTION_MS
    text = run(owner, "list").output
    (line,) = [line for line in text.splitlines() if owner.id in line]
    assert line.split()[-1] == "6"
    assert "semel txn abort ID" in text
    owner.commit()
    wait_for(lambda: owner.id not in run(owner, "list").output, "the end of the transaction")
    assert owner.id in run(owner, "list", "--all").output


def test_one_is_described(kafka: Sandbox) -> None:
    owner = Owner(kafka)
    text = run(owner, "describe", owner.id).output
    for told in (owner.id, "Ongoing", f"{owner.topic}-0", "10 min 0 s"):
        assert told in text
    assert json.loads(run(owner, "describe", owner.id, "--json").output)["records_waiting"] == 1
    owner.commit()
    wait_for(
        lambda: json.loads(run(owner, "describe", owner.id, "--json").output)["held"] == [],
        "the end of the transaction",
    )


def test_an_id_that_nobody_has_used(kafka: Sandbox) -> None:
    owner = Owner(kafka)
    for command in ("describe", "abort"):
        refused = run(owner, command, "nobody").exception
        assert isinstance(refused, ConfigError)
        assert refused.tag == "UNKNOWN_TRANSACTIONAL_ID"
    owner.commit()


def test_abort_asks_and_then_its_rows_are_gone_and_readers_go_on(kafka: Sandbox) -> None:
    owner = Owner(kafka)
    owner.write_behind(2)
    for answer in ("n\n", ""):
        asked = run(owner, "abort", owner.id, answer=answer)
        assert asked.exit_code == 1
        assert "will never be visible" in asked.output
        assert "Nothing was changed: it is still open" in asked.output
        assert "borted" not in asked.output, "not even in the word of whoever asks"
        assert shown(owner)["records_waiting"] == 3
    assert run(owner, "abort", owner.id, "--json").exit_code == 2, "it would have to ask"
    done = run(owner, "abort", owner.id, answer="y\n")
    assert done.exit_code == 0, done.output
    assert owner.visible == ["behind 0", "behind 1"]
    with pytest.raises(KafkaException, match=r"FENCED|fenced|EPOCH"):
        owner.commit()
    assert owner.visible == ["behind 0", "behind 1"]


def test_an_owner_of_ours_runs_its_work_again_once(kafka: Sandbox) -> None:
    owner = Owner(kafka)
    rows = pa.table({"value": ["ours"]})
    with (
        semel.Cluster({"bootstrap.servers": owner.servers}) as cluster,
        cluster.producer(f"{owner.id}-ours") as producer,
    ):
        for tag in ("ABORTED_BY_RIVAL", None, "ABORTED_BY_RIVAL", "Fenced"):
            txn = producer.transaction()
            txn.send(owner.topic, rows)
            if tag is None:
                txn.commit()
                continue
            ended = json.loads(run(owner, "abort", producer.transactional_id, "--yes", "--json").output)
            assert (ended["state"], ended["aborted"]) == ("Ongoing", True), "as it was found, and what was done"
            assert owner.topic in [held["topic"] for held in ended["held"]]
            with pytest.raises(semel.Fenced if tag == "Fenced" else semel.AbortAndRetry, match="another owner"):
                txn.commit()
    owner.commit()
    assert sorted(owner.visible) == ["open", "ours"]


def test_one_that_its_owner_has_begun_since_is_left_alone(kafka: Sandbox) -> None:
    """Between looking and ending, the owner was thawed: it commits what was shown, and begins another."""
    owner = Owner(kafka)
    with Client(ClientConfig.parse({"bootstrap.servers": owner.servers})) as client:
        looked_at = describe_transaction(client, owner.id)
        owner.commit()
        owner.begin("another")
        with pytest.raises(ConfigError, match="is over") as refused:
            abort_transaction(client, looked_at)
    assert refused.value.tag == "NOTHING_TO_ABORT"
    owner.commit()
    assert owner.visible == ["open", "another"]


def test_nothing_to_abort(kafka: Sandbox) -> None:
    owner = Owner(kafka)
    owner.commit()
    refused = run(owner, "abort", owner.id, "--yes").exception
    assert isinstance(refused, ConfigError)
    assert refused.tag == "NOTHING_TO_ABORT"
    assert owner.visible == ["open"]


def test_a_file_of_properties_that_is_not_there(kafka: Sandbox, tmp_path: Path) -> None:
    refused = (
        CliRunner()
        .invoke(cli.app, ["txn", "list", "--bootstrap-server", "any:1", "--command-config", str(tmp_path / "none")])
        .exception
    )
    assert isinstance(refused, ConfigError)
    assert "--command-config" in refused.message


def test_a_topic_that_was_deleted_under_it_hides_nothing_else(kafka: Sandbox) -> None:
    gone, owner = Owner(kafka), Owner(kafka)
    delete(gone.servers, gone.topic)
    assert owner.id in run(owner, "list").output
    assert shown(owner)["records_waiting"] == 1
    owner.commit()


def test_all_ids_are_asked_about_in_one_go(kafka: Sandbox) -> None:
    """The requests do not grow with the ids, each of which may have its own."""

    def asked(proxy: FaultProxy) -> int:
        before = len(proxy.log)
        command = ["txn", "list", "--bootstrap-server", proxy.bootstrap_servers]
        assert CliRunner().invoke(cli.app, command).exit_code == 0
        return len([seen for seen in proxy.log[before:] if seen.api != "ApiVersions"])

    with FaultProxy(kafka.bootstrap_servers) as proxy:
        owners = [Owner(kafka)]
        few = asked(proxy)
        owners += [Owner(kafka) for _ in range(4)]
        assert asked(proxy) == few
    for owner in owners:
        owner.commit()
