"""Nodes at which rows must go one by one, so that a batch gives what its records give one after the other.

Rows travel as batches, and a node works on all rows of one before its children do. That cannot be seen unless two
nodes touch the same thing: a store that one of them writes, a topic, or a node that both lead to. Rows are kept apart
there, and everywhere else they stay together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from semel.streams.topology.topology import Node, Sink, Source

__all__ = ["RecordOrder"]


@dataclass(frozen=True)
class _Touched:
    """Nodes, topics and stores that the rows of a node come to, it included."""

    reached: frozenset[object] = frozenset()
    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()

    def __or__(self, other: _Touched) -> _Touched:
        return _Touched(self.reached | other.reached, self.read | other.read, self.written | other.written)

    def meets(self, other: _Touched) -> bool:
        """Return whether the order of the two can be seen."""
        stores = self.written & (other.read | other.written) | self.read & other.written
        return bool(stores or self.reached & other.reached)


@dataclass(frozen=True)
class RecordOrder:
    """Names of nodes: rows go one by one into those of ``into``, and on from those of ``out_of``.

    With ``by_key`` the inputs meet in nothing but entries of their records' keys. ``plain`` are the nodes that come
    before all state: of each of their rows it is known which record it was made of. ``meeting`` are the nodes right
    after them, if each input's rows can go to these as one piece, and be put in order there.
    """

    into: frozenset[str]
    out_of: frozenset[str]
    by_key: bool = False
    plain: frozenset[str] = frozenset()
    meeting: frozenset[str] = frozenset()

    @classmethod
    def of(cls, nodes: Sequence[Node]) -> RecordOrder:
        """Find these nodes in a sub-topology, which has parents before their children."""
        touched: dict[str, _Touched] = {}
        into, out_of = set(), set()
        chosen = any(isinstance(node, Sink) and node.choose is not None for node in nodes)
        for node in reversed(nodes):
            own, below = _own(node, chosen=chosen), _Touched()
            for child in node.children:
                below |= touched[child.name]
            if _stores(node).meets(below):
                into.add(node.name)
            if any(touched[one.name].meets(touched[other.name]) for one, other in combinations(node.children, 2)):
                out_of.add(node.name)
            touched[node.name] = own | below
        plain = _plain(nodes)
        by_key, meeting = _meet_by_key(nodes, touched), _meeting(nodes, touched, plain)
        return cls(frozenset(into), frozenset(out_of), by_key, plain, meeting)

    def __bool__(self) -> bool:
        return bool(self.into or self.out_of)


def _plain(nodes: Sequence[Node]) -> frozenset[str]:
    found: set[str] = set()
    for node in nodes:
        stateless = not node.stores and node.supply is None and not isinstance(node, Sink)
        known = node.operate is None or node.keeps_origin
        if isinstance(node, Source):
            known = node.unpack is None  # what is unpacked may have any columns
        if stateless and known and all(parent.name in found for parent in node.parents):
            found.add(node.name)
    return frozenset(found)


def _meeting(nodes: Sequence[Node], touched: Mapping[str, _Touched], plain: frozenset[str]) -> frozenset[str]:
    """Return the nodes after the plain ones, or none if one of them could see what another one does."""
    if any(node.supply is not None or (isinstance(node, Source) and node.name not in plain) for node in nodes):
        return frozenset()
    found = {child.name for node in nodes if node.name in plain for child in node.children} - plain
    if any(touched[one].meets(touched[other]) for one, other in combinations(found, 2)):
        return frozenset()
    return frozenset(found)


def _meet_by_key(nodes: Sequence[Node], touched: Mapping[str, _Touched]) -> bool:
    """Return whether the rows of two sources meet by the keys alone that they came with: in stores, in nodes that keep
    these keys, and in topics of others.
    """
    if any(node.supply is not None for node in nodes):
        return False
    shared: set[str] = set()
    by_key: set[object] = set()
    for node in nodes:
        if _keeps_source_key(node):
            by_key |= {node.name, (node.internal, node.topic)} if isinstance(node, Sink) else {node.name}
    for one, other in combinations([touched[node.name] for node in nodes if not node.parents], 2):
        if not one.reached & other.reached <= by_key:
            return False
        shared |= (one.read | one.written) & (other.read | other.written)
    touching = [(node, spec) for node in nodes for spec in node.stores if spec.name in shared]
    return all(spec.retention_ms is None and _has_source_key(node) for node, spec in touching)


def _keeps_source_key(node: Node) -> bool:
    if isinstance(node, Sink):
        return not node.internal and node.choose is None and _has_source_key(node)
    return node.keeps_key and _has_source_key(node) and all(spec.retention_ms is None for spec in node.stores)


def _has_source_key(node: Node) -> bool:
    return all(not one.parents or (one.keeps_key and _has_source_key(one)) for one in node.parents)


def _stores(node: Node) -> _Touched:
    names = frozenset(spec.name for spec in node.stores)
    return _Touched(read=names) if node.reads_only else _Touched(written=names)


def _own(node: Node, *, chosen: bool) -> _Touched:
    """Return what a node touches. Where a function has ``chosen`` a topic, sinks may write the same."""
    reached: set[object] = {node.name}
    if isinstance(node, Sink):
        reached.add((node.internal, node.topic))
        if chosen and not node.internal:
            reached.add("any topic")
    return _stores(node) | _Touched(frozenset(reached))
