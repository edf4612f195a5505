"""A table: the newest value of each key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from semel.errors import ConfigError
from semel.serdes.serde import Serde, check_serde
from semel.streams.dsl.refused import later
from semel.streams.dsl.suppressed import Suppressed
from semel.streams.nodes.folds import Entries
from semel.streams.nodes.stateful import value_reader
from semel.streams.nodes.suppress import Suppress, ValueForm
from semel.streams.nodes.table_values import mapping_table_values
from semel.streams.rows import Record
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.topology import Node, Operator, Topology
from semel.streams.windows.kind import WindowKind

if TYPE_CHECKING:
    from semel.streams.dsl.stream import Stream

__all__ = ["Table"]


@dataclass(frozen=True)
class Table:
    """The newest value of each key."""

    topology: Topology
    node: Node
    key: Serde
    value: Serde
    spec: StoreSpec
    read: Callable[[Entries], dict[str, Any]]
    windows: WindowKind | None = None
    #: Whether its values are not those of its store.
    derived: bool = False

    def to_stream(self) -> Stream:
        """Return its changes. Of windows, rows have the columns ``window_start`` and ``window_end``."""
        from semel.streams.dsl.stream import Stream

        name = self.topology.name("KTABLE-TOSTREAM-")
        stream = Stream(self.topology, self.topology.add(Node(name, (self.node,))), self.key, self.value)
        return replace(stream, window_keys=self.windows.keys, windowed=True) if self.windows else stream

    def filter(self, *_: object, **__: object) -> NoReturn:
        """Not there yet: raises :class:`Unsupported`."""
        raise later("filters of a table", "Use map_values() with a function that returns None, or to_stream().filter()")

    filter_not = filter

    def map_values(self, function: Callable[[Record], Any], *, value: Serde = "json") -> Table:
        """Apply a function of single records, which returns a new value. Deletions stay."""
        given = (self.key, self.value)
        return self._with_values(
            "KTABLE-MAPVALUES-", lambda name: mapping_table_values(function, name, given, value), value
        )

    def _with_values(self, prefix: str, operate: Callable[[str], Operator], value: Serde) -> Table:
        check_serde(value, prefix.strip("-"))
        name = self.topology.name(prefix)
        if "value" not in self.read([]):
            raise ConfigError(
                f"{name} works on values, and table {self.spec.name!r} has columns of its own. Nothing was read. Put"
                " to_stream() and map_batches() there.",
                tag="NO_COLUMN",
            )
        node = Node(name, (self.node,), operate(name), by_record=True, keeps_key=True, keeps_origin=True)
        self.topology.add(node)
        read = self.read if value == self.value else value_reader(value)
        return replace(self, node=node, value=value, read=read, derived=True)

    def suppress(self, suppressed: Suppressed, *, name: str | None = None) -> Table:
        """Let updates wait, and hand on the newest of each key. ``name`` names the store.

        Raises :class:`ConfigError` for ``until_window_closes`` of a table without windows.
        """
        topology = self.topology
        node = name or topology.name("KTABLE-SUPPRESS-")
        store = f"{name}-store" if name else topology.name("KTABLE-SUPPRESS-STATE-STORE-")
        if not isinstance(suppressed, Suppressed) or (suppressed.limit_ms is None and self.windows is None):
            raise ConfigError(
                f"{node} cannot wait for a window: its table has none. Nothing was read. Give"
                " Suppressed.until_time_limit(...), or put windowed() before the aggregation.",
                tag="TOPOLOGY",
            )
        windows = self.windows if suppressed.limit_ms is None else None
        if windows is None and self.windows is not None:
            raise later("a time limit for windows", "Use Suppressed.until_window_closes()")
        wait = windows.close_ms if windows is not None else suppressed.limit_ms or 0
        form = ValueForm(self.value, {column: array.type for column, array in self.read([]).items()})
        spec = StoreSpec(store, holds=f"updates that wait {wait} ms ({self.spec.holds})")
        operate = Suppress(node, spec, self.key, form, windows, wait, suppressed.max_records)
        return replace(self, node=topology.add(Node(node, (self.node,), operate, (spec,))), derived=True)

    def join(self, *_: object, **__: object) -> NoReturn:
        """Not there yet: raises :class:`Unsupported`."""
        raise later("joins of two tables", "Join a stream with a table")

    left_join = outer_join = join
