"""Heartbeats as MirrorMaker 2 writes them: a record of each pair of clusters, again and again, on the pair's target.

Where a flow copies them on, their topics show which clusters are upstream, and their times how late a copy is. They are
outside of the flows' transactions: a heartbeat that is lost is followed by the next one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from semel.config import ClientConfig
from semel.mirror.background.internal_topics import ensure_compacted, write
from semel.mirror.background.periodic import PeriodicWork
from semel.mirror.config.flow_config import HeartbeatConfig
from semel.mirror.formats import Heartbeat
from semel.mirror.policy import HEARTBEATS
from semel.steps import MirrorStep, reached
from semel.transaction.output_topics import OutputTopics
from semel.wire.client import Client

__all__ = ["emitting"]


@contextmanager
def emitting(pairs: Sequence[HeartbeatConfig]) -> Iterator[None]:
    """Write the heartbeats of the pairs until the block is left."""
    works = [_work_of(pair) for pair in pairs]
    try:
        for work in works:
            work.start()
        yield
    finally:
        for work in works:
            work.stop()
        for work in works:
            work.close()


def _work_of(pair: HeartbeatConfig) -> PeriodicWork:
    emitter, lacking = _Emitter(pair), "heartbeats are not written"
    return PeriodicWork(pair.title, lacking, emitter.emit, emitter.close, pair.interval_s, at_once=True)


class _Emitter:
    """Writes the heartbeats of one pair, by a client of its own."""

    def __init__(self, pair: HeartbeatConfig) -> None:
        self._pair = pair
        self._client: Client | None = None
        self._topics: OutputTopics | None = None
        self._is_there = False

    def emit(self) -> None:
        """Write one heartbeat. The topic is made before the first one, and looked at again after an error."""
        pair, was_there = self._pair, self._is_there
        if self._client is None:
            self._client = Client(ClientConfig.parse(pair.client))
        self._is_there = False
        if self._topics is None or not was_there:
            ensure_compacted(self._client, HEARTBEATS, pair.replication)
            self._topics = OutputTopics(self._client)
        now = time.time_ns() // 1_000_000
        heartbeat = Heartbeat(pair.source, pair.target, now)
        write(self._client, HEARTBEATS, [heartbeat], timestamp=now, topics=self._topics)
        self._is_there = True
        reached(MirrorStep.HEARTBEAT_WRITTEN, pair.title)

    def close(self) -> None:
        """Close the client."""
        if self._client is not None:
            self._client.close()
