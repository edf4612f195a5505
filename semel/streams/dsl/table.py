"""A table: the newest value of each key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from semel.errors import ConfigError
from semel.serdes.serde import Serde
from semel.streams.dsl.refused import later
from semel.streams.dsl.suppressed import Suppressed
from semel.streams.nodes.folds import Entries
from semel.streams.nodes.suppress import Suppress, ValueForm
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.topology import Node, Topology
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
    #: Whether its store is ahead of its updates.
    suppressed: bool = False

    def to_stream(self) -> Stream:
        """Return its changes. Of windows, rows have the columns ``window_start`` and ``window_end``."""
        from semel.streams.dsl.stream import Stream

        name = self.topology.name("KTABLE-TOSTREAM-")
        stream = Stream(self.topology, self.topology.add(Node(name, (self.node,))), self.key, self.value)
        return replace(stream, window_keys=self.windows.keys, windowed=True) if self.windows else stream

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
        return replace(self, node=topology.add(Node(node, (self.node,), operate, (spec,))), suppressed=True)

    def join(self, *_: object, **__: object) -> NoReturn:
        """Not there yet: raises :class:`Unsupported`."""
        raise later("joins of two tables", "Join a stream with a table")

    left_join = outer_join = join
