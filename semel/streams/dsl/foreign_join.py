"""Foreign-key joins of tables: a function of a record chooses the key of the other table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from semel.errors import ConfigError
from semel.serdes.serde import Serde, check_serde
from semel.streams.dsl.refused import later
from semel.streams.nodes.tables.foreign_join import (
    Answers,
    ForeignKeyExtractor,
    ForeignUpdates,
    Receive,
    Resolve,
    Subscribe,
)
from semel.streams.nodes.tables.join import TableJoiner
from semel.streams.state.state_store import StoreSpec
from semel.streams.topology.node import Node, Sink, Source
from semel.streams.topology.topology import check_name

if TYPE_CHECKING:
    from semel.streams.dsl.table import Table

__all__ = ["join_by_foreign_key"]

_FK = "KTABLE-FK-JOIN-"


def join_by_foreign_key(
    this: Table,
    other: Table,
    extractor: ForeignKeyExtractor,
    joiner: TableJoiner,
    value: Serde,
    *,
    left: bool,
    name: str | None,
    named: str | None,
) -> Table:
    """Return the table of what ``joiner`` makes of this table's values and the other's of the key that ``extractor``
    returns. ``name`` names the store of the result, and ``named`` nodes, topics and the other store.
    """
    _check(this, other, extractor, joiner)
    check_serde(value, "join")
    topology, dropped = this.topology, this.topology.dropped

    def named_as(prefix: str, suffix: str) -> str:
        return topology.name(prefix, None if named is None else f"{check_name(named)}{suffix}")

    registration = named_as(f"{_FK}SUBSCRIPTION-REGISTRATION-", "-subscription-registration")
    send = named_as(f"{_FK}SUBSCRIPTION-REGISTRATION-", "-subscription-registration-processor")
    sink, source = (named_as(f"KTABLE-{one}-", f"-subscription-registration-{one.lower()}") for one in _ENDS)
    store = named_as(f"{_FK}SUBSCRIPTION-STATE-STORE-", "-subscription-store")
    receive, answer, foreign = (
        named_as(f"{_FK}SUBSCRIPTION-PROCESSOR-", suffix)
        for suffix in ("-subscription-receive", "-subscription-join-foreign", "-foreign-join-subscription")
    )
    response = named_as(f"{_FK}SUBSCRIPTION-RESPONSE-", "-subscription-response")
    back_sink, back_source = (named_as(f"KTABLE-{one}-", f"-subscription-response-{one.lower()}") for one in _ENDS)
    resolve = named_as(f"{_FK}SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-", "-subscription-response-resolver")
    result = named_as(f"{_FK}OUTPUT-", "-result")
    result_store = name or topology.name(f"{_FK}OUTPUT-STATE-STORE-")
    views = this.readable("foreign-key joins"), other.readable("foreign-key joins")
    for table in (this, other):
        table.has_values(send)
        table.old.ask()

    subscribe = Subscribe(send, extractor, (this.key, this.value), other.key, dropped, left)
    sending = Node(send, (this.node,), by_record=True, keeps_origin=True)
    sending.of_partition = lambda partition: replace(subscribe, partition=partition)
    topology.add(sending)
    topology.add(Sink(sink, (sending,), topic=f"{registration}-topic", key="bytes", value="bytes", internal=True))
    subscriptions = topology.add(
        Source(source, topic=f"{registration}-topic", key="bytes", value="bytes", internal=True)
    )
    spec = StoreSpec(store, holds=f"subscriptions by foreign key ({other.key or 'bytes'}, {this.key or 'bytes'})")
    keeping = _keeping(receive, subscriptions, Receive(receive, spec, dropped), (spec,))
    topology.add(keeping)
    ways = [
        _keeping(answer, keeping, Answers(views[1], other.value), views[1].specs),
        _keeping(foreign, other.node, ForeignUpdates(spec, other.key, other.value), (spec,)),
    ]
    for way in ways:
        way.reads_only, way.keeps_key = True, False
        topology.add(way)
    topology.add(Sink(back_sink, tuple(ways), topic=f"{response}-topic", key="bytes", value="bytes", internal=True))
    responses = topology.add(Source(back_source, topic=f"{response}-topic", key=this.key, value="bytes", internal=True))
    serdes = (this.key, this.value, other.value, value)
    resolving = _keeping(resolve, responses, Resolve(resolve, views[0], joiner, serdes, dropped, left), views[0].specs)
    resolving.reads_only = True
    topology.add(resolving)
    kept = StoreSpec(result_store, holds="the newest value by key")
    return this.of_topic(topology, result, resolving, this.key, value, kept)


_ENDS = ("SINK", "SOURCE")


def _keeping(name: str, parent: Node, operate: Any, stores: tuple[StoreSpec, ...]) -> Node:
    return Node(name, (parent,), operate, stores, by_record=True, keeps_key=True, keeps_origin=True)


def _check(this: Table, other: Any, extractor: Any, joiner: Any) -> None:
    if not isinstance(other, type(this)) or not callable(extractor) or not callable(joiner):
        raise ConfigError(
            "a table is joined by a foreign key with another table, a joiner of two values and a"
            " foreign_key_extractor, a function of a record. Nothing was read. Give all of them.",
            tag="TOPOLOGY",
        )
    if this.windows is not None or other.windows is not None:
        raise later("joins with a table of windows", "Write it to a topic, and read that as a table")
