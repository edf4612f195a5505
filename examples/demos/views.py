"""The programs of ``make streams-demo``: views of pages, counted by page and minute.

``python -m examples.demos.views WAY SERVERS FOLDER WORKER``, the way being ``streams`` or ``naive``: count, write the
counts, then commit the offsets, each by itself, with confluent-kafka. Both end at SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from semel.steps import StreamsStep, reached
from semel.streams import App, windows

__all__ = ["PARTITIONS", "SOURCE", "line", "minute_of"]

PARTITIONS = 4
SOURCE = "views"
_PAGES = 50
#: The distance of views, by their own time.
_APART_MS = 30
_BEGAN_MS = 1_700_000_040_000
_MINUTE_MS = 60_000
_SESSION_MS = 6_000
_COMMIT_S = 0.1


def line(number: int) -> tuple[str, int]:
    """Return a view: its page, and its time."""
    return f"page-{number * number % 7919 % _PAGES}", _BEGAN_MS + number * _APART_MS


def minute_of(page: str, time: int) -> str:
    """Return the name of a count: page and minute."""
    return f"{page}@{time - time % _MINUTE_MS}"


def streams(servers: str, folder: str, worker: str) -> None:
    """Count with semel."""
    properties = {
        "bootstrap.servers": servers,
        "state.dir": folder,
        "group.instance.id": worker,
        "session.timeout.ms": _SESSION_MS,
    }

    # --- the user's code
    def named(batch: pa.RecordBatch) -> pa.RecordBatch:
        start = batch["window_start"].cast(pa.int64()).cast(pa.string())
        key = pc.binary_join_element_wise(batch["key"], start, "@")
        return pa.RecordBatch.from_pydict({"key": key, "value": batch["value"], "timestamp": batch["timestamp"]})

    app = App("streams", **properties)
    views = app.stream(SOURCE, key="string").group_by_key()
    counts = views.windowed(windows.tumbling("1 min")).count("per-minute")
    counts.to_stream().map_batches(named).to("streams-counts")
    # --- the end of it

    signal.signal(signal.SIGTERM, lambda *_: app.stop())
    app.run()


def naive(servers: str, _: str, worker: str) -> None:
    """Count as many programs do: former counts are read back when a partition is assigned."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    counts: Counter[tuple[int, str]] = Counter()
    member = {"group.id": "naive", "group.instance.id": worker, "session.timeout.ms": _SESSION_MS}
    settings = {"bootstrap.servers": servers, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer, producer = Consumer({**settings, **member}), Producer({"bootstrap.servers": servers, "linger.ms": 5})
    consumer.subscribe([SOURCE], on_assign=lambda _, parts: _read_back(settings, counts, parts))
    while not stop.is_set():
        changed: dict[tuple[int, str], int] = {}
        for message in consumer.consume(2_000, _COMMIT_S):
            if message.error():
                continue
            count = message.partition(), minute_of(message.key().decode(), message.timestamp()[1])
            counts[count] += 1
            changed[count] = counts[count]
        if changed:
            reached(StreamsStep.PROCESSED, worker)
            for (partition, key), number in changed.items():
                producer.produce("naive-counts", str(number), key=key, partition=partition)
            producer.flush()
            reached(StreamsStep.CHANGELOG_SENT, worker)
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as refused:
                print(f"offsets were not committed: {refused}")
            reached(StreamsStep.COMMITTED, worker)
    consumer.close()


def _read_back(settings: dict[str, Any], counts: Counter[tuple[int, str]], assigned: list[TopicPartition]) -> None:
    counts.clear()
    reader = Consumer({**settings, "group.id": "naive-reader"})
    places = [TopicPartition("naive-counts", one.partition, 0) for one in assigned]
    ends = {one.partition: reader.get_watermark_offsets(one)[1] for one in places}
    left = sum(ends.values())
    reader.assign(places)
    while left > 0:
        for message in reader.consume(10_000, 1.0):
            if not message.error():
                counts[message.partition(), message.key().decode()] = int(message.value())
                left -= 1
    reader.close()


def main(way: str, servers: str, folder: str, worker: str) -> None:
    """Count until SIGTERM."""
    {"streams": streams, "naive": naive}[way](servers, folder, worker)


if __name__ == "__main__":
    main(*sys.argv[1:])
