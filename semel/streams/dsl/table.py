"""A table: the newest value of each key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from semel.errors import ConfigError
from semel.serdes.serde import Serde, check_serde
from semel.streams.dsl.foreign_join import join_by_foreign_key
from semel.streams.dsl.grouped_table import GroupedTable, regrouped
from semel.streams.dsl.refused import later
from semel.streams.dsl.suppressed import Suppressed
from semel.streams.dsl.table_joins import join_tables
from semel.streams.nodes.folds import Entries
from semel.streams.nodes.stateful import TableSource, value_reader
from semel.streams.nodes.suppress import Suppress, ValueForm
from semel.streams.nodes.tables.foreign_join import ForeignKeyExtractor
from semel.streams.nodes.tables.join import TableJoiner
from semel.streams.nodes.tables.old_values import OldValues
from semel.streams.nodes.tables.values import (
    TableValues,
    dropping_old_values,
    filtering_table_values,
    mapping_table_values,
)
from semel.streams.nodes.tables.view import DerivedView, StoreView, View
from semel.streams.nodes.versioned import VersionedTableSource, VersionedView
from semel.streams.rows import Record
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.node import Node, Operator
from semel.streams.topology.topology import Topology
from semel.streams.windows.kind import WindowKind

if TYPE_CHECKING:
    from semel.streams.dsl.stream import Stream

__all__ = ["Table"]

#: A function of single records, or an expression of ``pyarrow.compute``.
Condition = Callable[[Record], Any] | Any


@dataclass(frozen=True)
class Table:
    """The newest value of each key."""

    topology: Topology
    node: Node
    key: Serde
    value: Serde
    #: The store of its values, or of those that they are made of.
    spec: StoreSpec
    read: Callable[[Entries], dict[str, Any]]
    #: What it has for a key. None after suppress.
    view: View | None
    old: OldValues
    windows: WindowKind | None = None
    versioned: bool = False

    @classmethod
    def of_topic(cls, topology: Topology, name: str, before: Node, key: Serde, value: Serde, spec: StoreSpec) -> Table:
        """Return the table of the newest rows of a node, and add its node ``name``."""
        old, read = OldValues(), value_reader(value)
        operate = TableSource(name, spec, key, value, topology.dropped, topology.caching, old)
        node = topology.add(Node(name, (before,), operate, (spec,), keeps_key=True, keeps_origin=True))
        return cls(topology, node, key, value, spec, read, StoreView(spec, key, read), old)

    @classmethod
    def of_versions(
        cls, topology: Topology, name: str, before: Node, key: Serde, value: Serde, spec: StoreSpec
    ) -> Table:
        """Return the table of the versions of a node's rows, and add its node ``name``."""
        operate = VersionedTableSource(name, spec, key, value, topology.dropped)
        node = topology.add(Node(name, (before,), operate, (spec,), keeps_key=True, keeps_origin=True))
        view = VersionedView(spec, key, value)
        return cls(topology, node, key, value, spec, value_reader(value), view, OldValues(), versioned=True)

    def to_stream(self, *, named: str | None = None) -> Stream:
        """Return its changes. Of windows, rows have the columns ``window_start`` and ``window_end``."""
        from semel.streams.dsl.stream import Stream

        name = self.topology.name("KTABLE-TOSTREAM-", named)
        node = Node(name, (self.node,), dropping_old_values, keeps_key=True, keeps_origin=True)
        stream = Stream(self.topology, self.topology.add(node), self.key, self.value)
        return replace(stream, window_keys=self.windows.keys, windowed=True) if self.windows else stream

    def filter(self, condition: Condition, *, named: str | None = None) -> Table:
        """Keep the keys whose value meets a function of single records, or an expression of ``pyarrow.compute``. The
        others are deleted from the table.
        """
        return self._filtered(condition, named, negated=False)

    def filter_not(self, condition: Condition, *, named: str | None = None) -> Table:
        """Delete the keys whose value meets a function of single records, or an expression of ``pyarrow.compute``."""
        return self._filtered(condition, named, negated=True)

    def _filtered(self, condition: Condition, named: str | None, *, negated: bool) -> Table:
        self.readable("filters")
        given = (self.key, self.value)
        made = self._with_values(
            "KTABLE-FILTER-",
            lambda name: filtering_table_values(condition, name, given, negated=negated),
            self.value,
            named,
            skips=True,
            by_record=not isinstance(condition, pc.Expression),
        )
        made.old.ask()
        return made

    def map_values(
        self, function: Callable[[Record], Any], *, value: Serde = "json", named: str | None = None
    ) -> Table:
        """Apply a function of single records, which returns a new value. Deletions stay."""
        given = (self.key, self.value)
        return self._with_values(
            "KTABLE-MAPVALUES-", lambda name: mapping_table_values(function, name, given, value), value, named
        )

    def _with_values(
        self,
        prefix: str,
        operate: Callable[[str], Operator],
        value: Serde,
        named: str | None,
        *,
        skips: bool = False,
        by_record: bool = True,
    ) -> Table:
        check_serde(value, prefix.strip("-"))
        self._has_no_versions("map_values")
        name = self.topology.name(prefix, named)
        self.has_values(name)
        of_values, old = operate(name), OldValues(self.old)
        node = Node(name, (self.node,), TableValues(of_values, old, skips), keeps_key=True, keeps_origin=True)
        node.by_record = by_record
        read = self.read if value == self.value else value_reader(value)
        view = None if self.view is None else DerivedView(self.view, of_values)
        return replace(self, node=self.topology.add(node), value=value, read=read, view=view, old=old)

    def has_values(self, name: str) -> None:
        """Raise :class:`ConfigError` for a table of columns, which the node ``name`` cannot work on."""
        if "value" not in self.read([]):
            raise ConfigError(
                f"{name} works on values, and table {self.spec.name!r} has columns of its own. Nothing was read. Put"
                " to_stream() and map_batches() there.",
                tag="NO_COLUMN",
            )

    def readable(self, what: str) -> View:
        """Return its view. Raise :class:`Unsupported` where it has none, and for a table with versions."""
        self._has_no_versions(what)
        if self.view is None:
            raise later(f"{what} of a table after suppress", "Put to_stream().to_table() there")
        return self.view

    def _has_no_versions(self, what: str) -> None:
        if self.versioned:
            raise later(f"{what} of a table with versions", "Put to_stream() there, or leave out history_retention")

    def group_by(
        self, function: Callable[[Record], tuple[Any, Any]], *, key: Serde = "string", value: Serde = "json"
    ) -> GroupedTable:
        """Group by another key: a function of single records returns a key and a value. An update takes what the old
        value gave out of its group, and puts what the new one gives in.
        """
        return regrouped(self, function, key, value)

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> Table:
        """Let updates wait, and hand on the newest of each key. ``name`` names the store.

        Raises :class:`ConfigError` for ``until_window_closes`` of a table without windows.
        """
        self._has_no_versions("suppress")
        topology = self.topology
        node = name or topology.name("KTABLE-SUPPRESS-")
        store = f"{name}-store" if name else topology.name("KTABLE-SUPPRESS-STATE-STORE-")
        if not isinstance(suppressed, Suppressed) or (suppressed.limit_ms is None and self.windows is None):
            raise ConfigError(
                f"{node} cannot wait for a window: its table has none. Nothing was read. Give"
                " Suppressed.until_time_limit(...), or put windowed() before the aggregation.",
                tag="TOPOLOGY",
            )
        until_close = suppressed.limit_ms is None
        wait = self.windows.close_ms if until_close and self.windows else suppressed.limit_ms or 0
        form = ValueForm(self.value, {column: array.type for column, array in self.read([]).items()})
        spec = StoreSpec(store, holds=f"updates that wait {wait} ms ({self.spec.holds})")
        operate = Suppress(node, spec, self.key, form, self.windows, until_close, wait, suppressed.max_records)
        node_after = topology.add(Node(node, (self.node,), operate, (spec,)))
        return replace(self, node=node_after, view=None, old=OldValues())

    def join(
        self,
        other: Table,
        joiner: TableJoiner,
        *,
        foreign_key_extractor: ForeignKeyExtractor | None = None,
        value: Serde = "json",
        name: str | None = None,
        named: str | None = None,
    ) -> Table:
        """Join the values of keys that both tables have. ``joiner`` gets both values.

        With ``foreign_key_extractor``, a function of a record that returns a key of the other table, each of this
        table's values is joined with the other's of that key. ``name`` names the store of the result then, and
        ``named`` its nodes, topics and the other store.
        """
        return self._join(other, joiner, foreign_key_extractor, value, (name, named), left=False)

    def left_join(
        self,
        other: Table,
        joiner: TableJoiner,
        *,
        foreign_key_extractor: ForeignKeyExtractor | None = None,
        value: Serde = "json",
        name: str | None = None,
        named: str | None = None,
    ) -> Table:
        """Join as :meth:`join` does, but keep all of this table's keys: ``joiner`` gets None for what is missing."""
        return self._join(other, joiner, foreign_key_extractor, value, (name, named), left=True)

    def _join(
        self,
        other: Table,
        joiner: TableJoiner,
        extractor: ForeignKeyExtractor | None,
        value: Serde,
        names: tuple[str | None, str | None],
        *,
        left: bool,
    ) -> Table:
        if extractor is not None:
            name, named = names
            return join_by_foreign_key(self, other, extractor, joiner, value, left=left, name=name, named=named)
        if any(names):
            raise later("a name for a join of tables by their keys", "Leave it out")
        return join_tables(self, other, joiner, value, left=left, right=False)

    def outer_join(self, other: Table, joiner: TableJoiner, *, value: Serde = "json") -> Table:
        """Join the values of keys that one of the tables has. ``joiner`` gets both values, or None for one of them."""
        return join_tables(self, other, joiner, value, left=True, right=True)
