"""Prepared transactions while brokers come and go: three nodes, lost markers, and answers that are lost on the wire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count

import pyarrow as pa
import pytest

import semel
import semel.steps
from semel.sandbox import Sandbox
from semel.sandbox.settings import TWO_PHASE_COMMIT
from semel.steps import Step, TwoPhaseStep
from semel.testing.proxy.fault_proxy import Fault, FaultProxy
from semel.testing.records import read
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.api.describe_transactions import list_transactions, open_transactions
from semel.wire.target import TransactionCoordinator
from tests.support.broker_faults import node_of, wait_whole
from tests.support.leaderless_cluster import Frail, frail
from tests.support.topics import create

_numbers = count(1)
ROWS = pa.table({"value": ["a", "b"], "partition": [0, 1]})


@pytest.fixture(scope="module")
def brokers() -> Iterator[Sandbox]:
    with Sandbox.start(nodes=3, settings=TWO_PHASE_COMMIT) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def leaderless() -> Iterator[Frail]:
    with frail() as made:
        yield made


def prepare(cluster: semel.Cluster, topic: str, *, bounded: bool = False) -> Prepared:
    producer = cluster.producer(topic, two_phase="bounded") if bounded else cluster.producer(topic, two_phase=True)
    with producer, producer.transaction() as txn:
        txn.send(topic, ROWS)
        return txn.prepare()


def values(servers: str, topic: str) -> list[str]:
    """What readers see now, whatever is open."""
    found = read(servers, [topic], {"value": "value"}, wait_for_open=False)["value"].to_pylist()
    return sorted(str(value) for value in found)


@pytest.mark.parametrize("commit", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
def test_its_coordinator_is_killed_while_it_waits(brokers: Sandbox, commit: bool) -> None:
    """Another broker coordinates the id then, and knows what is prepared."""
    topic = create(brokers.bootstrap_servers, f"moved-{next(_numbers)}", 2, 3)
    with semel.Cluster({"bootstrap.servers": brokers.bootstrap_servers}) as cluster:
        prepared = prepare(cluster, topic)
        coordinator = node_of(brokers, TransactionCoordinator(prepared.transactional_id))
        coordinator.kill()
        (cluster.commit if commit else cluster.abort)(prepared)
        assert values(brokers.bootstrap_servers, topic) == (["a", "b"] if commit else [])
        coordinator.start()
        coordinator.wait_ready(120)
        wait_whole(brokers)
        (cluster.commit if commit else cluster.abort)(prepared)


@pytest.mark.exhaustive
@pytest.mark.parametrize("commit", [True, False])
def test_a_lost_marker_is_written_as_it_was_decided(
    leaderless: Frail, monkeypatch: pytest.MonkeyPatch, commit: bool
) -> None:
    """A partition has no leader while the transaction ends: its marker never comes by itself (KAFKA-20734)."""
    names = leaderless.names(data=True)
    struck = ExitStack()
    lost: list[bool] = []
    with semel.Cluster(leaderless.properties()) as cluster:
        prepared = prepare(cluster, names.topic, bounded=True)
        while _coordinated_by_victim(leaderless, prepared):  # its end would wait for the node that is frozen
            cluster.abort(prepared)
            prepared = prepare(cluster, names.topic, bounded=True)

        def observe(step: Step, detail: str) -> None:
            if step in (TwoPhaseStep.COMMIT_SENT, TwoPhaseStep.ABORT_SENT):
                struck.enter_context(leaderless.leaderless())
            if step in (TwoPhaseStep.COMMIT_ANSWERED, TwoPhaseStep.ABORT_ANSWERED):
                struck.close()
                lost.append(bool(open_transactions(leaderless.client, [(names.topic, 0)])[names.topic, 0]))

        monkeypatch.setattr(semel.steps, "_observer", observe)
        with struck:
            recovered = cluster.recover(names.topic, lambda found: [prepared] if commit else [])
        monkeypatch.setattr(semel.steps, "_observer", None)
    assert lost == [True], "the marker was not lost: nothing is shown"
    assert recovered.aborted == ([] if commit else [prepared.transactional_id])
    assert values(leaderless.kafka.bootstrap_servers, names.topic) == (["a", "b"] if commit else [])
    partitions = [(names.topic, 0), (names.topic, 1)]
    assert not any(open_transactions(leaderless.client, partitions).values())


def _coordinated_by_victim(where: Frail, prepared: Prepared) -> bool:
    address = where.client.connect(TransactionCoordinator(prepared.transactional_id)).address
    return address.endswith(f":{where.victim.port}")


FAULTS: dict[str, Callable[[FaultProxy, str], Fault]] = {
    "reply lost": lambda proxy, api: proxy.drop_reply(api),
    "request lost": lambda proxy, api: proxy.drop_request(api),
    "reply cut": lambda proxy, api: proxy.cut(api, reply=True),
}


@pytest.mark.parametrize("api", ["InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn", "DescribeTransactions"])
@pytest.mark.parametrize(
    "kind",
    [
        "reply lost",
        pytest.param("request lost", marks=pytest.mark.exhaustive),
        pytest.param("reply cut", marks=pytest.mark.exhaustive),
    ],
)
def test_a_request_that_is_lost_on_the_way(brokers: Sandbox, api: str, kind: str) -> None:
    """The rows are there once, and nothing is left open but a name that was given up (rule 13)."""
    topic = create(brokers.bootstrap_servers, f"wire-{next(_numbers)}", 2, 3)
    with FaultProxy(brokers.bootstrap_servers) as proxy:
        through = {"bootstrap.servers": proxy.bootstrap_servers, "request.timeout.ms": 2_000}
        with semel.Cluster(through) as cluster:
            fault = FAULTS[kind](proxy, api)
            prepared = prepare(cluster, topic)
            cluster.commit(prepared)
            cluster.commit(prepared)
            assert fault.happened.is_set()
            used = {name.rpartition(".")[2] for name in list_transactions(cluster._client) if name.startswith(topic)}
            assert prepared.transactional_id.endswith(".1" if api == "InitProducerId" else ".0")
            assert "1" not in used or api == "InitProducerId"
    assert values(brokers.bootstrap_servers, topic) == ["a", "b"]


@pytest.mark.parametrize("opposite", [True, False])
def test_an_end_that_comes_late_or_again_changes_nothing(brokers: Sandbox, opposite: bool) -> None:
    """EndTxn is repeated on the wire, and the opposite one is refused by its markers and its coordinator alike."""
    topic = create(brokers.bootstrap_servers, f"wire-{next(_numbers)}", 2, 3)
    with (
        FaultProxy(brokers.bootstrap_servers) as proxy,
        semel.Cluster({"bootstrap.servers": proxy.bootstrap_servers}) as cluster,
    ):
        repeated = proxy.repeat_request("EndTxn", times=3)
        prepared = prepare(cluster, topic)
        (cluster.abort if opposite else cluster.commit)(prepared)
        assert repeated.happened.is_set()
        refused = partial(cluster.commit if opposite else cluster.abort, prepared)
        with pytest.raises((semel.DataLoss, semel.ConfigError), match=r"PREPARED_LOST|COMMITTED_BEFORE"):
            refused()
    assert values(brokers.bootstrap_servers, topic) == ([] if opposite else ["a", "b"])
