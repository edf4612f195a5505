"""Transactional ids that have few epochs left: a producer id has 32,766, and a test has no time to end as many transactions."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from kafka.protocol.producer import InitProducerIdRequest

from semel.config import ClientConfig
from semel.wire.client import Client
from semel.wire.target import TransactionCoordinator
from semel.wire.transactions import fence

LAST_EPOCH = 32_766


def wear_out(properties: Mapping[str, object], transactional_id: str, left: int) -> None:
    """Let one owner follow the other until ``left`` epochs are: the requests are the same, and none waits for the answer before it."""
    with Client(ClientConfig.parse(properties)) as client:
        owners = LAST_EPOCH - left - fence(client, transactional_id).epoch
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1)
        body = request.encode(version=5)
        connection = client.connect(TransactionCoordinator(transactional_id), purpose="control")
        for at_once in (*[1_000] * (owners // 1_000), owners % 1_000):
            for _ in range(at_once):
                connection.send_raw([body], InitProducerIdRequest, 5, _error_code)
            assert {connection.receive() for _ in range(at_once)} <= {0}


def _error_code(frame: memoryview, start: int) -> int:
    return int(struct.unpack_from(">ih", frame, start)[1])
