"""The offsets of sinks in the snapshots of a table of Iceberg.

Each commit of a sink is a snapshot. Its summary has an entry for each connector and topic,
``semel-connect/NAME/TOPIC``: the next offset of each partition, and the id of the topic. A commit carries on all
entries of the newest snapshot that has any, so older snapshots may expire. Other programs add snapshots without
entries, as a compaction does: they are passed over, back to the newest snapshot with entries.

The commit also sets a property of the table, by the same name: the newest offset of each partition. A rollback takes
the snapshot back, and not the property. Where both differ, or the snapshot has expired, nothing is guessed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from semel.errors import ConfigError

__all__ = ["Entry", "SnapshotOffsets"]

_PREFIX = "semel-connect/"


class Entry(NamedTuple):
    """The next offset of a partition, and the topic's id; empty for an offset that a user has set."""

    next: int
    topic_id: str


class SnapshotOffsets:
    """The offsets of one connector and topic."""

    def __init__(self, connector: str, topic: str) -> None:
        self._key, self._topic = f"{_PREFIX}{connector}/{topic}", topic

    def of(self, metadata: Any, partition: int) -> Entry | None:
        """Return the entry of a partition; None if none was ever written.

        Raise :class:`ConfigError` where it is lost.
        """
        found, newest = self._read(_carried(metadata)).get(str(partition)), self._newest(metadata).get(str(partition))
        if newest is not None and (found is None or found.next != newest):
            raise ConfigError(
                f"the table's snapshot does not have the newest offset of {self._topic}-{partition}, {newest}: it has"
                " expired, or the table was rolled back. Nothing more was written. Stop the connector, and set the"
                " offset of each partition by REST to the first record that the table lacks.",
                tag="SINK_OFFSETS_LOST",
            )
        return found

    def summary(self, metadata: Any, partition: int, entry: Entry) -> dict[str, str]:
        """Return the properties of a snapshot that carries on all offsets, and has a new one."""
        carried = _carried(metadata)
        entries = {**self._read(carried), str(partition): entry}
        return {
            **carried,
            self._key: _text({one: {"next": at.next, "topic": at.topic_id} for one, at in entries.items()}),
        }

    def properties(self, metadata: Any, partition: int, entry: Entry) -> dict[str, str]:
        """Return the properties of the table that are set with a new offset."""
        return {self._key: _text({**self._newest(metadata), str(partition): entry.next})}

    def _newest(self, metadata: Any) -> dict[str, int]:
        """Return the newest offsets, whichever snapshot the table shows."""
        found: dict[str, int] = json.loads(metadata.properties.get(self._key, "{}"))
        return found

    def _read(self, carried: Mapping[str, str]) -> dict[str, Entry]:
        found = json.loads(carried.get(self._key, "{}"))
        return {partition: Entry(one["next"], one["topic"]) for partition, one in found.items()}


def _carried(metadata: Any) -> dict[str, str]:
    """Return the entries of the newest snapshot of the main branch that has any."""
    snapshots = {one.snapshot_id: one for one in metadata.snapshots}
    at = metadata.current_snapshot_id
    while at in snapshots:
        snapshot = snapshots[at]
        summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
        found = {name: text for name, text in summary.items() if name.startswith(_PREFIX)}
        if found:
            return found
        at = snapshot.parent_snapshot_id
    return {}


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
