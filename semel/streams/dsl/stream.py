"""Streams and tables, in Kafka Streams' words: each method adds a node and returns what comes out of it.

Keys and values are bytes unless ``key=`` and ``value=`` name a serialisation (:mod:`semel.serdes.serde`). A method
that changes the key marks the stream. An operation that needs equal keys together then uses a repartition topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.errors import ConfigError
from semel.serdes.serde import Serde, check_serde
from semel.streams.dsl.grouped import GroupedStream
from semel.streams.dsl.joins import Joiner, JoinKind, join_streams, join_table
from semel.streams.dsl.refused import later
from semel.streams.dsl.table import Table
from semel.streams.nodes import stateless
from semel.streams.processor.processor import Processing, Supplier
from semel.streams.processor.stores import StoreBuilder
from semel.streams.rows import Record
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.repartition import through_topic
from semel.streams.topology.topology import Node, Operator, Sink, Topology, check_topic
from semel.streams.windows.join_windows import JoinWindows
from semel.streams.windows.keys import BY_START, WindowKeys

__all__ = ["Stream"]

#: A function of single records, or an expression of ``pyarrow.compute``.
Condition = Callable[[Record], Any] | Any


@dataclass(frozen=True)
class Stream:
    """Records as they come. ``rekeyed`` says that equal keys may lie in different partitions."""

    topology: Topology
    node: Node
    key: Serde
    value: Serde
    rekeyed: bool = False
    #: Whether processors alone may have changed the key.
    processed: bool = False
    #: How windows are written in the keys of rows that have some.
    window_keys: WindowKeys = BY_START
    #: Whether its keys have windows.
    windowed: bool = False

    def _then(
        self,
        prefix: str,
        operate: Callable[[str], Operator],
        *,
        by_record: bool = False,
        keeps_origin: bool = True,
        **changes: Any,
    ) -> Stream:
        for name in ("key", "value"):
            check_serde(changes.get(name), prefix.strip("-"))
        name = self.topology.name(prefix)
        changes |= {"processed": False, "windowed": False} if "rekeyed" in changes else {}
        node = Node(name, (self.node,), operate(name), by_record=by_record, keeps_key="rekeyed" not in changes)
        node.keeps_origin = keeps_origin
        return replace(self, node=self.topology.add(node), **changes)

    def map_batches(
        self, function: Callable[[pa.RecordBatch], Any], *, key: Serde = None, value: Serde = None
    ) -> Stream:
        """Apply a function of Arrow batches, which returns a batch or a table with any columns. The fast way."""
        return self._then(
            "KSTREAM-MAPBATCHES-",
            lambda name: stateless.map_batch(function, name),
            keeps_origin=False,
            key=key,
            value=value,
            rekeyed=True,
        )

    def map(
        self, function: Callable[[Record], tuple[Any, Any]], *, key: Serde = "string", value: Serde = "json"
    ) -> Stream:
        """Apply a function of single records, which returns a new key and value."""
        given = (self.key, self.value)
        return self._then(
            "KSTREAM-MAP-",
            lambda name: stateless.mapping(function, name, given, (key, value)),
            by_record=True,
            key=key,
            value=value,
            rekeyed=True,
        )

    def map_values(self, function: Callable[[Record], Any], *, value: Serde = "json") -> Stream:
        """Apply a function of single records, which returns a new value. The key stays."""
        given = (self.key, self.value)
        return self._then(
            "KSTREAM-MAPVALUES-",
            lambda name: stateless.mapping_values(function, name, given, value),
            by_record=True,
            value=value,
        )

    def flat_map(self, function: Callable[[Record], Any], *, key: Serde = "string", value: Serde = "json") -> Stream:
        """Apply a function of single records, which returns any number of pairs of key and value."""
        given = (self.key, self.value)
        return self._then(
            "KSTREAM-FLATMAP-",
            lambda name: stateless.flat_mapping(function, name, given, (key, value)),
            by_record=True,
            key=key,
            value=value,
            rekeyed=True,
        )

    def flat_map_values(self, function: Callable[[Record], Any], *, value: Serde = "json") -> Stream:
        """Apply a function of single records, which returns any number of values. The key stays."""
        given = (self.key, self.value)
        return self._then(
            "KSTREAM-FLATMAPVALUES-",
            lambda name: stateless.flat_mapping_values(function, name, given, value),
            by_record=True,
            value=value,
        )

    def peek(self, function: Callable[[Record], Any]) -> Stream:
        """Call a function with each record, and hand the records on. It is called again for what is read again."""
        return self._peeked("KSTREAM-PEEK-", function)

    def foreach(self, function: Callable[[Record], Any]) -> None:
        """Call a function with each record. It is called again for what is read again."""
        self._peeked("KSTREAM-FOREACH-", function)

    def _peeked(self, prefix: str, function: Callable[[Record], Any]) -> Stream:
        given = (self.key, self.value)
        return self._then(prefix, lambda name: stateless.peeking(function, name, given), by_record=True)

    def to_table(self, name: str | None = None) -> Table:
        """Return a table with the newest record of each key. A record without a value deletes its key. ``name`` names
        the store.
        """
        topology = self.topology
        if self.windowed:
            raise later("to_table() of windows", "Write them to a topic, and read that as a table")
        node = topology.name("KSTREAM-TOTABLE-")
        store = name or topology.name("KSTREAM-TOTABLE-STATE-STORE-")
        stream = self._repartitioned(node) if self.rekeyed else self
        spec = StoreSpec(store, holds="the newest value by key")
        return Table.of_topic(topology, node, stream.node, self.key, self.value, spec)

    def filter(self, condition: Condition) -> Stream:
        """Keep what a function of single records, or an expression of ``pyarrow.compute``, says yes to."""
        return self._filtered(condition, negated=False)

    def filter_not(self, condition: Condition) -> Stream:
        """Drop what a function of single records, or an expression of ``pyarrow.compute``, says yes to."""
        return self._filtered(condition, negated=True)

    def _filtered(self, condition: Condition, *, negated: bool) -> Stream:
        return self._then(
            "KSTREAM-FILTER-",
            lambda name: stateless.filtering(condition, name, self.key, self.value, negated=negated),
            by_record=not isinstance(condition, pc.Expression),
        )

    def select_key(self, chooser: str | Callable[[Record], Any], *, key: Serde = "string") -> Stream:
        """Take another key: a column's, or what a function of single records returns."""
        given = (self.key, self.value)
        return self._then(
            "KSTREAM-KEY-SELECT-",
            lambda name: stateless.keyed_by(chooser, name, given, key),
            by_record=not isinstance(chooser, str),
            key=key,
            rekeyed=True,
        )

    def branch(self, *conditions: Condition) -> list[Stream]:
        """One stream for each condition, with the records that meet it and none of the earlier ones."""
        both = self._then(
            "KSTREAM-BRANCH-",
            lambda name: stateless.branching(conditions, name, self.key, self.value),
            by_record=not all(isinstance(one, pc.Expression) for one in conditions),
        )
        return [
            both._then("KSTREAM-BRANCHCHILD-", lambda _, number=number: stateless.branch_child(number))  # type: ignore[misc]
            for number in range(len(conditions))
        ]

    def merge(self, other: Stream) -> Stream:
        """Merge the records of both streams, in no promised order between them."""
        if (self.key, self.value) != (other.key, other.value):
            raise ConfigError(
                f"streams with key {self.key} and value {self.value}, and with key {other.key} and value {other.value},"
                " cannot be merged. Nothing was read. Bring both to the same by map.",
                tag="TOPOLOGY",
            )
        if self.window_keys != other.window_keys:
            raise ConfigError(
                "streams of two kinds of windows cannot be merged: their keys are written differently. Nothing was"
                " read. Write each to a topic of its own.",
                tag="TOPOLOGY",
            )
        name = self.topology.name("KSTREAM-MERGE-")
        node = self.topology.add(Node(name, (self.node, other.node)))
        processed = all(one.processed for one in (self, other) if one.rekeyed)
        return replace(self, node=node, rekeyed=self.rekeyed or other.rekeyed, processed=processed)

    def group_by(self, chooser: str | Callable[[Record], Any], *, key: Serde = "string") -> GroupedStream:
        """Group by a column, or by what a function of single records returns."""
        return GroupedStream(self.select_key(chooser, key=key))

    def group_by_key(self) -> GroupedStream:
        """Group by the key as it is."""
        return GroupedStream(self)

    def repartition(self, name: str | None = None, *, partitions: int | None = None) -> Stream:
        """Write the records to a topic of the application, by their keys, and read them from there."""
        return self._repartitioned(name or self.topology.name("KSTREAM-REPARTITION-"), partitions=partitions)

    def _repartitioned(self, prefix: str, **given: Any) -> Stream:
        node = through_topic(
            self.topology, self.node, (self.key, self.value), prefix, window_keys=self.window_keys, **given
        )
        return replace(self, node=node, rekeyed=False)

    def to(self, topic: str | Callable[[Record], str], *, key: Serde = None, value: Serde = None) -> None:
        """Write the records, to the topic that a function of single records names, if one is given. The topics must
        exist. Without a serialisation bytes and text are written as they are, other values as JSON.
        """
        chosen = topic if callable(topic) else None
        if chosen is None:
            check_topic(topic)
        check_serde(key, f"to({topic!r})")
        check_serde(value, f"to({topic!r})")
        name = self.topology.name("KSTREAM-SINK-")
        made = (key or self.key, value or self.value)
        sink = Sink(name, (self.node,), topic="" if callable(topic) else topic, key=made[0], value=made[1])
        if chosen is not None:
            sink.choose, sink.by_record = stateless.choosing(chosen, name, (self.key, self.value)), True
        sink.window_keys = self.window_keys
        self.topology.add(sink)

    def join(
        self,
        other: Stream | Table,
        joiner: Joiner = None,
        windows: JoinWindows | None = None,
        *,
        value: Serde = "json",
        name: str | None = None,
    ) -> Stream:
        """Join each record with the table's value for its key, or with the records of a stream in a window around it.
        Records without a partner are dropped.

        ``joiner`` gets both values. Without it, rows have the column ``table_value`` or ``other_value``, for
        ``map_batches``. ``name`` names the stores of a join of two streams.
        """
        return self._join(other, joiner, windows, value, name, JoinKind())

    def left_join(
        self,
        other: Stream | Table,
        joiner: Joiner = None,
        windows: JoinWindows | None = None,
        *,
        value: Serde = "json",
        name: str | None = None,
    ) -> Stream:
        """Join as :meth:`join` does, but keep records without a partner, with None in its place. With a stream, they
        are handed on once their window has closed.
        """
        return self._join(other, joiner, windows, value, name, JoinKind(left=True))

    def outer_join(
        self,
        other: Stream,
        joiner: Joiner = None,
        windows: JoinWindows | None = None,
        *,
        value: Serde = "json",
        name: str | None = None,
    ) -> Stream:
        """Join as :meth:`left_join` does, and keep records of the other stream without a partner, too."""
        return self._join(other, joiner, windows, value, name, JoinKind(left=True, right=True))

    def _join(
        self,
        other: Stream | Table,
        joiner: Joiner,
        windows: JoinWindows | None,
        value: Serde,
        name: str | None,
        kind: JoinKind,
    ) -> Stream:
        if isinstance(other, Table) and windows is None and not kind.right:
            return join_table(self, other, joiner, value, kind)
        if isinstance(other, Stream) and isinstance(windows, JoinWindows):
            return join_streams(self, other, joiner, windows, kind, value=value, name=name)
        raise ConfigError(
            "a stream is joined with a table, or with a stream and windows.join(...). Nothing was read. Give one of the"
            " two. There is no outer_join with a table.",
            tag="TOPOLOGY",
        )

    def process(
        self,
        supplier: Supplier,
        *,
        stores: Sequence[StoreBuilder] = (),
        key: Serde = "string",
        value: Serde = "json",
    ) -> Stream:
        """Apply a :class:`~semel.streams.Processor` in each task, which works on single records with its stores.

        ``supplier`` makes one, so a class will do. ``key`` and ``value`` belong to the forwarded records.
        """
        node = self._processing("KSTREAM-PROCESSOR-", supplier, stores, key, value, fixed_key=False)
        processed = self.processed or not self.rekeyed
        return replace(self, node=node, key=key, value=value, rekeyed=True, processed=processed, windowed=False)

    def process_values(
        self, supplier: Supplier, *, stores: Sequence[StoreBuilder] = (), value: Serde = "json"
    ) -> Stream:
        """Apply a processor as :meth:`process` does, which forwards values alone: ``context.forward_value(value)``. The
        keys stay, so no repartition topic is needed after it.
        """
        node = self._processing("KSTREAM-PROCESSVALUES-", supplier, stores, self.key, value, fixed_key=True)
        return replace(self, node=node, value=value)

    def _processing(
        self,
        prefix: str,
        supplier: Supplier,
        stores: Sequence[StoreBuilder],
        key: Serde,
        value: Serde,
        *,
        fixed_key: bool,
    ) -> Node:
        for one in stores:
            if not isinstance(one, StoreBuilder):
                raise ConfigError(
                    f"{one!r} is no store. Nothing was read. Give stores.key_value(...) or stores.window(...).",
                    tag="TOPOLOGY",
                )
        if stores and self.rekeyed and not self.processed:
            raise ConfigError(
                "a processor with stores needs equal keys in one partition, and the key has changed. Nothing was read."
                " Put repartition() before process().",
                tag="TOPOLOGY",
            )
        check_serde(key, "process")
        check_serde(value, "process")
        name = self.topology.name(prefix)
        given = (self.key, self.value)
        node = Node(name, (self.node,), stores=tuple(one.spec for one in stores), by_record=True)
        dropped = self.topology.dropped
        node.supply = lambda: Processing(name, supplier, stores, given, (key, value), dropped, fixed_key=fixed_key)
        node.builders = tuple(stores)
        self.topology.add(node)
        return node
