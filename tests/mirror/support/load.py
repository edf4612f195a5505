"""Rows that are written to the source while a mirror is struck, and the look at both clusters afterwards."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Producer

from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.testing.history import assert_exactly_once
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client
from tests.mirror.support.harness import records

PARTITIONS = 3


class Writer:
    """Writes numbered rows to a source topic, in transactions of which each third is aborted, until it is told that it
    is enough.
    """

    def __init__(self, a: Sandbox, topic: str) -> None:
        self._topic, self._enough = topic, threading.Event()
        self._producer = Producer({"bootstrap.servers": a.bootstrap_servers, "transactional.id": topic, "linger.ms": 2})
        self._producer.init_transactions(60)
        self._thread = threading.Thread(target=self._write)
        self.rows = 0
        self.done = False

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._enough.set()
        self._thread.join()

    def _write(self) -> None:
        lot = 0
        while not self._enough.wait(0.02):
            aborted = lot % 3 == 2
            self._producer.begin_transaction()
            for index in range(self.rows, self.rows + 30):
                row = {"id": -1 - index if aborted else index, "lot": lot}
                self._producer.produce(self._topic, json.dumps(row), key=f"k{index % 7}", partition=index % PARTITIONS)
            if aborted:
                self._producer.flush(60)
                self._producer.abort_transaction(60)
            else:
                self._producer.commit_transaction(60)
                self.rows += 30
            lot += 1


@contextmanager
def written(a: Sandbox, topic: str) -> Iterator[Writer]:
    with Writer(a, topic) as writer:
        yield writer


def assert_the_same(a: Sandbox, b: Sandbox, topic: str, target: str) -> None:
    """Compare by an independent client: record by record, and by the ids. No transaction may be open."""
    assert records(b, target) == records(a, topic)
    print(
        assert_exactly_once(
            b.bootstrap_servers,
            target,
            source=topic,
            source_cluster=a.bootstrap_servers,
            id="json:$.id",
            batch="json:$.lot",
        )
    )
    with Client(ClientConfig.parse({"bootstrap.servers": b.bootstrap_servers})) as client:
        wanted = {(target, index): LATEST for index in range(PARTITIONS)}
        ends, stable = (list_offsets(client, wanted, read_committed=committed) for committed in (False, True))
        assert {p: row.offset for p, row in ends.items()} == {p: row.offset for p, row in stable.items()}
