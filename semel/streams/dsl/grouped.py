"""Groups of a stream's records, to be aggregated: by key, and by window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError
from semel.serdes.serde import Serde, check_serde
from semel.streams.dsl.aggregated import aggregated, check_merger, check_windows
from semel.streams.dsl.cogrouped import Aggregator, CogroupedStream
from semel.streams.dsl.suppressed import EmitStrategy
from semel.streams.dsl.table import Table
from semel.streams.nodes.folds import Columns, Count, Fold
from semel.streams.nodes.function_fold import Python
from semel.streams.topology.node import Node
from semel.streams.windows.kind import WindowKind

if TYPE_CHECKING:
    from semel.streams.dsl.stream import Stream

__all__ = ["GroupedStream", "WindowedStream"]


@dataclass(frozen=True)
class GroupedStream:
    """Records by key, to be aggregated. ``name`` names their repartition topic, if one is needed."""

    stream: Stream
    name: str | None = None
    windows: WindowKind | None = None
    #: Whether windows are handed on once, when they have closed.
    on_close: bool = False

    def windowed(self, windows: WindowKind) -> WindowedStream:
        """Group by windows of time, too."""
        check_windows(windows)
        return WindowedStream(self.stream, self.name, windows)

    def cogroup(self, aggregator: Aggregator) -> CogroupedStream:
        """Begin an aggregation of several streams into one table. ``aggregator(key, value, aggregate)`` is called for
        the records of this one.
        """
        return CogroupedStream().cogroup(self, aggregator)

    def count(self, name: str | None = None, *, named: str | None = None) -> Table:
        """Count the records of each group. ``name`` names the store, and ``named`` the node."""
        return self._folded(name, "AGGREGATE", lambda _: Count(), None, named)

    def aggregate(
        self,
        initializer: Callable[[], Any] | None = None,
        aggregator: Callable[[Any, Any, Any], Any] | None = None,
        *,
        merger: Callable[[Any, Any, Any], Any] | None = None,
        name: str | None = None,
        named: str | None = None,
        value: Serde = "json",
        **columns: tuple[str, str],
    ) -> Table:
        """``aggregate(total=("sum", "amount"))`` works on whole batches: sum, min, max and count of columns of numbers.

        ``aggregate(initializer, aggregator)`` calls ``aggregator(key, value, aggregate)`` for each record. Sessions
        need ``merger(key, aggregate, aggregate)``, too.
        """
        if columns and initializer is None and aggregator is None:
            return self._folded(name, "AGGREGATE", lambda _: Columns(columns), None, named)
        if columns or initializer is None or aggregator is None:
            raise ConfigError(
                "aggregate takes an initializer and an aggregator, or columns. Nothing was read. Give"
                ' aggregate(dict, function) or aggregate(total=("sum", "amount")).',
                tag="TOPOLOGY",
            )
        check_merger(self.windows, merger)
        return self._by_record((name, named), "AGGREGATE", aggregator, initializer, value, merger)

    def reduce(self, reducer: Callable[[Any, Any], Any], name: str | None = None, *, named: str | None = None) -> Table:
        """Call ``reducer(aggregate, value)`` for each record; the first value is the first aggregate."""
        return self._by_record((name, named), "REDUCE", reducer, None, self.stream.value)

    def _by_record(
        self,
        names: tuple[str | None, str | None],
        kind: str,
        function: Any,
        initial: Any,
        made: Serde,
        merger: Any = None,
    ) -> Table:
        check_serde(made, kind.lower())
        given = (self.stream.key, self.stream.value)
        store, named = names
        return self._folded(store, kind, lambda node: Python(node, function, initial, given, made, merger), made, named)

    def _folded(
        self, store: str | None, kind: str, fold: Callable[[str], Fold], value: Serde, node_name: str | None
    ) -> Table:
        topology = self.stream.topology
        named = store or topology.name(f"KSTREAM-{kind}-STATE-STORE-")
        name = topology.name(f"KSTREAM-{kind}-", node_name)
        folding = fold(name)
        by_record = isinstance(folding, Python)
        before = self.together(named, None if by_record else folding.needs)
        return aggregated(
            topology,
            (before,),
            (named, name),
            folding,
            (self.stream.key, value),
            self.windows,
            on_close=self.on_close,
            by_record=by_record,
        )

    def together(self, store: str, numbers: tuple[str, ...] | None = None) -> Node:
        """Return the node after which equal keys are in one partition. A repartition topic has the name of the
        ``store`` unless it is named, and of values these columns of ``numbers`` alone.
        """
        if not self.stream.rekeyed:
            return self.stream.node
        return self.stream._repartitioned(self.name or store, numbers=numbers).node


class WindowedStream(GroupedStream):
    """Records by key and window, to be aggregated."""

    def emit_strategy(self, strategy: EmitStrategy) -> WindowedStream:
        """Choose whether a window's results are handed on with each update, or once, when it has closed."""
        on_close = EmitStrategy(strategy) is EmitStrategy.ON_WINDOW_CLOSE
        return replace(self, on_close=on_close)
