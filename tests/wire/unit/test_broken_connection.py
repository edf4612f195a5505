"""Answers that are damaged, late or not there: the connection is broken, in time, and says why."""

import socket
import struct
from contextlib import suppress

import numpy as np
import pytest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from kafka.protocol.producer import ProduceRequest

from semel.errors import DataLoss, Retriable
from semel.wire.connection import MAX_FRAME, Connection
from tests.wire.support.scripted_server import END, Script, Server, address, config, ended, served, until_closed

# ---- what breaks


def broken(script: Script, match: str, error: type[Exception] = Retriable, **settings: object) -> None:
    """One request fails with this error, and the connection is closed behind it."""
    with served(script, **settings) as connection:
        with pytest.raises(error, match=match):
            connection.call(END, 5)
        assert connection.closed
        assert connection.waiting == 0
        with pytest.raises(Retriable, match=r"\[SEMEL_CONNECTION\]"):
            connection.call(END, 5)


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x64", b"\0\0\0\x64" + b"x" * 50])
def test_an_answer_that_ends_in_the_middle(sent: bytes) -> None:
    def script(server: Server) -> None:
        server.request()
        server.socket.sendall(sent)

    broken(
        script, r"^\[SEMEL_CONNECTION\] the connection broke while waiting for 127\.0\.0\.1:\d+: the broker closed it\."
    )


@pytest.mark.parametrize(
    "head", [struct.pack(">i", size) for size in (-1, 0, 3, MAX_FRAME + 1, -(2**31))] + [b"HTTP", b"\x7f\xff\xff\xff"]
)
def test_a_length_that_is_none_is_not_waited_for_and_not_allocated(head: bytes) -> None:
    def script(server: Server) -> None:
        server.request()
        server.socket.sendall(head + b"x" * 64)
        with suppress(ConnectionError):
            server.file.read()

    broken(script, rf"it announced a frame of {struct.unpack('>i', head)[0]} bytes: not a Kafka listener")


@pytest.mark.parametrize("wrong", [0, 1, -1, 99])
def test_an_answer_to_another_request(wrong: int) -> None:
    def script(server: Server) -> None:
        server.request()
        server.answer(wrong, ended(42))
        until_closed(server)

    broken(
        script, rf"^\[SEMEL_CORRUPT_ANSWER\] .* EndTxnRequest version 5 .*answer {wrong} came where 2 was due", DataLoss
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0",
        b"\0\0\0\0\0",
        ended(42)[:-9],
        b"\xff" * 40,  # a number of tags without end
        b"\0" + b"\xff" * 3,
        b"\1\0\xff\xff\xff\x7f",
    ],
)
def test_an_answer_that_cannot_be_read(body: bytes) -> None:
    def script(server: Server) -> None:
        _, _, correlation, _ = server.request()
        server.answer(correlation, body)
        until_closed(server)

    broken(script, r"^\[SEMEL_CORRUPT_ANSWER\] .* that cannot be read .* Nothing was taken from it", DataLoss)


@pytest.mark.parametrize("seed", range(200))
def test_garbage_in_an_answer_is_told_as_such_or_read(seed: int) -> None:
    garbage = np.random.default_rng(seed).bytes(4 + seed)

    def script(server: Server) -> None:
        _, _, correlation, _ = server.request()
        server.answer(correlation, (b"\0\0\0\0\0" if seed % 2 else b"") + garbage)
        until_closed(server)

    with served(script) as connection, suppress(DataLoss):
        connection.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), 12)


def test_no_answer_in_time() -> None:
    def script(server: Server) -> None:
        server.request()
        until_closed(server)

    broken(script, "no answer in time", Retriable, **{"request.timeout.ms": 100})


def test_the_broker_closes_while_a_large_request_is_sent() -> None:
    def script(server: Server) -> None:
        server.file.read(1000)

    with served(script) as connection:

        def ask() -> None:
            connection.send_raw([bytes(50_000_000)], ProduceRequest, 13)
            connection.receive()

        with pytest.raises(Retriable, match=r"the connection broke while (sending to|waiting for)"):
            ask()
        assert connection.closed


def test_receiving_on_a_closed_connection_is_a_broken_connection() -> None:
    def script(server: Server) -> None:
        server.request()
        until_closed(server)

    with served(script) as connection:
        connection.send(END, 5)
        connection.close()
        with pytest.raises(Retriable, match="waiting for"):
            connection.receive()


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        host, port = unused.getsockname()
    with pytest.raises(Retriable, match=rf"\[SEMEL_CONNECTION\] {host}:{port} could not be reached: .*refused"):
        Connection(host, port, config())


def test_a_listener_that_never_greets_is_left_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(Retriable, match="no answer in time"):
        Connection(*address(silent), config(**{"request.timeout.ms": 50}))


@pytest.mark.parametrize(
    ("request_type", "version", "body", "named"),
    [
        (MetadataRequest, 12, b"\0" + bytes(4) + b"\0" + b"\0" + bytes(4) + b"\1\0", "brokers is null"),
        (
            MetadataRequest,
            12,
            b"\0" + bytes(4) + b"\2" + bytes(4) + b"\0" + bytes(4) + b"\0\0" + b"\0" + bytes(4) + b"\1\0",
            "host is null",
        ),
        (
            ApiVersionsRequest,
            4,
            b"\0\0\1\0\0\0\0\3\0\x0c\2\6out-7\xff\xff\x7f\xff\xff\0\1\x08\0\0\0\0",
            "tagged fields",
        ),
    ],
)
def test_a_null_where_kafka_has_none_is_a_damaged_answer(
    request_type: type, version: int, body: bytes, named: str
) -> None:
    """Found by the fuzzers: kafka-python takes them, and whoever uses the answer fails with an error of Python's
    own.
    """

    def script(server: Server) -> None:
        _, _, correlation, _ = server.request()
        server.answer(correlation, body)

    with served(script) as connection:
        connection.send_raw([b""], request_type, version)
        with pytest.raises(DataLoss, match=f"CORRUPT_ANSWER.*{named}"):
            connection.receive()
