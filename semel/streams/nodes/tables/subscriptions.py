"""What two tables tell each other in a foreign-key join, in Kafka Streams' bytes.

A subscription goes to the partition of the other table's key: what to do, a hash of the subscriber's value, its key and
its partition. The response comes back with the hash and the other table's value.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple

from semel.extras import needs_extras

__all__ = ["Instruction", "Response", "Subscription", "prefix", "value_hash"]

_SIZE = struct.Struct(">i")
_NO_HASH = 0x80
_VERSION = 1
_HASH = 16
_SEED = 104_729


class Instruction(IntEnum):
    """What the side of the other table does with a subscription."""

    DELETE = 0
    DELETE_AND_ANSWER = 1
    ANSWER_ALWAYS = 2
    ANSWER_IF_THERE = 3


def value_hash(value: bytes | None) -> bytes | None:
    """Return the hash of a value by which a response is known to be for it: Kafka's Murmur3 of 128 bits."""
    if value is None:
        return None
    with needs_extras("a foreign-key join", "streams", "Nothing of this transaction is visible."):
        import mmh3
    return struct.pack(">QQ", *mmh3.hash64(value, _SEED, signed=False))


def prefix(foreign_key: bytes) -> bytes:
    """Return the beginning of the store's keys of a foreign key; the subscriber's key is the rest."""
    return _SIZE.pack(len(foreign_key)) + foreign_key


class Subscription(NamedTuple):
    """A subscription of one key to a foreign key."""

    hash: bytes | None
    instruction: Instruction
    key: bytes
    partition: int

    def encode(self) -> bytes:
        """Return its bytes."""
        head = bytes([_VERSION | (_NO_HASH if self.hash is None else 0), self.instruction])
        return head + (self.hash or b"") + self.key + _SIZE.pack(self.partition)

    @classmethod
    def parse(cls, data: bytes) -> Subscription:
        """Return the subscription of these bytes."""
        begin = 2 if data[0] & _NO_HASH else 2 + _HASH
        (partition,) = _SIZE.unpack_from(data, len(data) - _SIZE.size)
        return cls(data[2:begin] or None, Instruction(data[1]), data[begin : -_SIZE.size], partition)


class Response(NamedTuple):
    """The other table's value for a subscriber, whose value has this hash."""

    hash: bytes | None
    value: bytes | None

    def encode(self) -> bytes:
        """Return its bytes."""
        return bytes([_NO_HASH if self.hash is None else 0]) + (self.hash or b"") + (self.value or b"")

    @classmethod
    def parse(cls, data: bytes) -> Response:
        """Return the response of these bytes. As in Kafka Streams, a value of no bytes is none."""
        begin = 1 if data[0] & _NO_HASH else 1 + _HASH
        return cls(data[1:begin] or None, data[begin:] or None)
