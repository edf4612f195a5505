"""A worker: a session that copies a topic, until its group has committed all of it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Producer

import semel
from semel.config import ClientConfig
from semel.wire.api.offsets import committed
from semel.wire.client import Client

PARTITIONS = 4


@dataclass(frozen=True)
class SessionJob:
    """The job of a session: what is copied where, and until which sum of the group's offsets.

    With ``total_file`` the test says the sum later: a worker goes on until the file is there and its sum is reached.

    ``mode`` is ``exact``, or ``ahead``: positions are committed before the rows that they belong to, or ``outside``:
    rows are written outside of the transaction, before it.
    """

    servers: str
    group: str
    source: str
    target: str
    total: int
    instance: str | None = None
    mode: str = "exact"
    chunk: int = 50
    session_timeout_ms: int = 2_000
    transaction_timeout_ms: int = 2_000
    total_file: str | None = None

    def properties(self) -> dict[str, object]:
        return {
            "bootstrap.servers": self.servers,
            "transaction.timeout.ms": self.transaction_timeout_ms,
            "fetch.max.wait.ms": 50,
        }


def is_done(client: Client, job: SessionJob) -> bool:
    """Return True if the group has committed all that the job asks for."""
    if job.total_file is None:
        return position(client, job) >= job.total
    total = Path(job.total_file)
    return total.exists() and position(client, job) >= int(total.read_text())


def position(client: Client, job: SessionJob) -> int:
    """Return the group's position, summed over all partitions."""
    everything = [(job.source, index) for index in range(PARTITIONS)]
    return sum(committed(client, job.group, everything, require_stable=True).values())


def run(job: SessionJob) -> None:
    """Copy until all is there."""
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("semel").setLevel(logging.INFO)
    with (
        Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client,
        semel.Cluster(job.properties()) as cluster,
        cluster.session(
            job.group,
            group=job.group,
            topics=[job.source],
            group_instance_id=job.instance,
            session_timeout_ms=job.session_timeout_ms,
            max_poll_records=job.chunk,
        ) as session,
    ):
        while True:
            batch = session.poll(0.1)
            if batch is None:
                if is_done(client, job):
                    return
                continue
            if job.mode == "ahead":
                session.commit()
            if job.mode == "outside":
                _write_outside(job, batch)
            else:
                session.send(job.target, batch.select(["value", "partition"]))
            if not session.commit():
                print("again", flush=True)


def _write_outside(job: SessionJob, batch: pa.RecordBatch) -> None:
    producer = Producer({"bootstrap.servers": job.servers, "enable.idempotence": True})
    for value, partition in zip(batch["value"].to_pylist(), batch["partition"].to_pylist(), strict=True):
        producer.produce(job.target, value=value, partition=partition)
    assert producer.flush(60) == 0
