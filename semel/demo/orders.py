"""The demo's input: orders on a topic, written with semel's own transactions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.cluster import Cluster

__all__ = ["TOPIC", "write_orders"]

TOPIC = "orders"
_CUSTOMERS = 1_000


def write_orders(cluster: Cluster, count: int, lot: int, topic: str = TOPIC) -> Iterator[int]:
    """Write ``count`` orders, keyed by customer, ``lot`` of them in a transaction. Yield the number committed so
    far.
    """
    with cluster.producer(f"demo-{topic}") as producer:
        for first in range(0, count, lot):
            with producer.transaction() as txn:
                txn.send(topic, _orders(first, min(first + lot, count), first // lot))
            yield min(first + lot, count)


def _orders(first: int, end: int, lot: int) -> pa.Table:
    number = np.arange(first, end)
    customer = pc.cast(pa.array(number * 7919 % _CUSTOMERS), pa.string())
    cents = pc.cast(pa.array(number * 104_729 % 99_999 + 1), pa.string())
    value = pc.binary_join_element_wise(
        '{"order":', pc.cast(pa.array(number), pa.string()), f',"lot":{lot},"cents":', cents, "}", ""
    )
    return pa.table({"key": customer, "value": value})
