"""A log that loses its end, as by a power failure in front of a disk that had not written it yet."""

from __future__ import annotations

from pathlib import Path

from semel.records.header import scan
from semel.sandbox import Sandbox
from semel.wire.metadata import TopicPartition


def cut_log(sandbox: Sandbox, partition: TopicPartition, *, batches: int) -> None:
    """Kill the broker, take the last batches off the partition's log, and start it again."""
    (node,) = sandbox.nodes
    node.kill()
    (log,) = Path(sandbox.directory).glob(f"**/{partition[0]}-{partition[1]}/*0.log")
    data = log.read_bytes()
    sizes = [header.size for header in scan(memoryview(data), where=str(log))]
    with log.open("r+b") as file:
        file.truncate(sum(sizes[: len(sizes) - batches]))
    node.start()
    sandbox.wait_ready()
