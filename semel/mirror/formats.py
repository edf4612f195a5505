"""MirrorMaker 2's own bytes: checkpoints, heartbeats and offset syncs, as ``RemoteClusterUtils`` reads them.

Numbers are big-endian, and a text is its length in two bytes and UTF-8, as in Kafka's own records.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = ["Checkpoint", "Heartbeat", "OffsetSync"]

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

    @classmethod
    def parse(cls, key: bytes, value: bytes) -> Checkpoint:
        """From a record. Raises ``ValueError`` or ``struct.error`` for what is none."""
        group, at = _read_text(key, 0)
        topic, at = _read_text(key, at)
        (partition,) = struct.unpack_from(">i", key, at)
        version, upstream, offset = struct.unpack_from(">hqq", value)
        if version != _VERSION:
            raise ValueError(f"a checkpoint has version {version}")
        metadata, _ = _read_text(value, 18)
        return cls(group, topic, partition, upstream, offset, metadata)


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


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """A record of a source topic, and its offset on the target."""

    topic: str
    partition: int
    upstream_offset: int
    offset: int

    @property
    def key(self) -> bytes:
        """The key of the record."""
        return _text(self.topic) + struct.pack(">i", self.partition)

    @property
    def value(self) -> bytes:
        """The value of the record. It has no version."""
        return struct.pack(">qq", self.upstream_offset, self.offset)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _read_text(packed: bytes, at: int) -> tuple[str, int]:
    """Return a text, and where the next field begins."""
    (size,) = struct.unpack_from(">h", packed, at)
    end = at + 2 + size
    if size < 0 or end > len(packed):
        raise ValueError("a text is truncated")
    return packed[at + 2 : end].decode(), end
