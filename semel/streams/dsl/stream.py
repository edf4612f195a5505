"""Streams and tables, in Kafka Streams' words: each method adds a node and returns what comes out of it.

Keys and values are bytes unless ``key=`` and ``value=`` name a serialisation (:mod:`semel.serdes.serde`). A method
that changes the key marks the stream. An operation that needs equal keys together then uses a repartition topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from semel.errors import ConfigError
from semel.serdes.serde import Serde, check_serde
from semel.streams.dsl.global_table import GlobalTable, join_global
from semel.streams.dsl.grouped import GroupedStream
from semel.streams.dsl.joins import Joiner, JoinKind, join_streams, join_table
from semel.streams.dsl.refused import later
from semel.streams.dsl.stateless_words import StatelessWords
from semel.streams.dsl.table import Table
from semel.streams.nodes import stateless
from semel.streams.processor.processor import Processing, Supplier
from semel.streams.processor.stores import StoreBuilder
from semel.streams.rows import Record
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.node import Node, Sink
from semel.streams.topology.repartition import through_topic
from semel.streams.topology.topology import check_topic
from semel.streams.windows.join_windows import JoinWindows

__all__ = ["Stream"]

#: A function of a record that returns a key of a global table.
KeySelector = Callable[[Record], Any] | None


@dataclass(frozen=True)
class Stream(StatelessWords):
    """Records as they come, with the words that need state, other streams or topics."""

    def to_table(self, name: str | None = None, *, named: str | None = None) -> Table:
        """Return a table with the newest record of each key. A record without a value deletes its key. ``name`` names
        the store.
        """
        topology = self.topology
        if self.windowed:
            raise later("to_table() of windows", "Write them to a topic, and read that as a table")
        node = topology.name("KSTREAM-TOTABLE-", named)
        store = name or topology.name("KSTREAM-TOTABLE-STATE-STORE-")
        stream = self._repartitioned(node) if self.rekeyed else self
        spec = StoreSpec(store, holds="the newest value by key")
        return Table.of_topic(topology, node, stream.node, self.key, self.value, spec)

    def group_by(
        self, chooser: str | Callable[[Record], Any], *, key: Serde = "string", name: str | None = None
    ) -> GroupedStream:
        """Group by a column, or by what a function of single records returns. ``name`` names the repartition topic."""
        return GroupedStream(self.select_key(chooser, key=key), name)

    def group_by_key(self, name: str | None = None) -> GroupedStream:
        """Group by the key as it is. ``name`` names the repartition topic, if one is needed."""
        return GroupedStream(self, name)

    def repartition(self, name: str | None = None, *, partitions: int | None = None) -> Stream:
        """Write the records to a topic of the application, by their keys, and read them from there."""
        return self._repartitioned(name or self.topology.name("KSTREAM-REPARTITION-"), partitions=partitions)

    def _repartitioned(self, prefix: str, **given: Any) -> Stream:
        node = through_topic(
            self.topology, self.node, (self.key, self.value), prefix, window_keys=self.window_keys, **given
        )
        return replace(self, node=node, rekeyed=False)

    def to(
        self,
        topic: str | Callable[[Record], str],
        *,
        key: Serde = None,
        value: Serde = None,
        named: str | None = None,
    ) -> None:
        """Write the records, to the topic that a function of single records names, if one is given. The topics must
        exist. Without a serialisation bytes and text are written as they are, other values as JSON.
        """
        chosen = topic if callable(topic) else None
        if chosen is None:
            check_topic(topic)
        check_serde(key, f"to({topic!r})")
        check_serde(value, f"to({topic!r})")
        name = self.topology.name("KSTREAM-SINK-", named)
        made = (key or self.key, value or self.value)
        sink = Sink(name, (self.node,), topic="" if callable(topic) else topic, key=made[0], value=made[1])
        if chosen is not None:
            sink.choose, sink.by_record = stateless.choosing(chosen, name, (self.key, self.value)), True
        sink.window_keys = self.window_keys
        self.topology.add(sink)

    def join(
        self,
        other: Stream | Table | GlobalTable,
        joiner: Joiner = None,
        windows: JoinWindows | None = None,
        *,
        key_selector: KeySelector = None,
        value: Serde = "json",
        name: str | None = None,
        named: str | None = None,
    ) -> Stream:
        """Join each record with the table's value for its key, or with the records of a stream in a window around it.
        Records without a partner are dropped.

        ``joiner`` gets both values. Without it, rows have the column ``table_value`` or ``other_value``, for
        ``map_batches``. ``name`` names the stores of a join of two streams, and ``named`` its nodes and repartition
        topics. With a global table, ``key_selector`` returns the table's key for a record.
        """
        if isinstance(other, GlobalTable):
            return join_global(self, other, key_selector, joiner, value, left=False, named=named)
        return self._join(other, joiner, windows, value, (name, named), JoinKind())

    def left_join(
        self,
        other: Stream | Table | GlobalTable,
        joiner: Joiner = None,
        windows: JoinWindows | None = None,
        *,
        key_selector: KeySelector = None,
        value: Serde = "json",
        name: str | None = None,
        named: str | None = None,
    ) -> Stream:
        """Join as :meth:`join` does, but keep records without a partner, with None in its place. With a stream, they
        are handed on once their window has closed.
        """
        if isinstance(other, GlobalTable):
            return join_global(self, other, key_selector, joiner, value, left=True, named=named)
        return self._join(other, joiner, windows, value, (name, named), JoinKind(left=True))

    def outer_join(
        self,
        other: Stream,
        joiner: Joiner = None,
        windows: JoinWindows | None = None,
        *,
        value: Serde = "json",
        name: str | None = None,
        named: str | None = None,
    ) -> Stream:
        """Join as :meth:`left_join` does, and keep records of the other stream without a partner, too."""
        return self._join(other, joiner, windows, value, (name, named), JoinKind(left=True, right=True))

    def _join(
        self,
        other: Stream | Table,
        joiner: Joiner,
        windows: JoinWindows | None,
        value: Serde,
        names: tuple[str | None, str | None],
        kind: JoinKind,
    ) -> Stream:
        if isinstance(other, Table) and windows is None and not kind.right:
            return join_table(self, other, joiner, value, kind, names[1])
        if isinstance(other, Stream) and isinstance(windows, JoinWindows):
            return join_streams(self, other, joiner, windows, kind, value=value, name=names[0], named=names[1])
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
        named: str | None = None,
    ) -> Stream:
        """Apply a :class:`~semel.streams.Processor` in each task, which works on single records with its stores.

        ``supplier`` makes one, so a class will do. ``key`` and ``value`` belong to the forwarded records.
        """
        node = self._processing("KSTREAM-PROCESSOR-", supplier, stores, key, value, named, fixed_key=False)
        processed = self.processed or not self.rekeyed
        return replace(self, node=node, key=key, value=value, rekeyed=True, processed=processed, windowed=False)

    def process_values(
        self,
        supplier: Supplier,
        *,
        stores: Sequence[StoreBuilder] = (),
        value: Serde = "json",
        named: str | None = None,
    ) -> Stream:
        """Apply a processor as :meth:`process` does, which forwards values alone: ``context.forward_value(value)``. The
        keys stay, so no repartition topic is needed after it.
        """
        node = self._processing("KSTREAM-PROCESSVALUES-", supplier, stores, self.key, value, named, fixed_key=True)
        return replace(self, node=node, value=value)

    def _processing(
        self,
        prefix: str,
        supplier: Supplier,
        stores: Sequence[StoreBuilder],
        key: Serde,
        value: Serde,
        named: str | None,
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
        name = self.topology.name(prefix, named)
        given = (self.key, self.value)
        node = Node(name, (self.node,), stores=tuple(one.spec for one in stores), by_record=True)
        dropped = self.topology.dropped
        node.supply = lambda: Processing(name, supplier, stores, given, (key, value), dropped, fixed_key=fixed_key)
        node.builders = tuple(stores)
        self.topology.add(node)
        return node
