"""Stores of global tables: each worker has all rows of a topic, whatever its tasks are.

The topic is their changelog, and nobody but its writers changes it. A worker reads it to its end before it takes tasks,
and then what is new. Its rows are in no transaction of the application: what is read again may meet newer ones, as in
Kafka Streams.
"""

from __future__ import annotations

import time
from typing import Any

from semel.read.ranges import Range, id_text
from semel.streams.settings import Settings
from semel.streams.state.backend import DamagedStore
from semel.streams.state.changelog import read_ranges
from semel.streams.state.folders import delete, opened, store_folder
from semel.streams.state.state_store import StateStore
from semel.streams.topology.topology import Topology
from semel.wire.api.offsets import EARLIEST, LATEST, list_offsets
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["GlobalStores", "take_rows"]

#: In the place of a task's number.
_FOLDER = "global"


class GlobalStores:
    """The stores of one worker, by name. One thread uses them. Their folders are emptied at a start."""

    def __init__(self, client: Client, topology: Topology, settings: Settings) -> None:
        self._client, self._settings, self._topology = client, settings, topology
        self._read_to: dict[TopicPartition, int] = {}
        self._refresh_at = 0.0
        #: By the name of the store.
        self.stores: dict[str, StateStore] = {}
        try:
            self._open()
            self.refresh()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        self._read_to.clear()
        for one in self._topology.globals:
            folder = store_folder(self._settings, self._topology.application_id, _FOLDER, one.spec.name)
            try:
                store = opened(one.spec, folder)  # not deleted before: another worker may have it open
            except DamagedStore as error:
                delete(error)
                store = opened(one.spec, folder)
            self.stores[one.spec.name] = store
            store.clear()

    def refresh(self) -> None:
        """Read what is committed and new, once in each commit interval. Raises :class:`~semel.errors.DataLoss` for a
        topic that was made again.
        """
        if not self._topology.globals or time.monotonic() < self._refresh_at:
            return
        try:
            self._read()
        except DamagedStore as error:
            self.throw_away(error)
        self._refresh_at = time.monotonic() + self._settings.commit_interval_ms / 1000

    def throw_away(self, error: DamagedStore) -> None:
        """Read all topics again, if the store that cannot be read is one of these."""
        if error.folder.parents[1].name != _FOLDER:
            return
        self.close()
        delete(error)
        self._open()
        self._read()

    def _read(self) -> None:
        stores = {one.topic: self.stores[one.spec.name] for one in self._topology.globals}
        topics = self._client.topics(stores.keys())
        partitions = [(name, index) for name, topic in topics.items() for index in topic.partitions]
        ends = list_offsets(self._client, dict.fromkeys(partitions, LATEST), read_committed=True)
        new = [partition for partition in partitions if partition not in self._read_to]
        begins = list_offsets(self._client, dict.fromkeys(new, EARLIEST), read_committed=True) if new else {}
        self._read_to |= {partition: begins[partition].offset for partition in new}
        ranges = [
            Range(name, id_text(topics[name].id), index, self._read_to[name, index], ends[name, index].offset)
            for name, index in partitions
            if self._read_to[name, index] < ends[name, index].offset
        ]
        if ranges:
            read_ranges(self._client, ranges, lambda partition, rows, _: take_rows(stores[partition[0]], rows))
            self._read_to |= {one.topic_partition: one.end for one in ranges}

    def close(self) -> None:
        """Close the stores."""
        stores, self.stores = self.stores, {}
        for store in stores.values():
            store.close()


def take_rows(store: StateStore, rows: Any) -> None:
    """Put rows of the topic into the store. A row without a value deletes its key; one without a key is dropped."""
    store.restore(rows.filter(rows["key"].is_valid()), "", 0)
