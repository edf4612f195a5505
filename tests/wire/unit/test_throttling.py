"""A broker that enforces a quota: it answers at once, says for how long, and reads nothing from the connection until
then.
"""

from __future__ import annotations

import struct
import time

import pytest
from kafka.protocol.producer import ProduceRequest

from semel.errors import Retriable
from semel.wire.connection import Connection
from tests.wire.support.scripted_server import END, Server, ended, served

TIMEOUT_MS, THROTTLE_MS = 300, 700


def throttled(producer_id: int, milliseconds: int) -> bytes:
    return b"\0" + struct.pack(">ihqh", milliseconds, 0, producer_id, 7) + b"\0"


def answer_and_rest(server: Server, *, told: bool) -> None:
    """As a broker does; without ``told`` as one that is only slow."""
    _, _, correlation, _ = server.request()
    server.answer(correlation, throttled(0, THROTTLE_MS) if told else ended(0))
    time.sleep(THROTTLE_MS / 1000)


@pytest.mark.parametrize("told", [True, False])
def test_answers_behind_a_throttled_one_may_take_so_much_longer(told: bool) -> None:
    def script(server: Server) -> None:
        answer_and_rest(server, told=told)
        _, _, correlation, _ = server.request()
        if told:
            server.answer(correlation, ended(1))

    with served(script, **{"request.timeout.ms": TIMEOUT_MS}) as connection:
        connection.send(END, 5)
        connection.send(END, 5)
        assert connection.receive().producer_id == 0
        if told:
            assert connection.receive().producer_id == 1
            assert not connection.closed
        else:  # the control
            with pytest.raises(Retriable, match="no answer in time"):
                connection.receive()


def test_nothing_is_sent_before_the_time_is_over() -> None:
    came: list[float] = []

    def script(server: Server) -> None:
        _, _, correlation, _ = server.request()
        server.answer(correlation, throttled(0, THROTTLE_MS))
        came.append(time.monotonic())
        _, _, correlation, _ = server.request()
        came.append(time.monotonic())
        server.answer(correlation, ended(1))

    with served(script, **{"request.timeout.ms": TIMEOUT_MS}) as connection:
        assert connection.call(END, 5).producer_id == 0
        assert 0 < connection.muted <= THROTTLE_MS / 1000
        assert connection.call(END, 5).producer_id == 1
        assert connection.muted == 0
    assert came[1] - came[0] > THROTTLE_MS / 1000 - 0.05


@pytest.mark.parametrize("told", [True, False])
def test_a_request_that_does_not_get_out_is_waited_for(told: bool) -> None:
    """It is larger than all buffers, and it was begun before the answer that says why nothing is read."""
    body = bytes(32 << 20)

    def script(server: Server) -> None:
        answer_and_rest(server, told=told)
        if told:
            server.request()

    def both(connection: Connection) -> None:
        connection.send(END, 5)
        connection.send_raw([body], ProduceRequest, 13)

    with served(script, **{"request.timeout.ms": TIMEOUT_MS}) as connection:
        if told:
            both(connection)
            assert connection.waiting == 2
            assert connection.receive().producer_id == 0
        else:  # the control
            with pytest.raises(Retriable):
                both(connection)


def test_weeks_are_not_believed() -> None:
    def script(server: Server) -> None:
        _, _, correlation, _ = server.request()
        server.answer(correlation, throttled(0, 2**31 - 1))

    with served(script) as connection:
        connection.call(END, 5)
        assert connection.muted <= 300
