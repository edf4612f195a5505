"""A connection against a socket server that misbehaves in every way that bytes on a socket can."""

import socket
import struct
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from kafka.protocol.producer import EndTxnRequest, ProduceRequest

from semel.config import ClientConfig
from semel.errors import DataLoss, Retriable
from semel.wire.connection import MAX_FRAME, MAX_PIECES, Connection

WAIT = 10.0
Script = Callable[["Server"], None]


class Server:
    """One accepted connection, as a script sees it."""

    def __init__(self, accepted: socket.socket) -> None:
        self.socket = accepted
        self.file = accepted.makefile("rb")

    def request(self) -> tuple[int, int, int, bytes]:
        """API key, version, correlation id, and what follows them."""
        (size,) = struct.unpack(">i", self.file.read(4))
        frame = self.file.read(size)
        return (*struct.unpack(">hhi", frame[:8]), frame[8:])

    def answer(self, correlation: int, body: bytes) -> None:
        self.socket.sendall(struct.pack(">ii", 4 + len(body), correlation) + body)

    def greet(self) -> None:
        """Answer ApiVersions as a broker does: EndTxn up to 5, Metadata up to 12, Produce up to 13."""
        key, version, correlation, _ = self.request()
        assert (key, version) == (18, 4)
        self.answer(correlation, api_versions(4, {26: (0, 5), 3: (0, 12), 0: (3, 13)}))


def api_versions(version: int, ranges: dict[int, tuple[int, int]], error: int = 0) -> bytes:
    rows = [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high)
        for key, (low, high) in ranges.items()
    ]
    return bytes(ApiVersionsResponse(error_code=error, api_keys=rows, throttle_time_ms=0).encode(version=version))


def ended(producer_id: int) -> bytes:
    """The body of an EndTxn answer in version 5, its header's tags included."""
    return b"\0" + struct.pack(">ihqh", 0, 0, producer_id, 7) + b"\0"


END = EndTxnRequest(transactional_id="t", producer_id=1, producer_epoch=1, committed=True)


def config(**settings: object) -> ClientConfig:
    return ClientConfig.parse({"bootstrap.servers": "localhost:1", "request.timeout.ms": 5000} | settings)


def address(listener: socket.socket) -> tuple[str, int]:
    host, port = listener.getsockname()
    return host, port


@contextmanager
def served(script: Script, **settings: object) -> Iterator[Connection]:
    """A connection to a server that greets and then follows the script. What fails in the script fails the test."""
    problems: list[BaseException] = []

    def run() -> None:
        accepted, _ = listener.accept()
        with accepted:
            server = Server(accepted)
            try:
                server.greet()
                script(server)
            except BaseException as error:
                problems.append(error)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=run)
        thread.start()
        connection = Connection(*address(listener), config(**settings))
        try:
            yield connection
        finally:
            connection.close()
            thread.join(WAIT)
    assert not thread.is_alive()
    assert problems == []


def until_closed(server: Server) -> None:
    with suppress(ConnectionError):
        assert server.file.read() == b""


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


def test_a_call_may_have_a_time_of_its_own() -> None:
    def script(server: Server) -> None:
        server.request()
        until_closed(server)

    with served(script) as connection, pytest.raises(Retriable, match="no answer in time"):
        connection.call(END, 5, timeout=0.05)


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
