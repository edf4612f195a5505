"""Transactions without Spark: rows of two processes in one transaction.

python examples/plain_python.py localhost:9092 orders
"""

import sys
from concurrent.futures import ProcessPoolExecutor

import pyarrow as pa

import semel

if len(sys.argv) != 3:
    sys.exit(__doc__)
servers, topic = sys.argv[1:3]
PROPERTIES = {"bootstrap.servers": servers}


def write(ticket: semel.Ticket) -> semel.Receipt:
    """Write the partitions of a ticket, and return the receipt. A participant does this in any process."""
    rows = pa.table(
        {
            "key": [f"{ticket.number}-{i}" for i in range(1_000)],
            "value": ["paid"] * 1_000,
            "partition": [ticket.partitions[0][1]] * 1_000,
        }
    )
    with semel.Cluster(PROPERTIES) as cluster, cluster.participant(ticket) as participant:
        participant.send(topic, rows)
        return participant.receipt


if __name__ == "__main__":
    with semel.Cluster(PROPERTIES) as cluster, cluster.producer("plain-python") as producer:
        # one process: rows are sent, and visible together at the end of the block; an exception in it aborts
        with producer.transaction() as txn:
            txn.send(topic, pa.table({"key": ["a", "b"], "value": ["first", "second"]}))

        # two processes, one transaction: each has the right to write one partition
        with producer.transaction() as txn, ProcessPoolExecutor(2) as pool:
            tickets = txn.tickets([[(topic, 0)], [(topic, 1)]])
            txn.accept(pool.map(write, tickets))

    assert producer.progress is not None
    print(
        "committed last:",
        {
            name: f"{sum(last - first + 1 for first, last in parts.values())} rows"
            for name, parts in producer.progress.wrote.items()
        },
    )
