"""Writes numbered units, each decided by a line of a file before it is committed, and goes on where the file ends.

``python -m tests.two_phase.support.two_phase_program SERVERS TOPIC FILE UNITS MODE ORDER``. With the order ``naive`` it
commits first and writes the line behind that, as a program without prepared transactions has to.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

import pyarrow as pa

import semel

ROWS = 5


def rows(unit: int) -> list[str]:
    return [f"{unit}-{row}" for row in range(ROWS)]


class Decisions:
    """Lines of a file, each of them written down for good before it is acted on."""

    def __init__(self, path: Path) -> None:
        whole = path.read_bytes() if path.exists() else b""
        self._file = path.open("ab")
        self._file.truncate(whole.rfind(b"\n") + 1)  # half a line is no decision
        self.made = [semel.Prepared.parse(line) for line in whole[: whole.rfind(b"\n") + 1].splitlines()]

    def write(self, prepared: semel.Prepared) -> None:
        self._file.write(f"{prepared}\n".encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        self.made.append(prepared)


def main(servers: str, topic: str, file: str, units: str, mode: str, order: str) -> None:
    decisions = Decisions(Path(file))
    with semel.Cluster({"bootstrap.servers": servers}) as cluster:
        cluster.recover(topic, lambda found: decisions.made)
        two_phase: Literal[True, "bounded"] = "bounded" if mode == "bounded" else True
        with cluster.producer(topic, two_phase=two_phase) as producer:
            for unit in range(len(decisions.made), int(units)):
                with producer.transaction() as txn:
                    txn.send(topic, pa.table({"key": [str(unit)] * ROWS, "value": rows(unit)}))
                    prepared = txn.prepare()
                if order == "naive":
                    cluster.commit(prepared)
                decisions.write(prepared)
                cluster.commit(prepared)


if __name__ == "__main__":
    main(*sys.argv[1:])
