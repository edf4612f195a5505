"""Writes numbered units to two clusters, each decided by the commit on the first, and goes on behind its progress.

``python -m tests.two_phase.support.two_clusters_program SERVERS OTHER_SERVERS TOPIC UNITS ORDER``. With the order
``naive`` it commits on the second cluster first, and decides behind that.
"""

from __future__ import annotations

import sys

import pyarrow as pa

import semel
from semel.transaction.progress.record import Progress
from tests.two_phase.support.two_phase_program import ROWS, rows


def main(servers: str, other_servers: str, topic: str, units: str, order: str) -> None:
    with (
        semel.Cluster({"bootstrap.servers": servers}) as a,
        semel.Cluster({"bootstrap.servers": other_servers}) as b,
        a.producer(topic, clusters=[b]) as owner,
        b.producer(topic, two_phase="bounded") as elsewhere,
    ):
        progress = owner.take_over([topic])
        done = progress.batch if progress is not None and progress.batch is not None else -1
        for unit in range(done + 1, int(units)):
            table = pa.table({"key": [str(unit)] * ROWS, "value": rows(unit)})
            with owner.transaction() as txn:
                with elsewhere.transaction() as part:
                    part.send(topic, table)
                    prepared = part.prepare()
                txn.send(topic, table)
                if order == "naive":
                    b.commit(prepared)
                else:
                    txn.enlist([prepared])
                txn.commit(Progress(batch=unit))


if __name__ == "__main__":
    main(*sys.argv[1:])
