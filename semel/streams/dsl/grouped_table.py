"""Groups of a table's values, to be aggregated: each update takes its old value out, and puts its new one in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from semel.serdes.serde import Serde, check_serde
from semel.streams.dsl.refused import later
from semel.streams.nodes.tables.aggregate import ByFunctions, Counted, TableAggregate, TableFold
from semel.streams.nodes.tables.old_values import OldValues
from semel.streams.nodes.tables.regroup import packing_changes, regrouping, unpacking_changes
from semel.streams.nodes.tables.view import StoreView
from semel.streams.rows import Record
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.node import Node, Sink, Source
from semel.streams.topology.topology import Topology

if TYPE_CHECKING:
    from semel.streams.dsl.table import Table

__all__ = ["GroupedTable", "regrouped"]


@dataclass(frozen=True)
class GroupedTable:
    """A table's values under other keys, to be aggregated."""

    topology: Topology
    node: Node
    key: Serde
    value: Serde

    def count(self, name: str | None = None) -> Table:
        """Count the keys of each group."""
        return self._folded(name, "AGGREGATE", lambda _: Counted(), None)

    def reduce(
        self, adder: Callable[[Any, Any], Any], subtractor: Callable[[Any, Any], Any], name: str | None = None
    ) -> Table:
        """Call ``adder(aggregate, value)`` for what comes into a group, and ``subtractor(aggregate, value)`` for what
        leaves it. The first value is the first aggregate.
        """
        given = (self.key, self.value)
        return self._folded(
            name, "REDUCE", lambda node: ByFunctions(node, (adder, subtractor), None, given, self.value), self.value
        )

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
        *,
        name: str | None = None,
        value: Serde = "json",
    ) -> Table:
        """Call ``adder(key, value, aggregate)`` for what comes into a group, and ``subtractor(key, value, aggregate)``
        for what leaves it.
        """
        check_serde(value, "aggregate")
        given = (self.key, self.value)
        return self._folded(
            name, "AGGREGATE", lambda node: ByFunctions(node, (adder, subtractor), initializer, given, value), value
        )

    def _folded(self, store: str | None, kind: str, fold: Callable[[str], TableFold], value: Serde) -> Table:
        from semel.streams.dsl.table import Table

        topology = self.topology
        named = store or topology.name(f"KTABLE-{kind}-STATE-STORE-")
        sink, source = topology.name("KSTREAM-SINK-"), topology.name("KSTREAM-SOURCE-")
        name = topology.name(f"KTABLE-{kind}-")
        topic = f"{named}-repartition"
        packed = packing_changes(self.value)
        topology.add(Sink(sink, (self.node,), topic=topic, key=self.key, internal=True, pack=packed))
        unpacked = unpacking_changes(self.value)
        read = topology.add(Source(source, topic=topic, key=self.key, internal=True, unpack=unpacked))
        folding, old = fold(name), OldValues()
        spec = StoreSpec(named, holds=f"{folding.holds} by key ({self.key or 'bytes'})")
        operate = TableAggregate(name, spec, folding, self.key, topology.caching, old)
        node = topology.add(Node(name, (read,), operate, (spec,), by_record=True))
        view = StoreView(spec, self.key, folding.columns)
        return Table(topology, node, self.key, value, spec, folding.columns, view, old)


def regrouped(table: Table, function: Callable[[Record], tuple[Any, Any]], key: Serde, value: Serde) -> GroupedTable:
    """Return the values of a table under other keys."""
    for serde in (key, value):
        check_serde(serde, "group_by")
    table.readable("group_by")
    if table.windows is not None:
        raise later("group_by of a table of windows", "Use to_stream().group_by()")
    topology = table.topology
    name = topology.name("KTABLE-SELECT-")
    table.has_values(name)
    table.old.ask()
    operate = regrouping(function, name, (table.key, table.value), (key, value))
    node = Node(name, (table.node,), operate, by_record=True, keeps_origin=True)
    return GroupedTable(topology, topology.add(node), key, value)
