"""Quotas of a real broker: what is throttled takes its time, no request runs into its timeout, and no connection is
opened anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

import semel
from semel.config import ClientConfig
from semel.wire.client import Client
from semel.wire.connection import Connection
from semel.wire.target import ANY
from tests.support.topics import create

#: Bytes a second. What is written and read takes several times the timeout by it.
RATE = 200_000
#: Less than each throttling is, and more than a busy machine needs for an answer.
TIMEOUT_MS = 1_200
ROWS, SIZE = 24, 100_000


@contextmanager
def quota(client: Client, client_id: str, key: str, rate: float = RATE) -> Iterator[None]:
    def alter(*, remove: bool) -> None:
        make = AlterClientQuotasRequest.EntryData
        entity = make.EntityData(entity_type="client-id", entity_name=client_id)
        entry = make(entity=[entity], ops=[make.OpData(key=key, value=float(rate), remove=remove)])
        answer = client.ask(
            ANY,
            AlterClientQuotasRequest(entries=[entry], validate_only=False),
            (1, 1),
            code=lambda answer: int(answer.entries[0].error_code),
        )
        assert answer.entries[0].error_code == 0

    alter(remove=False)
    yield
    alter(remove=True)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who was connected to, each time."""
    found: list[str] = []
    plain = Connection.__init__

    def counted(self: Connection, host: str, port: int, config: ClientConfig) -> None:
        found.append(f"{host}:{port}")
        plain(self, host, port, config)

    monkeypatch.setattr(Connection, "__init__", counted)
    return found


def throttled(servers: str, client_id: str) -> semel.Cluster:
    return semel.Cluster(
        {
            "bootstrap.servers": servers,
            "client.id": client_id,
            "request.timeout.ms": TIMEOUT_MS,
            "max.request.size": 400_000,
            "max.partition.fetch.bytes": 1_000_000,
        }
    )


def test_writing_and_reading_under_a_quota(servers: str, client: Client, opened: list[str]) -> None:
    topic = create(servers, "quota")
    rows = pa.table({"value": [b"%d" % i + b"x" * SIZE for i in range(ROWS)]})
    with throttled(servers, "slow-writer") as cluster, quota(client, "slow-writer", "producer_byte_rate"):
        with cluster.producer("quota") as producer, producer.transaction() as txn:
            txn.send(topic, rows)
            used = len(opened)
            txn.send(topic, rows.slice(0, 1))
        assert len(opened) - used <= 1
        assert used <= 6
    opened.clear()
    with throttled(servers, "slow-reader") as cluster, quota(client, "slow-reader", "consumer_byte_rate", 3 * RATE):
        found = [value for batch in cluster.read(topic) for value in batch["value"].to_pylist()]
    assert found == [*rows["value"].to_pylist(), rows["value"][0].as_py()]
    assert len(opened) <= 4
