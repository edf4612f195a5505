"""Values that were a fraction of their size on the wire: the memory of reading them does not follow the ratio."""

from __future__ import annotations

import pyarrow as pa

from semel.read import Reader
from semel.wire.client import Client
from tests.support.other_client import produce, ranges
from tests.support.topics import create

BATCHES, ROWS, SIZE = 40, 400, 10_000
MIB = 1 << 20


def value(index: int) -> bytes:
    return b"%d" % index + b" " * (SIZE - len(str(index)))


def test_an_answer_of_many_portions_is_read_in_them(servers: str, client: Client) -> None:
    """160 MB of values in one answer of a few hundred kilobytes."""
    topic = create(servers, "ratio")
    batch = {
        "compression_type": "zstd",
        "batch_num_messages": ROWS,
        "batch_size": 8 * MIB,
        "message_max_bytes": 8 * MIB,
        "linger_ms": 1_000,
    }
    produce(
        servers,
        topic,
        ({"value": value(i)} for i in range(BATCHES * ROWS)),
        queue_buffering_max_kbytes=1 << 18,
        **batch,
    )
    reader, row, peak, found = Reader(client, ranges(client, topic)), 0, 0, 0
    before = pa.total_allocated_bytes()
    for rows in reader:
        values = rows["value"].to_pylist()
        assert values == [value(row + i) for i in range(len(values))]
        row += len(values)
        assert reader.positions == {(topic, 0): row}
        peak = max(peak, pa.total_allocated_bytes() - before)
        found += 1
        assert rows.nbytes <= 65 * MIB
    assert row == BATCHES * ROWS
    assert found == 3
    assert peak < 160 * MIB
