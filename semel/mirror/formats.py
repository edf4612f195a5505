"""MirrorMaker 2's own bytes: checkpoints and heartbeats, as ``RemoteClusterUtils`` and its tools read them.

Numbers are big-endian, and a text is its length in two bytes and UTF-8, as in Kafka's own records.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = ["Checkpoint", "Heartbeat"]

_VERSION = 0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Offset of a group: the next one on the source, and the one on the target that stands for it.

    ``topic`` is the target's.
    """

    group: str
    topic: str
    partition: int
    upstream_offset: int
    offset: int
    metadata: str = ""

    @property
    def key(self) -> bytes:
        """The key of the record."""
        return _text(self.group) + _text(self.topic) + struct.pack(">i", self.partition)

    @property
    def value(self) -> bytes:
        """The value of the record."""
        return struct.pack(">hqq", _VERSION, self.upstream_offset, self.offset) + _text(self.metadata)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Sign of life of a pair of clusters. ``timestamp`` is in milliseconds since 1970."""

    source: str
    target: str
    timestamp: int

    @property
    def key(self) -> bytes:
        """The key of the record."""
        return _text(self.source) + _text(self.target)

    @property
    def value(self) -> bytes:
        """The value of the record."""
        return struct.pack(">hq", _VERSION, self.timestamp)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded
