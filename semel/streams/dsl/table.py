"""A table: the newest value of each key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

from semel.serdes.serde import Serde
from semel.streams.dsl.refused import later
from semel.streams.nodes.folds import Entries
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

    def to_stream(self) -> Stream:
        """Return its changes. Of windows, rows have the columns ``window_start`` and ``window_end``."""
        from semel.streams.dsl.stream import Stream

        name = self.topology.name("KTABLE-TOSTREAM-")
        stream = Stream(self.topology, self.topology.add(Node(name, (self.node,))), self.key, self.value)
        return replace(stream, window_keys=self.windows.keys, windowed=True) if self.windows else stream

    def suppress(self, *_: object) -> NoReturn:
        """Not there yet: raises :class:`Unsupported`."""
        raise later("suppress", "Filter what is written by window_end")

    def join(self, *_: object, **__: object) -> NoReturn:
        """Not there yet: raises :class:`Unsupported`."""
        raise later("joins of two tables", "Join a stream with a table")

    left_join = outer_join = join
