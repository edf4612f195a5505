"""Joins of a stream: with a table, and with another stream in a window of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError
from semel.serdes.serde import Serde, check_serde
from semel.streams.dsl.refused import later
from semel.streams.dsl.table import Table
from semel.streams.nodes.stateful import Join
from semel.streams.nodes.stream_join import JoinSide, StreamJoin, of_side
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.node import Node
from semel.streams.topology.repartition import joined_through, keep_null_keys
from semel.streams.topology.topology import check_name
from semel.streams.windows.join_windows import JoinWindows
from semel.streams.windows.keys import BY_START
from semel.streams.windows.record_keys import RecordKeys

if TYPE_CHECKING:
    from semel.streams.dsl.stream import Stream

__all__ = ["JoinKind", "Joiner", "join_streams", "join_table"]

#: A function of two values, or None for both as columns.
Joiner = Callable[[Any, Any], Any] | None


@dataclass(frozen=True)
class JoinKind:
    """The sides whose records are handed on without a partner."""

    left: bool = False
    right: bool = False


def join_table(
    stream: Stream, table: Table, joiner: Joiner, value: Serde, kind: JoinKind, named: str | None = None
) -> Stream:
    """Join each record with the table's value for its key."""
    if table.windows is not None:
        raise later("joins with a table of windows", "Write it to a topic, and read that as a table")
    view = table.view if table.versioned and table.view else table.readable("joins")
    check_serde(value, "join")
    before = _together(stream, named)
    topology = stream.topology
    name = topology.name("KSTREAM-LEFTJOIN-" if kind.left else "KSTREAM-JOIN-", named)
    columns = list(table.read([]))
    if joiner is not None and "value" not in columns:
        raise ConfigError(
            f"{name} has a function of two values, and table {table.spec.name!r} has the columns"
            f" {', '.join(columns)}, and no value. Nothing was read. Leave out the function, and read"
            f" table_{columns[0]} and the others in map_batches.",
            tag="NO_COLUMN",
        )
    serdes = (stream.key, stream.value)
    join = Join(name, table.spec.name, view, serdes, table.value, kind.left, joiner, value, topology.dropped)
    node = Node(name, (before,), join, view.specs, by_record=joiner is not None, reads_only=True, keeps_origin=True)
    node = topology.add(node)
    if kind.left:
        keep_null_keys(topology, node)
    return replace(stream, node=node, value=stream.value if joiner is None else value, rekeyed=False)


def join_streams(
    left: Stream,
    right: Stream,
    joiner: Joiner,
    windows: JoinWindows,
    kind: JoinKind,
    *,
    value: Serde,
    name: str | None,
    named: str | None = None,
) -> Stream:
    """Join records of two streams that have one key and lie in a window. ``name`` names its stores, and ``named`` its
    nodes and repartition topics.
    """
    check_serde(value, "join")
    for one in (left, right):
        if one.windowed:
            raise ConfigError(
                "a stream with windows in its keys cannot be joined with another one. Nothing was read. Put"
                " select_key() or map() before the join.",
                tag="TOPOLOGY",
            )
    topology = left.topology
    of_name = (lambda suffix: None) if named is None else (lambda suffix: f"{check_name(named)}{suffix}")
    before = [_together(one, of_name(side)) for one, side in ((left, "-left"), (right, "-right"))]
    tagged = [topology.name("KSTREAM-WINDOWED-", of_name(f"-{side}-windowed")) for side in ("this", "other")]
    made = topology.name("KSTREAM-OUTERTHIS-" if kind.right else "KSTREAM-JOINTHIS-")
    other = topology.name("KSTREAM-OUTEROTHER-" if kind.left else "KSTREAM-JOINOTHER-")
    merged = topology.name("KSTREAM-MERGE-", of_name("-merge"))
    this_store = f"{name}{'-outer' if kind.right else ''}-this-join" if name else made
    other_store = f"{name}{'-outer' if kind.left else ''}-other-join" if name else other
    sides = [
        JoinSide(_store(store, windows, one), one.value, outer)
        for store, one, outer in ((this_store, left, kind.left), (other_store, right, kind.right))
    ]
    waiting = None
    if kind.left:
        suffix = "-outer-shared-join" if kind.right else "-left-shared-join"
        shared = f"{name}{suffix}" if name else f"KSTREAM-OUTERSHARED-{made.rpartition('-')[2]}"
        holds = f"records without a partner ({left.value or 'bytes'}, {right.value or 'bytes'}) in {windows.in_words}"
        waiting = StoreSpec(f"{shared}-store", holds=holds)
    ends = []
    nodes = (
        of_name("-outer-this-join" if kind.right else "-this-join") or made,
        of_name("-outer-other-join" if kind.left else "-other-join") or other,
    )
    for at, (one, side) in enumerate(zip((left, right), sides, strict=True)):
        tag = of_side(side, one.key, BY_START, left=at == 0)
        node = topology.add(Node(tagged[at], (before[at],), tag, keeps_key=True, keeps_origin=True))
        ends.append(topology.add(Node(nodes[at], (node,), keeps_key=True, keeps_origin=True)))
    operate = StreamJoin(merged, windows, sides[0], sides[1], waiting, left.key, joiner, value, topology.dropped)
    stores = tuple(one for one in (sides[0].spec, sides[1].spec, waiting) if one is not None)
    node = Node(merged, tuple(ends), operate, stores, by_record=joiner is not None)
    topology.add(node)
    if kind.left:
        keep_null_keys(topology, node)
    return replace(left, node=node, value=left.value if joiner is None else value, rekeyed=False)


def _store(name: str, windows: JoinWindows, stream: Stream) -> StoreSpec:
    holds = f"records ({stream.value or 'bytes'}) by key ({stream.key or 'bytes'}) in {windows.in_words}"
    return StoreSpec(f"{name}-store", windows.retention_ms, holds, RecordKeys(windows.retention_ms))


def _together(stream: Stream, named: str | None) -> Node:
    """Return the node after which equal keys of a stream are in one partition."""
    if not stream.rekeyed:
        return stream.node
    return joined_through(stream.topology, stream.node, (stream.key, stream.value), stream.window_keys, named)
