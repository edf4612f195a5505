"""A server that follows a script, and a connection to it."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from kafka.protocol.metadata import ApiVersionsResponse
from kafka.protocol.producer import EndTxnRequest

from semel.config import ClientConfig
from semel.wire.connection import Connection

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
