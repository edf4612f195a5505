"""Streams and tables, in Kafka Streams' words: each method adds a node and returns what comes out of it.

Keys and values are bytes unless ``key=`` and ``value=`` name a serialisation (:mod:`semel.serdes.serde`). A method
that changes the key marks the stream. An operation that needs equal keys together then uses a repartition topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from semel.errors import ConfigError, Unsupported
from semel.serdes.serde import Serde, check_serde
from semel.streams.nodes import stateless
from semel.streams.nodes.folds import Columns, Count, Entries, Fold, Python
from semel.streams.nodes.stateful import Aggregate, Join
from semel.streams.processor.processor import Processing, Supplier
from semel.streams.processor.stores import StoreBuilder
from semel.streams.rows import Record
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.repartition import joined_through, through_topic
from semel.streams.topology.topology import Node, Operator, Sink, Topology, check_topic
from semel.streams.windows.keys import BY_START, WindowKeys
from semel.streams.windows.kind import Windows

__all__ = ["GroupedStream", "Stream", "Table", "WindowedStream"]

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
        changes |= {"processed": False} if "rekeyed" in changes else {}
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

    def to(self, topic: str, *, key: Serde = None, value: Serde = None) -> None:
        """Write the records. Without a serialisation bytes and text are written as they are, other values as JSON."""
        if callable(topic):
            raise _later("to() with a function that chooses the topic", "Use branch(), and to() with a topic for each")
        check_topic(topic)
        check_serde(key, f"to({topic!r})")
        check_serde(value, f"to({topic!r})")
        name = self.topology.name("KSTREAM-SINK-")
        sink = Sink(name, (self.node,), topic=topic, key=key or self.key, value=value or self.value)
        sink.window_keys = self.window_keys
        self.topology.add(sink)

    def join(
        self, table: Table, joiner: Callable[[Any, Any], Any] | None = None, *windows: object, value: Serde = "json"
    ) -> Stream:
        """Join each record with the table's value for its key. Records without a partner are dropped.

        ``joiner`` gets both values. Without it, rows have the column ``table_value``, for ``map_batches``. Raises
        :class:`Unsupported` for another stream, and for ``windows``.
        """
        return self._join(table, joiner, windows, value, "KSTREAM-JOIN-", outer=False)

    def left_join(
        self, table: Table, joiner: Callable[[Any, Any], Any] | None = None, *windows: object, value: Serde = "json"
    ) -> Stream:
        """Join as :meth:`join` does, but keep records without a partner, with None in its place."""
        return self._join(table, joiner, windows, value, "KSTREAM-LEFTJOIN-", outer=True)

    def outer_join(self, *_: object, **__: object) -> NoReturn:
        """Not there yet: raises :class:`Unsupported`."""
        raise _later("joins of two streams", "Join with a table")

    def _join(self, table: Any, joiner: Any, windows: Any, value: Serde, prefix: str, *, outer: bool) -> Stream:
        if windows or not isinstance(table, Table):
            raise _later("joins of two streams", "Join with a table")
        if table.windows is not None:
            raise _later("joins with a table of windows", "Write it to a topic, and read that as a table")
        serdes = (self.key, self.value)
        before = self.node
        if self.rekeyed:
            before = joined_through(self.topology, self.node, serdes, self.window_keys)
        name = self.topology.name(prefix)
        columns = list(table.read([]))
        if joiner is not None and "value" not in columns:
            raise ConfigError(
                f"{name} has a function of two values, and table {table.spec.name!r} has the columns"
                f" {', '.join(columns)}, and no value. Nothing was read. Leave out the function, and read"
                f" table_{columns[0]} and the others in map_batches.",
                tag="NO_COLUMN",
            )
        dropped = self.topology.dropped
        join = Join(name, table.spec, table.read, serdes, table.value, outer, joiner, value, dropped)
        node = Node(name, (before,), join, (table.spec,), by_record=joiner is not None, reads_only=True)
        node = self.topology.add(node)
        return replace(self, node=node, value=self.value if joiner is None else value, rekeyed=False)

    def suppress(self, *_: object) -> NoReturn:
        """Not there yet: raises :class:`Unsupported`."""
        raise _later("suppress", "Filter what is written by window_end")

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
        name = self.topology.name("KSTREAM-PROCESSOR-")
        given = (self.key, self.value)
        node = Node(name, (self.node,), stores=tuple(one.spec for one in stores), by_record=True)
        dropped = self.topology.dropped
        node.supply = lambda: Processing(name, supplier, stores, given, (key, value), dropped)
        node.builders = tuple(stores)
        processed = self.processed or not self.rekeyed
        return replace(self, node=self.topology.add(node), key=key, value=value, rekeyed=True, processed=processed)


@dataclass(frozen=True)
class GroupedStream:
    """Records by key, to be aggregated."""

    stream: Stream
    windows: Windows | None = None

    def windowed(self, windows: Windows) -> WindowedStream:
        """Group by windows of time, too."""
        if not isinstance(windows, Windows):
            raise ConfigError(
                f"{windows!r} is no windows. Nothing was read. Give windows.tumbling(...) or windows.hopping(...).",
                tag="WRONG_VALUE",
            )
        return WindowedStream(self.stream, windows)

    def count(self, name: str | None = None) -> Table:
        """Count the records of each group."""
        return self._folded(name, "AGGREGATE", lambda _: Count(), None)

    def aggregate(
        self,
        initializer: Callable[[], Any] | None = None,
        aggregator: Callable[[Any, Any, Any], Any] | None = None,
        *,
        name: str | None = None,
        value: Serde = "json",
        **columns: tuple[str, str],
    ) -> Table:
        """``aggregate(total=("sum", "amount"))`` works on whole batches: sum, min, max and count of columns of numbers.

        ``aggregate(initializer, aggregator)`` calls ``aggregator(key, value, aggregate)`` for each record.
        """
        if columns and initializer is None and aggregator is None:
            return self._folded(name, "AGGREGATE", lambda _: Columns(columns), None)
        if columns or initializer is None or aggregator is None:
            raise ConfigError(
                "aggregate takes an initializer and an aggregator, or columns. Nothing was read. Give"
                ' aggregate(dict, function) or aggregate(total=("sum", "amount")).',
                tag="TOPOLOGY",
            )
        return self._by_record(name, "AGGREGATE", aggregator, initializer, value)

    def reduce(self, reducer: Callable[[Any, Any], Any], name: str | None = None) -> Table:
        """Call ``reducer(aggregate, value)`` for each record; the first value is the first aggregate."""
        return self._by_record(name, "REDUCE", reducer, None, self.stream.value)

    def _by_record(self, name: str | None, kind: str, function: Any, initial: Any, made: Serde) -> Table:
        check_serde(made, kind.lower())
        given = (self.stream.key, self.stream.value)
        return self._folded(name, kind, lambda node: Python(node, function, initial, given, made), made)

    def _folded(self, store: str | None, kind: str, fold: Callable[[str], Fold], value: Serde) -> Table:
        topology = self.stream.topology
        named = store or topology.name(f"KSTREAM-{kind}-STATE-STORE-")
        name = topology.name(f"KSTREAM-{kind}-")
        folding = fold(name)
        stream = self.stream
        if stream.rekeyed:
            stream = stream._repartitioned(named, numbers=None if isinstance(folding, Python) else folding.needs)
        holds = f"{folding.holds} by key ({stream.key or 'bytes'})"
        if self.windows:
            spec = StoreSpec(
                named, self.windows.retention_ms, f"{holds} and {self.windows.in_words}", self.windows.keys
            )
        else:
            spec = StoreSpec(named, holds=holds)
        operate = Aggregate(name, spec, folding, stream.key, self.windows, topology.dropped, topology.caching)
        by_record = isinstance(folding, Python)
        node = topology.add(Node(name, (stream.node,), operate, (spec,), by_record=by_record))
        return Table(topology, node, stream.key, value, spec, folding.columns, self.windows)


class WindowedStream(GroupedStream):
    """Records by key and window, to be aggregated."""


@dataclass(frozen=True)
class Table:
    """The newest value of each key."""

    topology: Topology
    node: Node
    key: Serde
    value: Serde
    spec: StoreSpec
    read: Callable[[Entries], dict[str, Any]]
    windows: Windows | None = None

    def to_stream(self) -> Stream:
        """Its changes. Of windows, rows have the columns ``window_start`` and ``window_end``."""
        name = self.topology.name("KTABLE-TOSTREAM-")
        stream = Stream(self.topology, self.topology.add(Node(name, (self.node,))), self.key, self.value)
        return replace(stream, window_keys=self.windows.keys) if self.windows else stream

    def suppress(self, *_: object) -> NoReturn:
        """Not there yet: raises :class:`Unsupported`."""
        raise _later("suppress", "Filter what is written by window_end")

    def join(self, *_: object, **__: object) -> NoReturn:
        """Not there yet: raises :class:`Unsupported`."""
        raise _later("joins of two tables", "Join a stream with a table")

    left_join = outer_join = join


def _later(what: str, instead: str) -> Unsupported:
    return Unsupported(f"{what}: not there yet. Nothing was read. {instead}.", tag="NOT_YET")
