"""Prepared transactions, and what their topics hold."""

from __future__ import annotations

from itertools import count

import pyarrow as pa

import semel
from semel.sandbox import Sandbox
from semel.testing.records import read
from semel.transaction.two_phase.prepared import Prepared
from semel.wire.api.describe_transactions import list_transactions

numbers = count(1)
ROWS = pa.table({"value": ["a", "b", "c"], "key": ["1", "2", "3"]})


def prepare(cluster: semel.Cluster, topic: str, rows: pa.Table = ROWS) -> Prepared:
    with cluster.producer(topic, two_phase=True) as producer, producer.transaction() as txn:
        txn.send(topic, rows)
        return txn.prepare()


def ongoing(cluster: semel.Cluster, prefix: str) -> list[str]:
    return [known for known in list_transactions(cluster._client, ["Ongoing"]) if known.startswith(f"{prefix}.unit.")]


def values(brokers: Sandbox, topic: str) -> list[str]:
    return sorted(str(v) for v in read(brokers.bootstrap_servers, [topic], {"value": "value"})["value"].to_pylist())
