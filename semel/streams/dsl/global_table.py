"""A global table: each worker has all keys of a topic, so a stream of any key and any partitions can be joined."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError
from semel.serdes.serde import Serde, check_serde
from semel.streams.nodes.global_join import GlobalJoin
from semel.streams.nodes.stateful import value_reader
from semel.streams.nodes.tables.view import StoreView
from semel.streams.rows import Record
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.node import GlobalSource, Node
from semel.streams.topology.repartition import keep_null_keys
from semel.streams.topology.topology import Topology, check_topic

if TYPE_CHECKING:
    from semel.streams.dsl.stream import Stream

__all__ = ["GlobalTable", "global_table", "join_global"]


@dataclass(frozen=True)
class GlobalTable:
    """The newest value of each key of a topic. Streams are joined with it."""

    key: Serde
    value: Serde
    spec: StoreSpec


def global_table(topology: Topology, topic: str, key: Serde, value: Serde, name: str | None) -> GlobalTable:
    """Return the table of a topic, and add its nodes. ``name`` names the store."""
    check_topic(topic)
    check_serde(key, topic)
    check_serde(value, topic)
    store = name or topology.name(f"{topic}-STATE-STORE-")
    nodes = topology.name("KSTREAM-SOURCE-"), topology.name("KTABLE-SOURCE-")
    spec = StoreSpec(store, holds="the newest value by key")
    topology.add_global(GlobalSource(*nodes, topic, spec))
    return GlobalTable(key, value, spec)


def join_global(
    stream: Stream,
    table: GlobalTable,
    key_selector: Callable[[Record], Any] | None,
    joiner: Any,
    value: Serde,
    *,
    left: bool,
    named: str | None,
) -> Stream:
    """Join each record with the table's value for the key that ``key_selector`` returns."""
    topology = stream.topology
    there = any(one.spec is table.spec for one in topology.globals)
    if not callable(key_selector) or not callable(joiner) or not there:
        raise ConfigError(
            "a stream is joined with a global table of its application by a key_selector, a function of a record, and"
            " a joiner of two values. Nothing was read. Give both.",
            tag="TOPOLOGY",
        )
    check_serde(value, "join")
    name = topology.name("KSTREAM-LEFTJOIN-", named)  # an inner join, too, as in Kafka Streams
    view = StoreView(table.spec, table.key, value_reader(table.value))
    given = (stream.key, stream.value)
    join = GlobalJoin(name, view, key_selector, joiner, given, table.value, value, topology.dropped, left=left)
    node = Node(name, (stream.node,), join, by_record=True, keeps_key=True, keeps_origin=True)
    node.reads_global = table.spec
    topology.add(node)
    if left:
        keep_null_keys(topology, node)
    return replace(stream, node=node, value=value)
