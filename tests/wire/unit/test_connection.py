"""A connection against a socket server that misbehaves in every way that bytes on a socket can."""

import socket
import struct
import threading
import tracemalloc

import numpy as np
import pytest
from kafka.protocol.producer import EndTxnRequest, ProduceRequest

from semel.errors import Retriable
from semel.wire.connection import MAX_FRAME, MAX_PIECES, Connection
from tests.wire.support.scripted_server import (
    END,
    WAIT,
    Server,
    address,
    api_versions,
    config,
    ended,
    served,
    until_closed,
)


def test_an_answer_is_decoded_and_versions_are_known() -> None:
    def script(server: Server) -> None:
        key, version, correlation, rest = server.request()
        assert (key, version) == (26, 5)
        assert rest.startswith(b"\0\5semel")
        server.answer(correlation, ended(42))

    with served(script) as connection:
        assert connection.call(END, 5).producer_id == 42
        assert connection.versions.pick(EndTxnRequest, 0, 9) == 5
        assert connection.waiting == 0
        assert not connection.closed


def test_several_requests_are_under_way_and_answered_in_order() -> None:
    def script(server: Server) -> None:
        requests = [server.request() for _ in range(3)]
        for number, (_, _, correlation, _) in enumerate(requests):
            server.answer(correlation, ended(number))

    with served(script) as connection:
        for _ in range(3):
            connection.send(END, 5)
        assert connection.waiting == 3
        assert [connection.receive().producer_id for _ in range(3)] == [0, 1, 2]


def test_an_answer_may_come_byte_by_byte() -> None:
    def script(server: Server) -> None:
        server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _, _, correlation, _ = server.request()
        body = ended(42)
        for byte in struct.pack(">ii", 4 + len(body), correlation) + body:
            server.socket.sendall(bytes([byte]))

    with served(script) as connection:
        assert connection.call(END, 5).producer_id == 42


def test_unknown_tags_in_an_answers_header_are_passed_over() -> None:
    def script(server: Server) -> None:
        _, _, correlation, _ = server.request()
        server.answer(correlation, b"\2\0\3abc\x85\1\0" + ended(42)[1:])

    with served(script) as connection:
        assert connection.call(END, 5).producer_id == 42


@pytest.mark.parametrize("pieces", [1, 3, MAX_PIECES, 2 * MAX_PIECES + 7])
def test_a_body_in_pieces_arrives_whole(pieces: int) -> None:
    body = [np.full(3_000_000 // pieces + i % 5, i % 251, np.uint8).data for i in range(pieces)]
    body.insert(pieces // 2, memoryview(b""))
    arrived: list[bytes] = []

    def script(server: Server) -> None:
        key, version, correlation, rest = server.request()
        assert (key, version) == (0, 13)
        arrived.append(rest)
        server.answer(correlation, b"\0\1" + struct.pack(">i", 0) + b"\0")

    with served(script) as connection:
        connection.send_raw(body, ProduceRequest, 13)
        assert connection.receive().responses == []
    assert arrived == [b"\0\5semel\0" + b"".join(body)]


def test_a_broker_that_knows_no_version_4_is_asked_for_what_it_knows() -> None:
    def serve() -> None:
        accepted, _ = listener.accept()
        with accepted:
            server = Server(accepted)
            for expected, error in ((4, 35), (0, 0)):
                _, version, correlation, _ = server.request()
                assert version == expected
                server.answer(correlation, api_versions(0, {18: (0, 3), 26: (0, 1)}, error))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        connection = Connection(*address(listener), config())
        assert connection.versions.ranges == {18: (0, 3), 26: (0, 1)}
        connection.close()
        thread.join(WAIT)


def test_a_call_may_have_a_time_of_its_own() -> None:
    def script(server: Server) -> None:
        server.request()
        until_closed(server)

    with served(script) as connection, pytest.raises(Retriable, match="no answer in time"):
        connection.call(END, 5, timeout=0.05)


def test_closing_wakes_who_waits_in_another_thread() -> None:
    arrived = threading.Event()

    def script(server: Server) -> None:
        server.request()
        arrived.set()
        until_closed(server)

    with served(script) as connection:
        failed: list[BaseException] = []

        def ask() -> None:
            try:
                connection.call(END, 5)
            except Retriable as error:
                failed.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        assert arrived.wait(WAIT)
        connection.close()
        thread.join(WAIT / 4)  # well below request.timeout.ms
        assert not thread.is_alive()
        assert len(failed) == 1


def test_a_frame_takes_no_memory_before_it_is_there() -> None:
    """Found by the fuzzers: a length of a gigabyte, and nothing behind it."""

    def script(server: Server) -> None:
        server.request()
        server.socket.sendall(struct.pack(">i", MAX_FRAME) + b"x" * 100)

    with served(script) as connection:
        tracemalloc.start()
        try:
            with pytest.raises(Retriable):
                connection.call(END, 5)
            assert tracemalloc.get_traced_memory()[1] < 80 << 20
        finally:
            tracemalloc.stop()


def test_a_frame_that_is_larger_than_what_is_taken_at_once_is_whole() -> None:
    size = (65 << 20) + 3

    def script(server: Server) -> None:
        server.request()
        server.socket.sendall(struct.pack(">ii", size, 2) + bytes(size - 7) + b"end")

    with served(script) as connection:
        connection.send_raw([b""], EndTxnRequest, 5, lambda frame, start: (len(frame), bytes(frame[-3:])))
        assert connection.receive() == (size, b"end")
