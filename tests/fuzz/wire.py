"""What brokers say, fed to the connection that reads it: single answers, whole streams, and the proxy's view of
both.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from random import Random

from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest

from semel.config import ClientConfig
from semel.testing.proxy import addresses, frames
from semel.wire.api.fetch_frames import read_answer
from semel.wire.api_versions import Versions
from semel.wire.connection import Connection, _Due
from semel.wire.metadata import Metadata
from tests.fuzz import samples
from tests.fuzz.mutate import spoilt_bytes
from tests.fuzz.samples import ANSWERS

__all__ = ["every_answer", "make_answer", "make_frame", "make_stream", "read_answers", "read_frames", "read_stream"]

# ---- answers of brokers


@cache
def _config() -> ClientConfig:
    return ClientConfig.parse({"bootstrap.servers": "localhost:1", "request.timeout.ms": 2000})


class Fed(Connection):
    """A connection whose broker has said all that it will ever say before it was asked anything."""

    def __init__(self, said: bytes) -> None:
        self._said = said
        super().__init__("fed", 9092, _config())

    def _open(self, host: str, port: int) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.settimeout(5)
        with theirs:
            theirs.setblocking(False)
            with suppress(BlockingIOError):
                theirs.sendall(self._said)
            theirs.shutdown(socket.SHUT_WR)
            self._theirs = theirs.detach()
        return ours

    def close(self) -> None:
        super().close()
        with suppress(OSError, AttributeError):
            socket.close(self._theirs)
            del self._theirs


def _framed(frame: bytes) -> bytes:
    return struct.pack(">i", len(frame)) + frame


@cache
def _greeting() -> bytes:
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=kind.API_KEY, min_version=0, max_version=version)
        for kind, version in ANSWERS
    ]
    return _framed(
        b"\0\0\0\1" + bytes(ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0).encode(version=4))
    )


@cache
def _deaf() -> Connection:
    return Fed(_greeting())


def make_answer(random: Random) -> bytes:
    index = random.randrange(len(ANSWERS))
    return bytes([index]) + spoilt_bytes(random, samples.answers(index))


def every_answer() -> Sequence[bytes]:
    return [bytes([index]) + frame for index in range(len(ANSWERS)) for frame in samples.answers(index)]


def read_answers(data: bytes) -> None:
    """Which answer, and its frame."""
    if not data:
        return
    request_type, version = ANSWERS[data[0] % len(ANSWERS)]
    read = read_answer if request_type is FetchRequest else None
    answer = _deaf()._decode(memoryview(data)[1:], _Due(1, request_type, version, 1.0, read))
    if request_type is MetadataRequest:
        Metadata.read(answer)
    elif request_type is ApiVersionsRequest:
        Versions.read(answer, "fed:9092")


def make_stream(random: Random) -> bytes:
    """All that a broker says on a connection: the greeting, and an answer to Metadata."""
    said = [_greeting(), _framed(b"\0\0\0\2" + random.choice(samples.answers(2))[4:])]
    return spoilt_bytes(
        random,
        [b"".join(said), said[0], said[0] + b"\x15\x03\x03\0\x02\x02\x28", b"HTTP/1.1 400 Bad Request\r\n\r\n"],
        2,
    )


def read_stream(data: bytes) -> None:
    connection = Fed(data)
    try:
        Metadata.read(connection.call(MetadataRequest(topics=[]), 12))
    finally:
        connection.close()


# ---- frames and addresses of the proxy


def make_frame(random: Random) -> bytes:
    index = random.choice((2, 3, 4))
    request_type, version = ANSWERS[index]
    head = struct.pack(">hh", request_type.API_KEY, version)
    return (
        head
        + _framed(spoilt_bytes(random, samples.answers(index)))
        + (spoilt_bytes(random, [b"\0\0\0\2ab"]) if random.random() < 0.3 else b"")
    )


def read_frames(data: bytes) -> None:
    """API and version of what was asked, and the stream that answers it."""
    if len(data) < 4:
        return
    key, version = struct.unpack_from(">hh", data)

    async def walk() -> None:
        source = asyncio.StreamReader(limit=1 << 21)
        source.feed_data(data[4:])
        source.feed_eof()
        while (frame := await frames.read_frame(source)) is not None:
            frames.correlation_of(frame)
            frames.Request.read(frame).renumbered(3)
            addresses.addresses(key, version, frame)

    _loop().run_until_complete(walk())


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()
