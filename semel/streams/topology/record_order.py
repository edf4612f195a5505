"""Nodes at which rows must go one by one, so that a batch gives what its records give one after the other.

Rows travel as batches, and a node works on all rows of one before its children do. That cannot be seen unless two
nodes touch the same thing: a store that one of them writes, a topic, or a node that both lead to. Rows are kept apart
there, and everywhere else they stay together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from semel.streams.topology.node import Node, Sink, Source

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
    after them, if each input's rows can go to these as one piece, and be put in order there. With ``by_key``, rows are
    put in order at the nodes of ``joining``. With ``in_rounds`` that holds for all that is handed on, so that rows of
    other keys may change places before.
    """

    into: frozenset[str]
    out_of: frozenset[str]
    by_key: bool = False
    plain: frozenset[str] = frozenset()
    meeting: frozenset[str] = frozenset()
    joining: frozenset[str] = frozenset()
    in_rounds: bool = False

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
        plain, joining = _plain(nodes), _joining(nodes, touched)
        # the topics of one pattern have the same nodes after them: nothing is known to keep them apart
        by_key = not _has_pattern(nodes) and _meet_by_key(nodes, touched, joining)
        meeting = _meeting(nodes, touched, plain)
        ends = _ends(nodes, touched) if by_key and not meeting else frozenset()
        joining = ends or (joining if by_key and joining and not meeting else frozenset())
        return cls(frozenset(into), frozenset(out_of), by_key, plain, meeting, joining, bool(ends))

    def __bool__(self) -> bool:
        return bool(self.into or self.out_of)


def _has_pattern(nodes: Sequence[Node]) -> bool:
    return any(isinstance(node, Source) and node.pattern is not None for node in nodes)


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


def _meet_by_key(nodes: Sequence[Node], touched: Mapping[str, _Touched], joining: frozenset[str] | None) -> bool:
    """Return whether the rows of two sources meet only in stores, and there by the keys that they came with, or at the
    nodes of ``joining``.
    """
    if joining is None or any(node.supply is not None for node in nodes):
        return False
    stores: set[str] = set()
    for one, other in _pairs_of_sources(nodes, touched):
        stores |= (one.read | one.written) & (other.read | other.written)
    touching = [(node, spec) for node in nodes for spec in node.stores if spec.name in stores]
    return all(not spec.has_time and _has_source_key(node) for node, spec in touching)


def _joining(nodes: Sequence[Node], touched: Mapping[str, _Touched]) -> frozenset[str] | None:
    """Return the first nodes that rows of several sources come to, where these can be put in order: none of them has
    state after it, and none comes after another one. None if they cannot.
    """
    shared: set[object] = set()
    for one, other in _pairs_of_sources(nodes, touched):
        shared |= one.reached & other.reached
    after = [node for node in nodes if node.name in shared]
    sinks = [(node.internal, node.topic) for node in after if isinstance(node, Sink)]
    if any(node.stores for node in after) or {one for one in shared if not isinstance(one, str)} != set(sinks):
        return None
    every_sink = [(node.internal, node.topic) for node in nodes if isinstance(node, Sink)]
    if any(every_sink.count(one) > 1 for one in sinks) or "any topic" in shared:
        return None
    joining = [node for node in after if any(parent.name not in shared for parent in node.parents)]
    names = {node.name for node in joining}
    if any(touched[name].reached & (names - {name}) for name in names):
        return None
    before = [parent for node in joining for parent in node.parents if parent.name not in shared]
    return frozenset(names) if all(map(_has_origin, before)) else None


def _ends(nodes: Sequence[Node], touched: Mapping[str, _Touched]) -> frozenset[str]:
    """Return the first nodes without state after them, if all state is by the keys of sources, and all rows can be put
    in order at these nodes. Else none.
    """
    for node in nodes:
        if any(spec.has_time or not _has_source_key(node) for spec in node.stores):
            return frozenset()
    stateless = [node for node in nodes if not touched[node.name].read | touched[node.name].written]
    tail = {node.name for node in stateless if node.parents}
    ends = {node.name for node in nodes if node.name in tail and any(one.name not in tail for one in node.parents)}
    sinks = [(node.internal, node.topic) for node in nodes if isinstance(node, Sink)]
    if len(set(sinks)) < len(sinks) or any("any topic" in touched[name].reached for name in ends):
        return frozenset()
    if any(touched[name].reached & (ends - {name}) for name in ends):
        return frozenset()
    before = [one for node in nodes if node.name in ends for one in node.parents if one.name not in tail]
    return frozenset(ends) if all(map(_has_origin, before)) else frozenset()


def _pairs_of_sources(nodes: Sequence[Node], touched: Mapping[str, _Touched]) -> Iterator[tuple[_Touched, _Touched]]:
    return combinations([touched[node.name] for node in nodes if not node.parents], 2)


def _has_origin(node: Node) -> bool:
    return not node.parents or ((node.operate is None or node.keeps_origin) and all(map(_has_origin, node.parents)))


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
