"""A lookup in a store as of the last commit, by its changelog: from any machine, while workers run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.errors import ConfigError
from semel.read import Earliest, Latest, Reader, topic_ranges
from semel.read.ranges import Range
from semel.records.partitioner import partition_of
from semel.streams.nodes.folds import Entries
from semel.streams.nodes.keyed_windows import KeyedAggregate
from semel.streams.nodes.stateful import Aggregate, TableSource, value_reader
from semel.streams.nodes.tables.aggregate import TableAggregate
from semel.streams.nodes.versioned import VersionedTableSource
from semel.streams.state.state_store import StoreSpec
from semel.streams.state.versions import Versions
from semel.streams.topology.topology import Topology
from semel.wire.client import Client

__all__ = ["look_up"]

_WORD = 8


def look_up(client: Client, topology: Topology, store: str, key: str | None) -> Iterator[dict[str, Any]]:
    """Yield the entries of a key, or of all: ``key``, ``window_start`` for windows, the columns of the value,
    ``timestamp``.

    Raises :class:`ConfigError` for a store that the topology does not have.
    """
    kept = _find(topology, store)
    windowed = kept.spec.retention_ms is not None
    for ranges in _ranges(client, topology.changelog(store), None if windowed else key):
        newest: dict[bytes, tuple[bytes | None, int]] = {}
        with Reader(client, ranges, read_committed=True) as reader:
            for batch in reader:
                rows = batch if key is None else batch.filter(_matches(kept.spec, batch["key"], key.encode()))
                times = rows["timestamp"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()
                values = zip(rows["value"].to_pylist(), times, strict=True)
                newest.update(zip(rows["key"].to_pylist(), values, strict=True))
        there = [(name, value, time) for name, (given, time) in newest.items() for value in _there(kept.spec, given)]
        for record_key, value, time in sorted(there):
            yield _entry(kept, record_key, value, time)
        if there:
            return


@dataclass(frozen=True)
class _Kept:
    """The contents of a store. ``read`` makes columns of its entries."""

    spec: StoreSpec
    read: Callable[[Entries], dict[str, Any]]


def _find(topology: Topology, store: str) -> _Kept:
    there = {}
    for node in topology.nodes:
        if isinstance(node.operate, Aggregate | KeyedAggregate | TableAggregate):
            there[node.operate.spec.name] = _Kept(node.operate.spec, node.operate.fold.columns)
        elif isinstance(node.operate, TableSource | VersionedTableSource):
            there[node.operate.spec.name] = _Kept(node.operate.spec, value_reader(node.operate.value))
        for one in node.builders:
            there[one.spec.name] = _Kept(one.spec, value_reader(one.value))
    if store not in there:
        raise ConfigError(
            f"the topology has no store {store!r}. Nothing was read. It has: {', '.join(sorted(there)) or 'none'}.",
            tag="TOPOLOGY",
        )
    return there[store]


def _ranges(client: Client, topic: str, key: str | None) -> list[list[Range]]:
    """Return what to read, one part after the other until the key is found: first the partition where murmur2 puts it.
    It is in another one if another partitioner wrote the input, such as librdkafka's own.
    """
    ranges = topic_ranges(client, topic, Earliest(), Latest(), read_committed=True)
    if key is None:
        return [ranges]
    count = len(client.topics({topic})[topic].partitions)
    mine = partition_of(key.encode(), count)
    parts = ([one for one in ranges if (one.partition == mine) is first] for first in (True, False))
    return [part for part in parts if part]


def _matches(spec: StoreSpec, keys: Any, key: bytes) -> Any:
    if spec.retention_ms is None:
        return pc.equal(keys, pa.scalar(key, pa.binary()))
    return spec.window_keys.of_key(keys, key)


def _there(spec: StoreSpec, value: bytes | None) -> list[bytes]:
    """Return the value of a changelog's record, of versions the newest one, or nothing if that is a deletion."""
    if value is not None and spec.history_ms is not None:
        value = Versions.newest(value)
    return [] if value is None else [value]


def _entry(kept: _Kept, key: bytes, value: bytes, time: int) -> dict[str, Any]:
    if kept.spec.retention_ms is None:
        found: dict[str, Any] = {"key": key.decode(errors="replace")}
    else:
        windows = kept.spec.window_keys
        (stored,) = windows.from_changelog([key])
        found = {"key": windows.key(stored).decode(errors="replace"), "window_start": windows.start(stored)}
    columns = kept.read([time.to_bytes(_WORD, "big", signed=True) + value])
    found |= {name: column[0].as_py() for name, column in columns.items()}
    if isinstance(found.get("value"), bytes):
        found["value"] = found["value"].decode(errors="replace")
    return {**found, "timestamp": time}
