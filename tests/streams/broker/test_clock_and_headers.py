"""Functions that the clock calls, headers and timestamps of sources, on a broker."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from semel.streams import App, Context, Processor, PunctuationType, Record, stores
from semel.streams.worker.worker import Worker
from tests.support.topics import create
from tests.support.waiting import wait_for


class Ticking(Processor):
    """Forwards how often the clock has called it, with the number of records so far."""

    def init(self, context: Context) -> None:
        super().init(context)
        self._scheduled = context.schedule("20 ms", self._tick, PunctuationType.WALL_CLOCK_TIME)
        self._kept = context.store("kept")

    def process(self, record: Record) -> None:
        self._kept.put("records", (self._kept.get("records") or 0) + 1)
        self.context.forward(record.key, record.value, headers=[*record.headers, ("seen", b"yes")])

    def _tick(self, now: int) -> None:
        ticks = (self._kept.get("ticks") or 0) + 1
        self._kept.put("ticks", ticks)
        self.context.forward("tick", [ticks, self._kept.get("records")])
        if ticks == 3:
            self._scheduled.cancel()


#: Key, value, time and headers of a record.
Row = tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]


def read(servers: str, topic: str) -> list[Row]:
    """Return the committed records of a topic of one partition, by a reader that is not ours."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "look", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[Row] = []
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF
            consumer.close()
            return found
        found.append((message.key(), message.value(), message.timestamp()[1], message.headers() or []))


def test_the_clock_calls_and_headers_stay(servers: str, tmp_path: Path) -> None:
    app = App("ticking", **{"bootstrap.servers": servers, "state.dir": str(tmp_path)})
    stream = app.stream(
        "ticking-in", key="string", value="json", timestamp_extractor=lambda record, _: record.value - 1
    )
    processed = stream.map_values(lambda record: record.value + 1).process(Ticking, stores=[stores.key_value("kept")])
    processed.repartition("through").to("ticking-out")
    for name in ("ticking-in", "ticking-out"):
        create(servers, name, 1, retention_ms="-1")
    with Worker(app) as worker:

        def ticks() -> bool:
            worker.step()
            return len([row for row in read(servers, "ticking-out") if row[0] == b"tick"]) == 3

        wait_for(ticks, "what the clock has made, without any record", 120)
        producer = Producer({"bootstrap.servers": servers})
        producer.produce("ticking-in", b"0", key=b"dropped", timestamp=7)
        producer.produce("ticking-in", b"41", key=b"k", timestamp=7, headers=[("a", b"1"), ("a", None)])
        assert producer.flush(60) == 0

        def there() -> bool:
            worker.step()
            return any(row[0] == b"k" for row in read(servers, "ticking-out"))

        wait_for(there, "the record", 120)
    rows = read(servers, "ticking-out")
    assert [row[1] for row in rows if row[0] == b"tick"] == [b"[1,null]", b"[2,null]", b"[3,null]"]
    (row,) = (row for row in rows if row[0] == b"k")
    assert row == (b"k", b"42", 40, [("a", b"1"), ("a", None), ("seen", b"yes")])
    assert app.dropped_records == {"KSTREAM-SOURCE-0000000000": 1}
