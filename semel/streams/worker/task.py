"""A task: one sub-topology for one partition, with its state.

Rows go from node to node as Arrow batches, and one by one where that could be seen (``topology/record_order``). Stream
time is the highest time of the task's rows. After each of them the punctuators are called that are due.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.errors import ConfigError
from semel.streams.clock import now_ms
from semel.streams.nodes.sources import decoded
from semel.streams.nodes.stateless import to_records
from semel.streams.rows import first_wrong, joined_batches, one_by_one, place, times
from semel.streams.state.state_store import StateStore
from semel.streams.topology.node import Node, Operator, Sink, Source, SubTopology
from semel.streams.topology.record_order import RecordOrder
from semel.streams.topology.topology import Topology
from semel.streams.worker.bad_records import BadRecords, Refusal
from semel.streams.worker.blocks import pieces, rounds
from semel.streams.worker.meeting import in_order

__all__ = ["Task"]


#: Rows by the node at which they wait for those of other inputs.
_Arrived = dict[str, list[Any]]


class Task:
    """Works on rows of its sources. ``output`` takes what its sinks write: a topic, and records in Arrow. ``refusal``
    says why a topic would not take some. ``clock`` is the machine's, in milliseconds. Of ``global_stores`` it reads.
    """

    def __init__(
        self,
        topology: Topology,
        part: SubTopology,
        partition: int,
        stores: Mapping[str, StateStore],
        output: Callable[[str, Any], None],
        refusal: Refusal | None = None,
        clock: Callable[[], int] = now_ms,
        global_stores: Mapping[str, StateStore] | None = None,
    ) -> None:
        self.id = f"{part.number}_{partition}"
        self.partition = partition
        self.stores = stores
        self._readable = {**stores, **(global_stores or {})}
        self._topology = topology
        self._output = output
        self._nodes = {node.name: node for node in part.nodes}
        #: By the topics whose rows have come.
        self._sources: dict[str, Source] = {}
        self._own = {node.name: node.supply() for node in part.nodes if node.supply is not None}
        self._of_partition = {
            node.name: node.of_partition(partition) for node in part.nodes if node.of_partition is not None
        }
        self._clock = clock
        self._order = RecordOrder.of(part.nodes)
        self._bad = BadRecords(topology, output, refusal)
        for name, own in self._own.items():
            own.leave_out, own.clock = partial(self._bad.failed, name), clock
        for node in part.nodes:
            if node.name in self._own and node.name in self._order.into:
                self._own[node.name].hand_on = partial(self._hand_on, node)
        #: The processor of a task that can let it stop in the middle of a batch, and give it the rest row by row.
        self._stopping = self._find_stopping(part)
        self._stream_time = -1

    def _find_stopping(self, part: SubTopology) -> Node | None:
        """Return the only processor, if nothing else can be seen to have gone ahead of it."""
        nodes = [node for node in part.nodes if node.name in self._own]
        if len(nodes) != 1 or self._order or any(one.name not in self._order.plain for one in nodes[0].parents):
            return None
        self._own[nodes[0].name].stops = True
        return nodes[0]

    def start(self) -> None:
        """Make the processors, once the stores have their state. Raises :class:`ConfigError` where one fails."""
        for one in self._own.values():
            one.start(self.stores)

    def process(self, topic: str, rows: Any) -> None:
        """Send rows of a topic through all nodes after it. Raises :class:`ConfigError` for what a node cannot work on,
        and what stores raise.
        """
        self._process(topic, rows)

    def _process(self, topic: str, rows: Any, arrived: _Arrived | None = None) -> None:
        if not rows.num_rows:
            return
        node = self._source(topic)
        rows = self._read(node, rows)
        if not rows.num_rows:
            return
        self.start()
        if self._own and (self._stopping is None or self._scheduled):
            for row in one_by_one(rows):
                self._stream_time = max(self._stream_time, int(times(row)[0]))
                self._hand_on(node, row)
                self._punctuate(row)
            return
        self._hand_on(node, rows, arrived)
        if self._stopping is not None and self._scheduled:
            self._catch_up(self._stopping, rows)
        self._stream_time = max(self._stream_time, int(times(rows).max()))

    def _source(self, topic: str) -> Source:
        if topic not in self._sources:
            source = self._topology.source_of(topic)
            assert source is not None
            self._sources[topic] = source
        return self._sources[topic]

    def _read(self, node: Source, rows: Any) -> Any:
        """Return the rows of a source that fit its serialisations, in their types."""
        self._bad.source = rows
        return decoded(node, self._bad.readable(node, rows))

    @property
    def _scheduled(self) -> bool:
        return any(one.next_ms is not None for one in self._own.values())

    def _catch_up(self, node: Node, rows: Any) -> None:
        """Give a processor that has stopped the rest of these rows, one by one, and call it as it has scheduled."""
        own = self._own[node.name]
        left, own.left = own.left, None
        made_of = left["offset"].to_numpy()
        at = int(np.searchsorted(rows["offset"].to_numpy(), made_of[0]))
        if at:
            self._stream_time = max(self._stream_time, int(times(rows.slice(0, at)).max()))
        first = 1
        for row in one_by_one(rows.slice(at)):
            last = int(np.searchsorted(made_of, row["offset"][0].as_py(), "right"))
            self._stream_time = max(self._stream_time, int(times(row)[0]))
            self._enter(node, left.slice(first, last - first))
            self._punctuate(row)
            first = last

    def process_by_time(self, rows: Any) -> None:
        """Process rows of several topics, which are in their order."""
        if self._order.meeting:
            self._meet(rows)
            return
        arrived: _Arrived | None = defaultdict(list) if self._order.joining else None
        for piece in rounds(rows) if self._order.in_rounds else pieces(rows, by_key=self._order.by_key):
            self._process(piece["topic"][0].as_py(), piece, arrived)
        self._go_on(rows, arrived or {})

    def _meet(self, rows: Any) -> None:
        """Send each topic's rows to the nodes where they meet others, and let these work on all of them, in order."""
        arrived: _Arrived = defaultdict(list)
        for topic in pc.unique(rows["topic"]).to_pylist():
            node = self._source(topic)
            self._hand_on(node, self._read(node, rows.filter(pc.equal(rows["topic"], topic))), arrived)
        self._go_on(rows, arrived)
        self._stream_time = max(self._stream_time, int(times(rows).max()))

    def _go_on(self, rows: Any, arrived: _Arrived) -> None:
        """Let nodes work on the rows that have arrived at them, in the order of the ``rows`` that they were made of."""
        self._bad.source = rows
        for name, batches in arrived.items():
            for piece in in_order(rows, batches):
                self._enter(self._nodes[name], piece)

    def _punctuate(self, row: Any) -> None:
        """Call what is due, the earliest first."""
        while True:
            due = [(one.next_ms, name) for name, one in self._own.items() if one.next_ms is not None]
            at, name = min(due, key=itemgetter(0), default=(None, ""))
            if at is None or at > self._stream_time:
                return
            made = self._own[name].punctuate(self._stream_time, row)
            self._hand_on(self._nodes[name], made)

    @property
    def next_clock_ms(self) -> int | None:
        """The time by the machine's clock at which a punctuator is due, or None."""
        due = (one.next_clock_ms for one in self._own.values())
        return min((at for at in due if at is not None), default=None)

    def punctuate_by_clock(self) -> None:
        """Call what is due by the machine's clock, the earliest first."""
        now, self._bad.source = self._clock(), None
        while (at := self.next_clock_ms) is not None and at <= now:
            name = next(name for name, one in self._own.items() if one.next_clock_ms == at)
            self._hand_on(self._nodes[name], self._own[name].punctuate_by_clock(now))

    def close(self) -> None:
        """Close the state. Uncommitted changes are dropped."""
        try:
            for one in self._own.values():
                one.close()
        finally:
            for store in self.stores.values():
                store.close()

    def _hand_on(self, node: Node, rows: Any, arrived: _Arrived | None = None) -> None:
        """Let the nodes after this one work on rows. With ``arrived`` they stop where they meet those of others."""
        for piece in self._pieces(rows, apart=node.name in self._order.out_of):
            for child in node.children:
                if arrived is not None and child.name in self._order.meeting | self._order.joining:
                    arrived[child.name].append(piece)
                else:
                    self._enter(child, piece, arrived)

    def _enter(self, node: Node, rows: Any, arrived: _Arrived | None = None) -> None:
        if isinstance(node, Sink):
            self._sink(node, rows)
            return
        operate = self._own.get(node.name) or self._of_partition.get(node.name, node.operate)
        for piece in self._pieces(rows, apart=node.name in self._order.into):
            self._hand_on(node, piece if operate is None else self._operated(node, operate, piece), arrived)

    def _operated(self, node: Node, operate: Operator, rows: Any) -> Any:
        """Return what a node makes of rows, without those of records that are left out."""
        if not self._bad.handlers.works_on or node.name in self._own:
            return operate(rows, self._readable)
        before = [self._topology.dropped.mark()]
        before += [self.stores[spec.name].mark() for spec in node.stores if node.by_record]
        try:
            return operate(rows, self._readable)
        except ConfigError as error:
            if not self._bad.handles(error):
                raise
            for take_back in before:
                take_back()
            if rows.num_rows < 2:
                self._bad.leave_out(node.name, rows, error)
                return rows.slice(0, 0)
        made = [self._operated(node, operate, half) for half in _halves(rows)]
        return joined_batches([one for one in made if one.num_rows] or made[:1])

    @staticmethod
    def _pieces(rows: Any, *, apart: bool) -> Iterable[Any]:
        """Return rows that stay together: all, each for itself, or none where there are none."""
        return one_by_one(rows) if apart or not rows.num_rows else (rows,)

    def _sink(self, sink: Sink, rows: Any) -> None:
        """Write rows, without those of records that are left out."""
        try:
            written = self._written(sink, rows)
        except ConfigError as error:
            if not self._bad.handles_at_sink(error):
                self._bad.refused = error
                raise
            if rows.num_rows < 2:
                self._bad.leave_out(sink.name, rows, error)
                return
            for half in _halves(rows):
                self._sink(sink, half)
            return
        for topic, records in written:
            self._output(topic, records)

    def _written(self, sink: Sink, rows: Any) -> list[tuple[str, Any]]:
        """Return topics, and what is written to each."""
        try:
            records = _records(sink, rows)
        except (ValueError, pa.ArrowException):
            at, said = first_wrong(rows, lambda row: _records(sink, row))
            where = self._topology.topic(sink)
            raise ConfigError(
                f"{sink.name} cannot write the record {place(rows, at)} to {where}: {said}. Nothing of this"
                " transaction is visible. Name the serialisation by key= and value=, or change the rows.",
                tag="SERDE",
            ) from None
        if sink.choose is None:
            written = [(self._topology.topic(sink), records)]
        else:
            topics = pa.array(sink.choose(rows), pa.string())
            written = [(topic, records.filter(pc.equal(topics, topic))) for topic in pc.unique(topics).to_pylist()]
        for topic, of_topic in written:
            self._bad.check_fits(topic, of_topic)
        return written


def _halves(rows: Any) -> tuple[Any, Any]:
    middle = rows.num_rows // 2
    return rows.slice(0, middle), rows.slice(middle)


def _records(sink: Sink, rows: Any) -> Any:
    if sink.pack is None:
        return to_records(rows, sink.key, sink.value, sink.window_keys)
    kept = rows.select([name for name in ("key", "timestamp", "headers") if name in rows.schema.names])
    return to_records(kept.append_column("value", sink.pack(rows)), sink.key, sink.value, sink.window_keys)
