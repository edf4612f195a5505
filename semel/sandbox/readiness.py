"""Asks a broker whether it serves: one Metadata request (version 5) on a plain socket, 30 bytes.

The whole client is ``semel.wire``; the sandbox must not need what is tested against it. Nothing but the question of
readiness is answered here.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

__all__ = ["Answer", "ask"]

_METADATA, _VERSION, _CORRELATION = 3, 5, 1
_CLIENT = b"semel-sandbox"
_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the broker knows of its cluster."""

    cluster_id: str | None
    #: node id -> port, of every broker that is registered and alive
    brokers: dict[int, int]


def ask(port: int) -> Answer | None:
    """The broker's answer, or None while nobody answers as Kafka does."""
    header = struct.pack(">hhih", _METADATA, _VERSION, _CORRELATION, len(_CLIENT)) + _CLIENT
    request = header + struct.pack(">i?", 0, False)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            (size,) = struct.unpack(">i", _read(connection, 4))
            return _parse(_read(connection, size))
    except (OSError, struct.error, UnicodeDecodeError):
        return None


def _read(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("closed in the middle of an answer")
        parts += part
    return bytes(parts)


def _parse(body: bytes) -> Answer:
    correlation, _throttle, count = struct.unpack_from(">iii", body)
    if correlation != _CORRELATION:
        raise ConnectionError("an answer to another request")
    position = 12
    brokers: dict[int, int] = {}
    for _ in range(count):
        (node,) = struct.unpack_from(">i", body, position)
        _, position = _text(body, position + 4)
        (brokers[node],) = struct.unpack_from(">i", body, position)
        _, position = _text(body, position + 4)
    cluster_id, _ = _text(body, position)
    return Answer(cluster_id, brokers)


def _text(body: bytes, position: int) -> tuple[str | None, int]:
    (size,) = struct.unpack_from(">h", body, position)
    end = position + 2 + max(size, 0)
    return (body[position + 2 : end].decode() if size >= 0 else None), end
