"""Words of a stream that need no state, in Kafka Streams' names: each adds a node and returns what comes out of it.

A word that changes the key marks the stream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from semel.errors import ConfigError
from semel.serdes.serde import Serde, check_serde
from semel.streams.nodes import stateless
from semel.streams.rows import Record
from semel.streams.topology.node import Node, Operator
from semel.streams.topology.topology import Topology
from semel.streams.windows.keys import BY_START, WindowKeys

__all__ = ["StatelessWords"]

#: A function of single records, or an expression of ``pyarrow.compute``.
Condition = Callable[[Record], Any] | Any


@dataclass(frozen=True)
class StatelessWords:
    """Records as they come. ``rekeyed`` says that equal keys may lie in different partitions.

    ``named`` gives a word's node a name of its own, as Kafka Streams' ``Named`` does.
    """

    topology: Topology
    node: Node
    key: Serde
    value: Serde
    rekeyed: bool = False
    #: Whether processors alone may have changed the key.
    processed: bool = False
    #: How windows are written in the keys of rows that have some.
    window_keys: WindowKeys = BY_START
    #: Whether its keys have windows.
    windowed: bool = False

    def _then(
        self,
        prefix: str,
        operate: Callable[[str], Operator],
        *,
        by_record: bool = False,
        keeps_origin: bool = True,
        named: str | None = None,
        **changes: Any,
    ) -> Self:
        for name in ("key", "value"):
            check_serde(changes.get(name), prefix.strip("-"))
        name = self.topology.name(prefix, named)
        changes |= {"processed": False, "windowed": False} if "rekeyed" in changes else {}
        node = Node(name, (self.node,), operate(name), by_record=by_record, keeps_key="rekeyed" not in changes)
        node.keeps_origin = keeps_origin
        return replace(self, node=self.topology.add(node), **changes)

    def map_batches(
        self,
        function: Callable[[pa.RecordBatch], Any],
        *,
        key: Serde = None,
        value: Serde = None,
        named: str | None = None,
    ) -> Self:
        """Apply a function of Arrow batches, which returns a batch or a table with any columns. The fast way."""
        return self._then(
            "KSTREAM-MAPBATCHES-",
            lambda name: stateless.map_batch(function, name),
            named=named,
            keeps_origin=False,
            key=key,
            value=value,
            rekeyed=True,
        )

    def map(
        self,
        function: Callable[[Record], tuple[Any, Any]],
        *,
        key: Serde = "string",
        value: Serde = "json",
        named: str | None = None,
    ) -> Self:
        """Apply a function of single records, which returns a new key and value."""
        given = (self.key, self.value)
        return self._then(
            "KSTREAM-MAP-",
            lambda name: stateless.mapping(function, name, given, (key, value)),
            named=named,
            by_record=True,
            key=key,
            value=value,
            rekeyed=True,
        )

    def map_values(self, function: Callable[[Record], Any], *, value: Serde = "json", named: str | None = None) -> Self:
        """Apply a function of single records, which returns a new value. The key stays."""
        given = (self.key, self.value)
        return self._then(
            "KSTREAM-MAPVALUES-",
            lambda name: stateless.mapping_values(function, name, given, value),
            named=named,
            by_record=True,
            value=value,
        )

    def flat_map(
        self,
        function: Callable[[Record], Any],
        *,
        key: Serde = "string",
        value: Serde = "json",
        named: str | None = None,
    ) -> Self:
        """Apply a function of single records, which returns any number of pairs of key and value."""
        given = (self.key, self.value)
        return self._then(
            "KSTREAM-FLATMAP-",
            lambda name: stateless.flat_mapping(function, name, given, (key, value)),
            named=named,
            by_record=True,
            key=key,
            value=value,
            rekeyed=True,
        )

    def flat_map_values(
        self, function: Callable[[Record], Any], *, value: Serde = "json", named: str | None = None
    ) -> Self:
        """Apply a function of single records, which returns any number of values. The key stays."""
        given = (self.key, self.value)
        return self._then(
            "KSTREAM-FLATMAPVALUES-",
            lambda name: stateless.flat_mapping_values(function, name, given, value),
            named=named,
            by_record=True,
            value=value,
        )

    def peek(self, function: Callable[[Record], Any], *, named: str | None = None) -> Self:
        """Call a function with each record, and hand the records on. It is called again for what is read again."""
        return self._peeked("KSTREAM-PEEK-", function, named)

    def foreach(self, function: Callable[[Record], Any], *, named: str | None = None) -> None:
        """Call a function with each record. It is called again for what is read again."""
        self._peeked("KSTREAM-FOREACH-", function, named)

    def _peeked(self, prefix: str, function: Callable[[Record], Any], named: str | None) -> Self:
        given = (self.key, self.value)
        return self._then(prefix, lambda name: stateless.peeking(function, name, given), by_record=True, named=named)

    def filter(self, condition: Condition, *, named: str | None = None) -> Self:
        """Keep what a function of single records, or an expression of ``pyarrow.compute``, says yes to."""
        return self._filtered(condition, named, negated=False)

    def filter_not(self, condition: Condition, *, named: str | None = None) -> Self:
        """Drop what a function of single records, or an expression of ``pyarrow.compute``, says yes to."""
        return self._filtered(condition, named, negated=True)

    def _filtered(self, condition: Condition, named: str | None, *, negated: bool) -> Self:
        return self._then(
            "KSTREAM-FILTER-",
            lambda name: stateless.filtering(condition, name, self.key, self.value, negated=negated),
            by_record=not isinstance(condition, pc.Expression),
            named=named,
        )

    def select_key(
        self, chooser: str | Callable[[Record], Any], *, key: Serde = "string", named: str | None = None
    ) -> Self:
        """Take another key: a column's, or what a function of single records returns."""
        given = (self.key, self.value)
        return self._then(
            "KSTREAM-KEY-SELECT-",
            lambda name: stateless.keyed_by(chooser, name, given, key),
            named=named,
            by_record=not isinstance(chooser, str),
            key=key,
            rekeyed=True,
        )

    def branch(self, *conditions: Condition, named: str | None = None) -> list[Self]:
        """One stream for each condition, with the records that meet it and none of the earlier ones."""
        both = self._then(
            "KSTREAM-BRANCH-",
            lambda name: stateless.branching(conditions, name, self.key, self.value),
            by_record=not all(isinstance(one, pc.Expression) for one in conditions),
            named=named,
        )
        return [
            both._then("KSTREAM-BRANCHCHILD-", lambda _, number=number: stateless.branch_child(number))  # type: ignore[misc]
            for number in range(len(conditions))
        ]

    def merge(self, other: Self, *, named: str | None = None) -> Self:
        """Merge the records of both streams, in no promised order between them."""
        if (self.key, self.value) != (other.key, other.value):
            raise ConfigError(
                f"streams with key {self.key} and value {self.value}, and with key {other.key} and value {other.value},"
                " cannot be merged. Nothing was read. Bring both to the same by map.",
                tag="TOPOLOGY",
            )
        if self.window_keys != other.window_keys:
            raise ConfigError(
                "streams of two kinds of windows cannot be merged: their keys are written differently. Nothing was"
                " read. Write each to a topic of its own.",
                tag="TOPOLOGY",
            )
        name = self.topology.name("KSTREAM-MERGE-", named)
        node = self.topology.add(Node(name, (self.node, other.node)))
        processed = all(one.processed for one in (self, other) if one.rekeyed)
        return replace(self, node=node, rekeyed=self.rekeyed or other.rekeyed, processed=processed)
