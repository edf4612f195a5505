"""A driver that sends records through a topology in one process, without a broker.

::

    driver = Driver(app)
    driver.pipe("lines", value="hello world", timestamp=0)
    assert driver.read("counts-out") == [...]

Everything happens at once and in order: what one record leads to is there when :meth:`Driver.pipe` returns, and
committed. If a step fails, nothing of what its records led to is there. Each sub-topology is one task, and its state is
in memory.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from semel.errors import ConfigError
from semel.records.record_headers import Headers, header_pairs, headers_column
from semel.serdes.serde import Serde, decode, encode, from_python, to_python
from semel.streams.app import App
from semel.streams.nodes.sources import TimestampExtraction
from semel.streams.rows import Record, one_by_one, timestamps
from semel.streams.rows import times as times_of
from semel.streams.state.backend import Memory
from semel.streams.state.global_stores import take_rows
from semel.streams.state.state_store import StateStore
from semel.streams.state.versions import Versions
from semel.streams.topology.node import Source
from semel.streams.worker.bad_records import check_handlers
from semel.streams.worker.task import Task

__all__ = ["Driver"]


class Driver:
    """Runs ``app`` in memory. Its clock stands at ``start_ms`` until :meth:`advance`."""

    def __init__(self, app: App, *, start_ms: int = 0) -> None:
        self._topology = app.topology
        check_handlers(app.topology)
        self._now = start_ms
        self._output: dict[str, list[Record]] = defaultdict(list)
        self._offsets: dict[str, int] = defaultdict(int)
        self._of_source: dict[str, Task] = {}
        #: By the topics that are read; those that fit a pattern from their first record on.
        self._tasks: dict[str, Task] = {}
        self._sources: dict[str, Source] = {}
        self._extractions: dict[str, TimestampExtraction] = {}
        self._stores: dict[str, StateStore] = {}
        self._globals = {one.topic: StateStore(one.spec, Memory()) for one in app.topology.globals}
        by_name = {one.spec.name: self._globals[one.topic] for one in app.topology.globals}
        #: Rows of repartition topics that were not worked on yet.
        self._queued: dict[str, deque[Any]] = {}
        #: Whether a task reads a repartition topic beside another one: each record is then worked on to its end.
        self._meeting = False
        for part in self._topology.sub_topologies():
            stores = {spec.name: StateStore(spec, Memory()) for spec in part.stores}
            self._stores |= stores
            self._meeting |= len(part.sources) > 1 and any(source.internal for source in part.sources)
            task = Task(self._topology, part, 0, stores, self._take, clock=lambda: self._now, global_stores=by_name)
            task.start()
            for source in part.sources:
                self._of_source[source.name] = task
                if source.pattern is None:
                    self._reads(self._topology.topic(source))

    def _reads(self, topic: str) -> bool:
        """Return whether the topology reads a topic."""
        if topic not in self._tasks:
            source = self._topology.source_of(topic)
            if source is None:
                return False
            self._tasks[topic], self._sources[topic] = self._of_source[source.name], source
            self._extractions[topic] = TimestampExtraction(self._topology, source, lambda: self._now)
        return True

    def advance(self, milliseconds: int) -> None:
        """Move the clock on, and call what is scheduled by it. Records without a timestamp get its time."""
        self._now += milliseconds
        self._whole(self._punctuate)

    def _punctuate(self) -> None:
        for task in self._all_tasks:
            if (at := task.next_clock_ms) is not None and at <= self._now:
                task.punctuate_by_clock()
                self._drain()

    def pipe(
        self, topic: str, value: Any = None, *, key: Any = None, timestamp: int | None = None, headers: Headers = ()
    ) -> None:
        """Send one record. Key and value as the serialisation of the topic has them: text, bytes, or any JSON."""
        self.pipe_many(topic, [(key, value, self._now if timestamp is None else timestamp, headers)])

    def pipe_many(self, topic: str, rows: Sequence[tuple[Any, Any, int] | tuple[Any, Any, int, Headers]]) -> None:
        """Send records in one batch: key, value and timestamp of each, and its headers if it has some."""
        if topic in self._globals:
            take_rows(self._globals[topic], self._batch(topic, rows))
            return
        if not self._reads(topic):
            raise ConfigError(
                f"the topology does not read {topic!r}. Nothing was sent. It reads {', '.join(sorted(self._sources))}.",
                tag="TOPOLOGY",
            )
        batch = self._batch(topic, rows)

        def work() -> None:
            for piece in one_by_one(batch) if self._meeting else (batch,):
                self._process(topic, piece)
                self._drain()

        self._whole(work)

    def _whole(self, work: Callable[[], None]) -> None:
        """Do work and commit it, or nothing of it."""
        before = {name: len(written) for name, written in self._output.items()}
        try:
            work()
        except BaseException:
            self._queued.clear()
            for store in self._stores.values():
                store.forget()
            for name, written in self._output.items():
                del written[before.get(name, 0) :]
            raise
        self._commit()

    def _batch(self, topic: str, rows: Sequence[tuple[Any, Any, int] | tuple[Any, Any, int, Headers]]) -> Any:
        source = self._sources.get(topic, Source(topic))
        keys, values, times = ([row[at] for row in rows] for at in range(3))
        columns = {"key": _bytes(keys, source.key), "value": _bytes(values, source.value)}
        headers = headers_column([row[3] if len(row) > 3 else () for row in rows])
        return pa.RecordBatch.from_pydict({**columns, "timestamp": timestamps(times), "headers": headers})

    def _commit(self) -> None:
        """Take what was written into the stores, and delete windows that are too old, as a worker does."""
        for store in self._stores.values():
            store.changes()
            store.apply("", 0)

    def _process(self, topic: str, records: Any) -> None:
        self._tasks[topic].process(topic, self._with_origin(topic, records))

    def _with_origin(self, topic: str, records: Any) -> Any:
        count = records.num_rows
        first = self._offsets[topic]
        self._offsets[topic] += count
        origin = {
            "topic": pa.array([topic] * count, pa.string()),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(first, first + count), pa.int64()),
        }
        columns = {name: records[name] for name in records.schema.names}
        return self._extractions[topic](pa.RecordBatch.from_pydict({**columns, **origin}))

    @property
    def _all_tasks(self) -> list[Task]:
        return list({task.id: task for task in self._of_source.values()}.values())

    def _drain(self) -> None:
        """Work on the rows of repartition topics: those of the topic first whose next row has the lowest time."""
        while self._queued:
            topic = min(self._queued, key=lambda name: int(times_of(self._queued[name][0])[0]))
            rows = self._queued[topic].popleft()
            if not self._queued[topic]:
                del self._queued[topic]
            self._process(topic, rows)

    def _take(self, topic: str, records: Any) -> None:
        if self._reads(topic):
            if records.num_rows:
                self._queued.setdefault(topic, deque()).extend(one_by_one(records) if self._meeting else (records,))
            return
        times = records["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
        headers = records["headers"].to_pylist() if "headers" in records.schema.names else [None] * len(times)
        rows = zip(records["key"].to_pylist(), records["value"].to_pylist(), times, headers, strict=True)
        for key, value, time, pairs in rows:
            record = Record(key, value, time, topic, 0, self._offsets[topic], headers=header_pairs(pairs))
            self._output[topic].append(record)
            self._offsets[topic] += 1

    def read(self, topic: str, *, key: Serde = "string", value: Serde = "string") -> list[Record]:
        """Return the records that were written to a topic since the last read."""
        found, self._output[topic] = self._output[topic], []
        keys = to_python(decode(pa.array([one.key for one in found], pa.binary()), key), key)
        values = to_python(decode(pa.array([one.value for one in found], pa.binary()), value), value)
        return [
            replace(one, key=found_key, value=found_value)
            for found_key, found_value, one in zip(keys, values, found, strict=True)
        ]

    def store(self, name: str) -> Mapping[Any, bytes]:
        """Return the contents of a store: bytes by key, and for windows by key and window start (milliseconds). Of
        versions the newest ones.
        """
        if name not in self._stores:
            raise ConfigError(
                f"the topology has no store {name!r}. Nothing was read. It has {', '.join(sorted(self._stores))}.",
                tag="TOPOLOGY",
            )
        store = self._stores[name]
        if store.spec.history_ms is not None:
            newest = {key: Versions.newest(value) for key, _, _, value in store.entries()}
            return {key: value for key, value in newest.items() if value is not None}
        return {key if begin is None else (key, begin): value for key, begin, _, value in store.entries()}


def _bytes(values: list[Any], serde: Serde) -> Any:
    """Bytes and null stay as they are, whatever the serde."""
    made = [value.encode() if isinstance(value, str) and serde != "json" else value for value in values]
    others = [at for at, value in enumerate(made) if value is not None and not isinstance(value, bytes)]
    form = "json" if serde in (None, "bytes", "string") else serde
    for at, value in zip(others, encode(from_python([made[at] for at in others], form), form).to_pylist(), strict=True):
        made[at] = value
    return pa.array(made, pa.binary())
