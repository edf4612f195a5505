"""A repartition topic in a topology: a sink that writes it, and the source that reads it."""

from __future__ import annotations

from semel.serdes.serde import Serde
from semel.streams.nodes import stateless
from semel.streams.nodes.packing import pack_nothing, packing, unpacking
from semel.streams.topology.node import Node, Sink, Source
from semel.streams.topology.topology import Topology
from semel.streams.windows.keys import WindowKeys

__all__ = ["joined_through", "keep_null_keys", "through_topic"]


def through_topic(
    topology: Topology,
    node: Node,
    given: tuple[Serde, Serde],
    prefix: str,
    *,
    window_keys: WindowKeys,
    partitions: int | None = None,
    numbers: tuple[str, ...] | None = None,
) -> Source:
    """Write the rows of a node to a topic of the application, and return the node that reads it. Rows without a key are
    dropped. Values are written as they are, or these columns of ``numbers`` alone.
    """
    names = _names(topology)
    keyed = topology.add(
        Node(names[1], (node,), stateless.requiring_key(names[1], topology.dropped), keeps_origin=True)
    )
    topic = f"{prefix}-repartition"
    return _through(topology, keyed, names, given, topic, window_keys, partitions, numbers)


def joined_through(
    topology: Topology, node: Node, given: tuple[Serde, Serde], window_keys: WindowKeys, named: str | None = None
) -> Source:
    """Return the node that reads the rows of a node from the topic for its joins: all of them use one topic unless it
    is ``named``, and rows without a key are in it.
    """
    names = _names(topology)  # later joins take names, too, as in Kafka Streams
    topic = f"{node.name if named is None else named}-repartition"
    there = (one for one in topology.nodes if isinstance(one, Source) and one.internal and one.topic == topic)
    found = next(there, None)
    if found is not None:
        return found
    keyed = topology.add(Node(names[1], (node,), stateless.having_key_column(names[1]), keeps_origin=True))
    return _through(topology, keyed, names, given, topic, window_keys)


def keep_null_keys(topology: Topology, node: Node) -> None:
    """Let the repartition topics before a left or outer join have rows without a key: the join hands them on."""
    seen: set[int] = set()
    before = [node]
    while before:
        one = before.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        before += one.parents
        if isinstance(one, Source) and one.internal:
            before += [sink for sink in topology.nodes if isinstance(sink, Sink) and sink.topic == one.topic]
        if isinstance(one, Sink) and one.drops_null_keys:
            (filtered,) = one.parents
            filtered.operate = stateless.having_key_column(filtered.name)


def _names(topology: Topology) -> tuple[str, str, str]:
    sink, keyed, source = (topology.name(f"KSTREAM-{kind}-") for kind in ("SINK", "FILTER", "SOURCE"))
    return sink, keyed, source


def _through(
    topology: Topology,
    node: Node,
    names: tuple[str, str, str],
    given: tuple[Serde, Serde],
    topic: str,
    window_keys: WindowKeys,
    partitions: int | None = None,
    numbers: tuple[str, ...] | None = None,
) -> Source:
    sink, _, source = names
    key, value = given
    pack = None if numbers is None else packing(numbers, sink) if numbers else pack_nothing
    topology.add(
        Sink(
            sink,
            (node,),
            topic=topic,
            key=key,
            value=value,
            internal=True,
            pack=pack,
            partitions=partitions,
            drops_null_keys=True,
            window_keys=window_keys,
        )
    )
    made: Source = topology.add(
        Source(
            source,
            topic=topic,
            key=key,
            value=value if numbers is None else None,
            internal=True,
            unpack=unpacking(numbers) if numbers else None,
        )
    )
    return made
