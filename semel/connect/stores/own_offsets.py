"""A connector's own offsets topic, beside the worker's (KIP-618).

Both are read. For a source partition the own topic counts, also where it says "removed". The tasks' transactions write
to the own topic. A background thread copies what they committed to the worker's topic, so that a connector can go back
to it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

import pyarrow as pa

from semel.config import ClientConfig
from semel.connect.api import Offset, Partition
from semel.connect.settings.connector_config import ConnectorConfig
from semel.connect.settings.worker_config import WorkerConfig
from semel.connect.stores.internal_topics import ensure_internal_topic
from semel.connect.stores.offsets import OffsetStore
from semel.errors import ConfigError, SemelError
from semel.wire.client import Client

__all__ = ["Committed", "Offsets", "OwnOffsets", "ensure_offsets_topic", "opened_offsets"]

log = logging.getLogger("semel.connect")

_RETRY_S = 2.0
#: How long the end of a task waits for what is not copied yet.
_LAST_COPY_S = 2.0
Committed = Mapping[str, tuple[Partition, Offset]]


class Offsets(Protocol):
    """The offsets of one connector, wherever they are."""

    topic: str

    def read(self) -> None:
        """Read all of them."""

    def find(self, partition: Partition) -> Offset:
        """Return the offset of a source partition."""

    def __iter__(self) -> Iterator[tuple[dict[str, Any], Offset]]:
        """Each source partition and its offset."""

    def rows(self, offsets: Committed) -> pa.Table:
        """Return the records of these offsets."""

    def places(self, offsets: Committed) -> list[int]:
        """Return the partitions of the topic that hold these offsets."""

    def append(self, rows: pa.Table) -> None:
        """Write such records in no transaction."""

    def committed(self, offsets: Committed) -> None:
        """Take note that these offsets are committed."""


class OwnOffsets:
    """The own topic's offsets before those of the worker's."""

    def __init__(self, own: OffsetStore, shared: OffsetStore) -> None:
        self._own, self._shared, self.topic = own, shared, own.topic
        self._due: dict[str, tuple[Partition, Offset]] = {}
        self._lock, self._wake, self._ending = threading.Lock(), threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def read(self) -> None:
        """Read both. Raises what :meth:`OffsetStore.read` raises."""
        self._shared.read()
        self._own.read()

    def find(self, partition: Partition) -> Offset:
        """Return the offset of a source partition, as it was read."""
        return (self._own if self._own.knows(partition) else self._shared).find(partition)

    def __iter__(self) -> Iterator[tuple[dict[str, Any], Offset]]:
        """Each source partition, and its offset."""
        yield from self._own
        for partition, offset in self._shared:
            if not self._own.knows(partition):
                yield partition, offset

    def rows(self, offsets: Committed) -> pa.Table:
        """Return the records of these offsets in the own topic."""
        return self._own.rows(offsets)

    def places(self, offsets: Committed) -> list[int]:
        """Return the partitions of the own topic that hold these offsets."""
        return self._own.places(offsets)

    def append(self, rows: pa.Table) -> None:
        """Write such records in no transaction."""
        self._own.append(rows)

    def write_removals(self, offsets: Committed) -> None:
        """Remove from the worker's topic what is to be removed from the own one: before that, or it would come back."""
        removed = {name: one for name, one in offsets.items() if one[1] is None}
        if removed:
            self._shared.append(self._shared.rows(removed))

    # ---- the copy

    def committed(self, offsets: Committed) -> None:
        """Have these copied, sometime. Does not wait."""
        with self._lock:
            self._due.update(offsets)
        if self._thread is None:
            self._thread = threading.Thread(target=self._copy, name="semel-connect-offsets", daemon=True)
            self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """Copy what is left, if that can be done at once."""
        self._ending.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(_LAST_COPY_S)

    def _copy(self) -> None:
        while self._wake.wait():
            self._wake.clear()
            with self._lock:
                due, self._due = self._due, {}
            try:
                if due:
                    self._shared.append(self._shared.rows(due))
            except SemelError as error:
                log.warning("offsets of %s are not copied to %s yet: %s", self.topic, self._shared.topic, error)
                with self._lock:
                    self._due = {**due, **self._due}
                if not self._ending.wait(_RETRY_S):
                    self._wake.set()
            if self._ending.is_set() and not self._wake.is_set():
                return


@contextmanager
def opened_offsets(client: Client, worker: WorkerConfig, config: ConnectorConfig) -> Iterator[Offsets]:
    """Yield the offsets of a connector that writes with ``client``, for reading."""
    topic = config.offsets_topic or worker.offsets_topic
    own = OffsetStore(client, topic, config.name)
    if not config.has_own_offsets:
        yield own
        return
    with Client(ClientConfig.parse(worker.client)) as shared:
        if topic == worker.offsets_topic and client.cluster == shared.cluster:  # another address of one cluster
            yield own
            return
        made = OwnOffsets(own, OffsetStore(shared, worker.offsets_topic, config.name))
        try:
            yield made
        finally:
            made.close()


def ensure_offsets_topic(worker: WorkerConfig, config: ConnectorConfig) -> None:
    """Have the connector's own offsets topic, if it has one, made by its admin client.

    Raises :class:`ConfigError` where its clients lead to different clusters, or the topic could lose offsets.
    """
    if not config.has_own_offsets:
        return
    with (
        Client(ClientConfig.parse(config.clients.admin)) as admin,
        Client(ClientConfig.parse(config.clients.producer)) as producer,
    ):
        if admin.cluster != producer.cluster:
            raise ConfigError(
                f"connector {config.name!r}: its producer writes to another cluster than its admin client makes topics"
                " and fences in. Nothing was started. Give admin.override.bootstrap.servers and"
                " producer.override.bootstrap.servers addresses of one cluster.",
                tag="OVERRIDES_DIFFER",
            )
        topic = config.offsets_topic or worker.offsets_topic
        ensure_internal_topic(
            admin, "offsets.storage.topic", topic, worker.offsets_partitions, worker.offsets_replication
        )
