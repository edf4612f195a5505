"""Offset syncs as MirrorMaker 2 writes them: a record of a topic, and the offset that it has on the target.

MirrorMaker 2 translates offsets of groups by them, so it can take a flow over again. They follow the commit of their
records, outside of its transaction: they may trail the copy, and are never before it. As there, a partition gets the
newest of its syncs that are due when they are written.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from semel.config import ClientConfig
from semel.mirror.background.internal_topics import ensure_compacted, write
from semel.mirror.background.periodic import PeriodicWork
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.formats import OffsetSync
from semel.mirror.offsets.segments import Runs
from semel.steps import MirrorStep, reached
from semel.wire.client import Client
from semel.wire.metadata import TopicPartition

__all__ = ["OffsetSyncWriter", "SyncState", "due_sync"]

_INTERVAL_S = 1


@dataclass(frozen=True, slots=True)
class SyncState:
    """The state of a partition: the next offsets that follow its last record on both sides, and the target offset of
    its last sync.
    """

    source: int
    target: int
    last: int


def due_sync(runs: Runs, before: SyncState | None, most_lag: int) -> tuple[SyncState, tuple[int, int] | None]:
    """Return the state after a round's runs, and source and target offset of the last sync that is due in them.

    As MirrorMaker 2, a sync is due for the first record, after offsets without a record, and where a translation by the
    last one would be ``most_lag`` offsets behind.
    """
    skips = np.concatenate(([True], runs.source[1:] != runs.source[:-1] + runs.count[:-1]))
    skips[0] = before is None or runs.source[0] != before.source or runs.target[0] < before.target
    last_skip = int(np.flatnonzero(skips)[-1]) if skips.any() else -1
    last, sync = -1 if before is None else before.last, None
    for index in range(max(last_skip, 0), len(runs.count)):  # only markers of the target are between these
        source, target, count = (int(column[index]) for column in (runs.source, runs.target, runs.count))
        at = 0 if index == last_skip else max(last + 1 + most_lag - target, 0)
        if at < count:
            at += (count - 1 - at) // (most_lag + 1) * (most_lag + 1)
            last, sync = target + at, (source + at, target + at)
    end = int(runs.count[-1])
    return SyncState(int(runs.source[-1]) + end, int(runs.target[-1]) + end, last), sync


class OffsetSyncWriter:
    """Writes the offset syncs of a flow, where its file asks for them."""

    def __init__(self, config: FlowConfig, id: str) -> None:
        self._config, self._id, self._settings = config, id, config.offset_syncs
        on_source = self._settings is not None and self._settings.on_source
        self._client = Client(ClientConfig.parse(config.source if on_source else config.target))
        self._topic = config.policy.offset_syncs_topic(on_source=on_source)
        self._states: dict[TopicPartition, SyncState] = {}
        self._due: dict[TopicPartition, OffsetSync] = {}
        self._lock = threading.Lock()
        self._is_there = False
        lacking = "offset syncs are not written"
        self._work = PeriodicWork(config.title, lacking, self._write, self._client.close, _INTERVAL_S, at_once=False)

    def start(self) -> None:
        """Write from now on, in a thread of its own."""
        if self._settings is not None:
            self._work.start()

    def follow(self) -> None:
        """Write what is due, once, now."""
        if self._settings is not None:
            self._work.do()

    def close(self) -> None:
        """End the thread, and close the client."""
        self._work.close()

    def add(self, runs: Mapping[TopicPartition, Runs]) -> None:
        """Take the runs of a committed round."""
        if self._settings is None:
            return
        with self._lock:
            for partition, one in runs.items():
                before = self._states.get(partition)
                self._states[partition], due = due_sync(one, before, self._settings.most_lag)
                if due is not None:
                    self._due[partition] = OffsetSync(*partition, *due)

    def _write(self) -> None:
        with self._lock:
            due = dict(self._due)
        if not due or self._settings is None:
            return
        was_there, self._is_there = self._is_there, False
        if not was_there:
            ensure_compacted(self._client, self._topic, self._settings.replication)
        write(self._client, self._topic, due.values())
        self._is_there = True
        with self._lock:  # a later one may be due since
            self._due = {partition: one for partition, one in self._due.items() if due.get(partition) != one}
        reached(MirrorStep.OFFSET_SYNCS_WRITTEN, self._id)
