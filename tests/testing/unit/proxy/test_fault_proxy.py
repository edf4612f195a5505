"""The proxy between raw sockets and a tiny server that answers each frame in order, as a broker does.

The real broker is in tests/wire/broker.
"""

import socket
import socketserver
import struct
import threading
from collections.abc import Iterator

import pytest

from semel.errors import ConfigError
from semel.testing.proxy.fault_proxy import FaultProxy

WAIT = 10.0
END_TXN, PRODUCE, METADATA = 26, 0, 3


def request(correlation: int, key: int = END_TXN, body: bytes = b"body", version: int = 5) -> bytes:
    frame = struct.pack(">hhi", key, version, correlation) + body
    return struct.pack(">i", len(frame)) + frame


class Broker(socketserver.ThreadingTCPServer):
    """Answers with the body and the number of the request, counted over all connections; a body ``silent`` gets no
    answer.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Talk)
        self.frames: list[bytes] = []
        self.broken: list[bytes] = []
        self.ended = threading.Semaphore(0)
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Talk(socketserver.StreamRequestHandler):
    server: Broker

    def handle(self) -> None:
        while head := self.rfile.read(4):
            (size,) = struct.unpack(">i", head)
            frame = self.rfile.read(size)
            if len(frame) < size:
                self.server.broken.append(frame)
                break
            with self.server.lock:
                self.server.frames.append(frame)
                number = len(self.server.frames)
            if frame[8:] != b"silent":
                answer = frame[4:8] + (frame[8:] if frame[:2] == b"\0\3" else b"%d:" % number + frame[8:])
                self.wfile.write(struct.pack(">i", len(answer)) + answer)
        self.server.ended.release()


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(broker: Broker) -> Iterator[FaultProxy]:
    with FaultProxy(broker.address) as proxy:
        yield proxy


class Client:
    def __init__(self, servers: str) -> None:
        host, port = servers.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=WAIT)
        self.file = self.socket.makefile("rb")

    def send(self, *frames: bytes) -> "Client":
        self.socket.sendall(b"".join(frames))
        return self

    def answer(self) -> tuple[int, bytes] | None:
        """Correlation id and body; None at the end of the connection."""
        head = self.file.read(4)
        if not head:
            return None
        frame = self.file.read(struct.unpack(">i", head)[0])
        return struct.unpack(">i", frame[:4])[0], frame[4:]

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture
def client(proxy: FaultProxy) -> Iterator[Client]:
    client = Client(proxy.bootstrap_servers)
    yield client
    client.close()


def bodies(broker: Broker) -> list[bytes]:
    return [frame[8:] for frame in broker.frames]


def test_without_faults_bytes_pass_and_are_seen(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    big = b"x" * 3_000_000
    client.send(request(1), request(2, PRODUCE, big), request(3))
    assert [client.answer(), client.answer(), client.answer()] == [(1, b"1:body"), (2, b"2:" + big), (3, b"3:body")]
    assert proxy.log == [("EndTxn", 1), ("Produce", 2), ("EndTxn", 3)]


def test_a_dropped_request_never_arrives_and_its_connection_ends(
    proxy: FaultProxy, client: Client, broker: Broker
) -> None:
    fault = proxy.drop_request("EndTxn", 2)
    client.send(request(1), request(2, PRODUCE), request(3))
    # what was asked before it is answered still
    assert [client.answer(), client.answer(), client.answer()] == [(1, b"1:body"), (2, b"2:body"), None]
    assert fault.happened.is_set()
    assert fault.finished.is_set()
    assert broker.ended.acquire(timeout=WAIT)
    assert bodies(broker) == [b"body", b"body"]


def test_a_dropped_reply_was_done(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    fault = proxy.drop_reply("EndTxn")
    client.send(request(1, PRODUCE), request(2))
    assert client.answer() == (1, b"1:body")
    assert client.answer() is None
    assert fault.happened.wait(WAIT)
    assert fault.answers == [b"2:body"]
    assert Client(proxy.bootstrap_servers).send(request(3)).answer() == (3, b"3:body")


def test_faults_count_over_connections_and_from_when_they_were_set(
    proxy: FaultProxy, client: Client, broker: Broker
) -> None:
    assert client.send(request(1)).answer() == (1, b"1:body")
    fault = proxy.drop_reply("EndTxn", 2)
    other = Client(proxy.bootstrap_servers)
    assert other.send(request(1)).answer() == (1, b"2:body")
    assert not fault.happened.is_set()
    assert client.send(request(2)).answer() is None
    assert fault.happened.is_set()


def test_faults_can_be_narrowed_by_what_the_request_holds(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    proxy.drop_reply("EndTxn", containing=b"mine")
    assert client.send(request(1, body=b"yours")).answer() == (1, b"1:yours")
    assert client.send(request(2, body=b"is mine")).answer() is None


def test_a_request_that_is_cut_arrives_in_part(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    fault = proxy.cut("EndTxn")
    client.send(request(1, body=b"12345678"))
    assert client.answer() is None
    assert fault.finished.is_set()
    assert broker.ended.acquire(timeout=WAIT)
    assert (broker.frames, broker.broken) == ([], [struct.pack(">hhi", END_TXN, 5, 1)])


def test_a_reply_that_is_cut_arrives_in_part(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    fault = proxy.cut("EndTxn", reply=True)
    client.send(request(1, body=b"123456"))
    assert client.file.read() == struct.pack(">ii", 12, 1) + b"1:"
    assert fault.answers == [b"1:123456"]


def test_a_held_request_waits_for_its_event(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    event = threading.Event()
    fault = proxy.delay_request("EndTxn", until=event)
    client.send(request(1, body=b"held"), request(2, body=b"behind"))
    assert fault.happened.wait(WAIT)
    other = Client(proxy.bootstrap_servers)
    assert other.send(request(1, body=b"other")).answer() == (1, b"1:other")
    event.set()
    assert [client.answer(), client.answer()] == [(1, b"2:held"), (2, b"3:behind")]
    assert fault.finished.is_set()


def test_a_held_request_arrives_though_its_client_has_gone(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    fault = proxy.delay_request("EndTxn")
    client.send(request(1, body=b"held"))
    assert fault.happened.wait(WAIT)
    client.close()
    assert Client(proxy.bootstrap_servers).send(request(1, body=b"next")).answer() == (1, b"1:next")
    fault.release()
    assert fault.finished.wait(WAIT)
    assert bodies(broker) == [b"next", b"held"]
    assert fault.answers == [b"2:held"]


def test_a_held_reply_was_done_already(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    fault = proxy.delay_reply("EndTxn")
    client.send(request(1))
    assert fault.happened.wait(WAIT)
    assert bodies(broker) == [b"body"]
    assert not fault.finished.is_set()
    fault.release()
    assert client.answer() == (1, b"1:body")


def test_delays_by_time_end_by_themselves(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    faults = [proxy.delay_request("EndTxn", seconds=0.01), proxy.delay_reply("EndTxn", seconds=0.01)]
    assert client.send(request(1)).answer() == (1, b"1:body")
    assert all(fault.finished.is_set() for fault in faults)


@pytest.mark.parametrize("where", ["request", "reply"])
def test_of_two_that_end_the_connection_the_second_meets_the_next_request(
    proxy: FaultProxy, broker: Broker, where: str
) -> None:
    drop = proxy.drop_request if where == "request" else proxy.drop_reply
    first, second, unwanted = drop("EndTxn"), drop("EndTxn"), drop("EndTxn")
    met = []
    for _ in range(2):
        client = Client(proxy.bootstrap_servers)
        assert client.send(request(1)).answer() is None
        client.close()
        met.append((first.happened.is_set(), second.happened.is_set()))
    assert met == [(True, False), (True, True)]
    proxy.withdraw(unwanted)
    client = Client(proxy.bootstrap_servers)
    assert client.send(request(1)).answer() is not None
    client.close()


def test_a_repeated_request_is_the_same_bytes_and_its_answers_are_kept_back(
    proxy: FaultProxy, client: Client, broker: Broker
) -> None:
    fault = proxy.repeat_request("EndTxn", times=2)
    client.send(request(7, body=b"again"), request(8, body=b"next"))
    assert [client.answer(), client.answer()] == [(7, b"1:again"), (8, b"4:next")]
    assert bodies(broker) == [b"again", b"again", b"again", b"next"]
    assert {frame[:4] for frame in broker.frames} == {struct.pack(">hh", END_TXN, 5)}
    assert fault.finished.is_set()
    assert fault.answers == [b"1:again", b"2:again", b"3:again"]


def test_a_late_copy_comes_when_it_is_told(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    later = threading.Event()
    fault = proxy.repeat_request("EndTxn", times=2, later=later)
    assert client.send(request(7, body=b"late")).answer() == (7, b"1:late")
    assert client.send(request(8, body=b"next")).answer() == (8, b"2:next")
    client.close()
    assert fault.happened.is_set()
    assert not fault.finished.is_set()
    later.set()
    assert fault.finished.wait(WAIT)
    assert bodies(broker) == [b"late", b"next", b"late", b"late"]
    assert broker.frames[0] == broker.frames[2] == broker.frames[3]
    assert fault.answers == [b"1:late", b"3:late", b"4:late"]


def test_a_fault_that_is_withdrawn_lets_go_and_meets_nothing_more(
    proxy: FaultProxy, client: Client, broker: Broker
) -> None:
    held, waiting = proxy.delay_request("EndTxn"), proxy.drop_request("EndTxn", 2)
    client.send(request(1))
    assert held.happened.wait(WAIT)
    for fault in (held, waiting):
        proxy.withdraw(fault)
    assert client.answer() == (1, b"1:body")
    assert client.send(request(2)).answer() == (2, b"2:body")
    assert not waiting.happened.is_set()


def test_watching_changes_nothing(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    fault = proxy.watch("EndTxn", 2)
    client.send(request(1), request(2))
    assert [client.answer(), client.answer()] == [(1, b"1:body"), (2, b"2:body")]
    assert fault.finished.is_set()
    assert fault.answers == [b"2:body"]


def test_two_faults_may_meet_one_request(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    held, lost = proxy.delay_request("EndTxn"), proxy.drop_reply("EndTxn")
    client.send(request(1))
    assert held.happened.wait(WAIT)
    assert not lost.happened.is_set()
    held.release()
    assert client.answer() is None
    assert lost.answers == [b"1:body"]


def test_requests_without_answers_are_passed_over(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    client.send(request(1, PRODUCE, b"silent"), request(2))
    assert client.answer() == (2, b"2:body")


def test_clients_are_led_to_the_proxy(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    with Broker() as second:
        thread = threading.Thread(target=second.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        # the tiny broker answers Metadata with the body of the request: throttle time, two brokers
        port = int(second.address.split(":")[1])
        body = struct.pack(">ii", 0, 1) + struct.pack(">ih9si", 1, 9, b"127.0.0.1", port) + struct.pack(">h", -1)
        answers = [client.send(request(i, METADATA, body, version=3)).answer() for i in (1, 2)]
        assert answers[0] is not None
        assert answers[1] == (2, answers[0][1])
        (led,) = struct.unpack_from(">i", answers[0][1], 4 + 4 + 4 + 2 + 9)
        assert led != port
        assert Client(f"127.0.0.1:{led}").send(request(1)).answer() == (1, b"1:body")
        assert len(second.frames) == 1
        second.shutdown()
        thread.join()


def test_a_broker_that_is_down_looks_down(broker: Broker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"127.0.0.1:{unused.getsockname()[1]}"
    with FaultProxy(address) as proxy:
        assert Client(proxy.bootstrap_servers).answer() is None


def test_bytes_that_are_not_kafkas_end_their_connection(proxy: FaultProxy, client: Client, broker: Broker) -> None:
    assert client.send(b"GET / HTTP/1.1\r\n\r\n").answer() is None
    assert Client(proxy.bootstrap_servers).send(request(1)).answer() == (1, b"1:body")


def test_stopping_ends_connections_and_what_is_held(broker: Broker) -> None:
    proxy = FaultProxy(broker.address)
    fault = proxy.delay_request("EndTxn")
    client = Client(proxy.bootstrap_servers).send(request(1))
    assert fault.happened.wait(WAIT)
    proxy.stop()
    assert client.answer() is None
    assert broker.frames == []
    proxy.stop()


def test_what_breaks_inside_the_proxy_is_raised_at_its_end(broker: Broker) -> None:
    proxy = FaultProxy(broker.address)
    client = Client(proxy.bootstrap_servers)
    # an answer to Metadata that ends in the middle cannot be led to the proxy
    assert client.send(request(1, METADATA, b"\0\0\0\0\0\0\0\1", version=3)).answer() is None
    with pytest.raises(ValueError, match="cannot be read"):
        proxy.stop()


def test_faults_that_cannot_be_are_refused(proxy: FaultProxy) -> None:
    with pytest.raises(ValueError, match="not the name of a Kafka API"):
        proxy.drop_reply("EndTransaction")
    with pytest.raises(ValueError, match="number 1"):
        proxy.drop_reply("EndTxn", 0)
    with pytest.raises(ConfigError, match="not host:port"):
        FaultProxy("localhost")
