"""The table that an aggregation of streams comes to: its node, its store, and the checks of all aggregations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from semel.errors import ConfigError
from semel.serdes.serde import Serde
from semel.streams.dsl.table import Table
from semel.streams.nodes.folds import Fold
from semel.streams.nodes.keyed_windows import KeyedAggregate
from semel.streams.nodes.stateful import Aggregate
from semel.streams.nodes.stream_time import GroupTimes
from semel.streams.nodes.tables.old_values import OldValues
from semel.streams.nodes.tables.view import StoreView
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.node import Node, Operator
from semel.streams.topology.topology import Topology
from semel.streams.windows.kind import WindowKind, Windows, WindowsOfKey
from semel.streams.windows.session_windows import SessionWindows

__all__ = ["aggregated", "check_merger", "check_windows"]


def aggregated(
    topology: Topology,
    parents: tuple[Node, ...],
    names: tuple[str, str],
    fold: Fold,
    serdes: tuple[Serde, Serde],
    windows: WindowKind | None,
    *,
    on_close: bool = False,
    by_record: bool = True,
    group_times: GroupTimes | None = None,
) -> Table:
    """Return the table of a fold of rows, and add its node. ``names`` are those of the store and of the node, and
    ``serdes`` those of the keys and of the aggregates.
    """
    (store, name), (key, value) = names, serdes
    holds = f"{fold.holds} by key ({key or 'bytes'})"
    spec = StoreSpec(store, holds=holds)
    if windows:
        spec = StoreSpec(store, windows.retention_ms, f"{holds} and {windows.in_words}", windows.store_keys)
    old, dropped, caching = OldValues(), topology.dropped, topology.caching
    operate: Operator
    if isinstance(windows, WindowsOfKey):
        operate = KeyedAggregate(name, spec, fold, key, windows, dropped, caching, old, group_times, on_close)
    else:
        assert windows is None or isinstance(windows, Windows)
        operate = Aggregate(name, spec, fold, key, windows, dropped, caching, old, on_close, group_times)
    stores = (spec,) if group_times is None else (spec, group_times.spec)
    node = topology.add(Node(name, parents, operate, stores, by_record=by_record))
    view = StoreView(spec, key, fold.columns)
    return Table(topology, node, key, value, spec, fold.columns, view, old, windows)


def check_windows(windows: Any) -> None:
    """Raise :class:`ConfigError` for what is no kind of windows."""
    if not isinstance(windows, WindowKind):
        raise ConfigError(
            f"{windows!r} is no windows. Nothing was read. Give what a function of semel.streams.windows makes.",
            tag="WRONG_VALUE",
        )


def check_merger(windows: WindowKind | None, merger: Callable[[Any, Any, Any], Any] | None) -> None:
    """Raise :class:`ConfigError` for sessions without a function that merges two of them."""
    if isinstance(windows, SessionWindows) and merger is None:
        raise ConfigError(
            "sessions are merged, and aggregate() has no merger. Nothing was read. Give merger=function: it gets the"
            " key and two aggregates.",
            tag="TOPOLOGY",
        )
