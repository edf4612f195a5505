"""Versioned tables (KIP-914): each version of a key is kept for a history, and a stream finds the one of its time.

A version that is older than the history is dropped and counted. All others are handed on, also those that come late.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semel.serdes.serde import Serde, decode, encode
from semel.streams.dropped import DroppedRecords
from semel.streams.nodes.stateless import without_nulls
from semel.streams.rows import times, timestamps
from semel.streams.state.state_store import StateStore, StoreSpec
from semel.streams.state.versions import NOT_PUT, Versions

__all__ = ["VersionedTableSource", "VersionedView"]


@dataclass(frozen=True)
class VersionedTableSource:
    """Keeps the versions of each key of a topic; a record without a value deletes it from its time on."""

    name: str
    spec: StoreSpec
    key: Serde
    value: Serde
    dropped: DroppedRecords

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return the rows that were put, each of them: a table with versions has no cache."""
        versions = Versions(stores[self.spec.name])
        rows = without_nulls(rows, ("key",), self.name, self.dropped)
        keys, values = (encode(rows[name], serde) for name, serde in (("key", self.key), ("value", self.value)))
        given = zip(keys.to_pylist(), values.to_pylist(), times(rows).tolist(), strict=True)
        put = [versions.put(bytes(key), value, at) != NOT_PUT for key, value, at in given]
        self.dropped.count(self.name, len(put) - sum(put), "versions that are older than the history")
        return rows.filter(pa.array(put, pa.bool_()))


@dataclass(frozen=True)
class VersionedView:
    """What a versioned table has for keys at times."""

    spec: StoreSpec
    key: Serde
    value: Serde

    @property
    def specs(self) -> tuple[StoreSpec, ...]:
        """Its store."""
        return (self.spec,)

    def look_up(self, keys: list[bytes], stores: Mapping[str, StateStore]) -> Any:
        """Return the newest versions, one row for each key."""
        return self.look_up_at(keys, [None] * len(keys), stores)

    def look_up_at(self, keys: list[bytes], as_of: list[int | None], stores: Mapping[str, StateStore]) -> Any:
        """Return a row for each key and time: key, the value then or null, and the time of that version or -1."""
        found = Versions(stores[self.spec.name]).find(keys, as_of)
        values = [None if one is None else one.value for one in found]
        return pa.RecordBatch.from_pydict(
            {
                "key": decode(pa.array(keys, pa.binary()), self.key),
                "value": decode(pa.array(values, pa.binary()), self.value),
                "timestamp": timestamps([-1 if one is None else one.start for one in found]),
            }
        )
