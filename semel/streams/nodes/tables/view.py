"""What a table has for a key: read from its store, or made of what the tables have that it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from semel.serdes.serde import Serde, decode
from semel.streams.nodes.folds import Entries
from semel.streams.rows import timestamps
from semel.streams.state.state_store import StateStore, StoreSpec, number
from semel.streams.topology.node import Operator

__all__ = ["DerivedView", "StoreView", "View"]


class View(Protocol):
    """The values of a table by key."""

    @property
    def specs(self) -> tuple[StoreSpec, ...]:
        """The stores that it reads."""

    def look_up(self, keys: list[bytes], stores: Mapping[str, StateStore]) -> Any:
        """Return a row for each key: key, what the table has for it or nulls, and its timestamp or -1."""


@dataclass(frozen=True)
class StoreView:
    """A table that has a store. ``read`` makes columns of its entries."""

    spec: StoreSpec
    key: Serde
    read: Callable[[Entries], dict[str, Any]]

    @property
    def specs(self) -> tuple[StoreSpec, ...]:
        """Its store."""
        return (self.spec,)

    def look_up(self, keys: list[bytes], stores: Mapping[str, StateStore]) -> Any:
        """Read the entries of these keys."""
        entries = stores[self.spec.name].get(keys) if keys else []
        return pa.RecordBatch.from_pydict(
            {
                "key": decode(pa.array(keys, pa.binary()), self.key),
                **self.read(entries),
                "timestamp": timestamps([-1 if entry is None else number(entry) for entry in entries]),
            }
        )


@dataclass(frozen=True)
class DerivedView:
    """A table whose values are made of those of another one, such as a filter."""

    base: View
    of_values: Operator

    @property
    def specs(self) -> tuple[StoreSpec, ...]:
        """The stores of the other table."""
        return self.base.specs

    def look_up(self, keys: list[bytes], stores: Mapping[str, StateStore]) -> Any:
        """Make the values of what the other table has."""
        return self.of_values(self.base.look_up(keys, stores), stores)
