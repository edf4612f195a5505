"""Groups of several streams, aggregated into one table: Kafka Streams' ``cogroup``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError
from semel.serdes.serde import Serde, check_serde
from semel.streams.dsl.aggregated import aggregated, check_merger, check_windows
from semel.streams.dsl.table import Table
from semel.streams.nodes.cogroup import CogroupFold, in_group
from semel.streams.nodes.stream_time import GroupTimes
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.node import Node
from semel.streams.topology.topology import check_name
from semel.streams.windows.kind import WindowKind, WindowsOfKey

if TYPE_CHECKING:
    from semel.streams.dsl.grouped import GroupedStream

__all__ = ["Aggregator", "CogroupedStream"]

#: A function of the key, a record's value and the aggregate.
Aggregator = Callable[[Any, Any, Any], Any]


@dataclass(frozen=True)
class CogroupedStream:
    """Groups of streams with one kind of key, each with the function that adds its records to the aggregate."""

    groups: tuple[tuple[GroupedStream, Aggregator], ...] = ()
    windows: WindowKind | None = None

    def cogroup(self, grouped: GroupedStream, aggregator: Aggregator) -> CogroupedStream:
        """Take in the groups of another stream. ``aggregator(key, value, aggregate)`` is called for its records."""
        from semel.streams.dsl.grouped import GroupedStream

        if type(grouped) is not GroupedStream or not callable(aggregator) or self.windows is not None:
            raise ConfigError(
                "cogroup takes groups of a stream and a function of key, value and aggregate. Nothing was read. Give"
                " group_by(...) or group_by_key() of it, and put windowed() after the last cogroup().",
                tag="TOPOLOGY",
            )
        for other, _ in self.groups:
            if other.stream.topology is not grouped.stream.topology or other.stream.key != grouped.stream.key:
                raise ConfigError(
                    f"cogroup of keys that are {other.stream.key} and {grouped.stream.key}, or of two applications:"
                    " equal keys would not meet. Nothing was read. Name one serialisation of keys for all streams.",
                    tag="TOPOLOGY",
                )
        there = [one for one in self.groups if one[0] is not grouped]
        return replace(self, groups=(*there, (grouped, aggregator)))

    def windowed(self, windows: WindowKind) -> CogroupedStream:
        """Group by windows of time, too."""
        check_windows(windows)
        return replace(self, windows=windows)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        *,
        merger: Callable[[Any, Any, Any], Any] | None = None,
        name: str | None = None,
        named: str | None = None,
        value: Serde = "json",
    ) -> Table:
        """Call each group's function for its records, on one aggregate for each key. ``initializer`` makes the first
        one. Sessions need ``merger(key, aggregate, aggregate)``, too.
        """
        check_serde(value, "aggregate")
        check_merger(self.windows, merger)
        if not callable(initializer):
            raise ConfigError(
                "aggregate() of a cogroup has no initializer. Nothing was read. Give a function that makes the first"
                " aggregate, such as dict.",
                tag="TOPOLOGY",
            )
        topology, key = self.groups[0][0].stream.topology, self.groups[0][0].stream.key
        store = name or topology.name("COGROUPKSTREAM-AGGREGATE-STATE-STORE-")
        parents = [grouped.together(store) for grouped, _ in self.groups]
        needs_value = self.windows is None or (isinstance(self.windows, WindowsOfKey) and self.windows.needs_value)
        tagged = []
        for number, ((grouped, _), parent) in enumerate(zip(self.groups, parents, strict=True)):
            own = topology.name("COGROUPKSTREAM-AGGREGATE-", _suffixed(named, f"-cogroup-agg-{number}"))
            operate = in_group(number, grouped.stream.value, own, topology.dropped, needs_value=needs_value)
            tagged.append(topology.add(Node(own, (parent,), operate, keeps_key=True, keeps_origin=True)))
        merged = topology.name("COGROUPKSTREAM-MERGE-", _suffixed(named, "-cogroup-merge"))
        functions = [(aggregator, grouped.stream.value) for grouped, aggregator in self.groups]
        fold = CogroupFold(merged, functions, initializer, (key, value), merger)
        group_times = None
        if self.windows is not None and len(tagged) > 1:
            group_times = GroupTimes(StoreSpec(f"{store}-stream-times", holds="the stream time of each group"))
        names = (store, merged)
        return aggregated(topology, tuple(tagged), names, fold, (key, value), self.windows, group_times=group_times)


def _suffixed(named: str | None, suffix: str) -> str | None:
    return None if named is None else f"{check_name(named)}{suffix}"
