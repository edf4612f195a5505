"""Using up the epochs of transactional ids: for real, and for many ids at once by the log that their coordinator keeps
of them.

An epoch costs a request, 32,766 of them some five seconds. A coordinator that starts knows what its log says: an id
whose last record is written again with another epoch stands where it would have come to.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from kafka.protocol.producer import InitProducerIdRequest

import semel
from semel.config import ClientConfig
from semel.sandbox import Sandbox
from semel.wire.api.describe_transactions import describe
from semel.wire.api.transactions import fence
from semel.wire.client import Client
from semel.wire.target import TransactionCoordinator

__all__ = ["LAST_EPOCH", "coordinator_record", "identity", "leave_epochs", "own", "use_up", "with_epoch"]

#: With this one a transaction still runs; its end brings another producer id.
LAST_EPOCH = 32_766
_LOG = "__transaction_state"
#: A record of an id begins with its version, producer id and epoch, in every version.
_START = struct.Struct(">hqh")
#: Brokers let nobody else write to a topic of their own.
_ADMINISTRATOR = {"client.id": "__admin_client"}
_AT_ONCE = 1_000


def identity(servers: str, transactional_id: str) -> tuple[int, int]:
    """Return the producer id and epoch that the coordinator has."""
    with _client(servers) as client:
        found = describe(client, transactional_id)
        assert found is not None
        return found.producer_id, found.epoch


def own(servers: str, transactional_id: str) -> None:
    """Own it once, and leave what an owner leaves: an id that is known and has left nothing is taken for one whose
    progress was lost.
    """
    with semel.Cluster({"bootstrap.servers": servers}) as cluster, cluster.producer(transactional_id) as producer:
        producer.take_over()


def use_up(servers: str, transactional_id: str, until: int) -> None:
    """Let one owner follow the other until an epoch: the requests are the same, and none waits for the answer before
    it.
    """
    own(servers, transactional_id)
    with _client(servers) as client:
        left = until - fence(client, transactional_id).epoch
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
        )
        body = request.encode(version=5)
        connection = client.connect(TransactionCoordinator(transactional_id), purpose="control")
        for at_once in (*[_AT_ONCE] * (left // _AT_ONCE), left % _AT_ONCE):
            for _ in range(at_once):
                connection.send_raw([body], InitProducerIdRequest, 5, _error_code)
            answers = {connection.receive() for _ in range(at_once)}
            assert answers <= {0}, f"error codes of InitProducerId: {answers}"


def _error_code(frame: memoryview, start: int) -> int:
    return int(struct.unpack_from(">ih", frame, start)[1])


def leave_epochs(kafka: Sandbox, epochs: Mapping[str, int]) -> None:
    """Have each id stand at its epoch: they are taken, the coordinator's last record of each is written again, and the
    broker is started again.
    """
    for name in epochs:
        own(kafka.bootstrap_servers, name)
    _write_again(kafka.bootstrap_servers, epochs)
    (node,) = kafka.nodes
    node.stop()
    node.start()
    node.wait_ready()


def _write_again(servers: str, epochs: Mapping[str, int]) -> None:
    producer = Producer({"bootstrap.servers": servers, "acks": "all", **_ADMINISTRATOR})
    refused: list[object] = []
    for name, found in _records(servers, set(epochs)).items():
        value = with_epoch(found.value(), epochs[name])
        producer.produce(
            _LOG,
            key=found.key(),
            value=value,
            partition=found.partition(),
            on_delivery=lambda error, _: refused.append(error),
        )
    assert producer.flush(60) == 0
    assert refused == [None] * len(epochs)


def coordinator_record(servers: str, transactional_id: str) -> bytes:
    """Return the last record of an id in its coordinator's log."""
    return bytes(_records(servers, {transactional_id})[transactional_id].value())


def with_epoch(record: bytes, epoch: int) -> bytes:
    """Return the same record with another epoch."""
    version, producer_id, _ = _START.unpack_from(record)
    return _START.pack(version, producer_id, epoch) + record[_START.size :]


def _records(servers: str, names: set[str]) -> dict[str, Message]:
    """Return the last record of each id."""
    keys = {struct.pack(">hh", 0, len(name)) + name.encode(): name for name in names}
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "epochs", "enable.partition.eof": True, "enable.auto.commit": False}
    )
    try:
        partitions = consumer.list_topics(_LOG, timeout=30).topics[_LOG].partitions
        consumer.assign([TopicPartition(_LOG, index, OFFSET_BEGINNING) for index in partitions])
        found: dict[str, Message] = {}
        ended: set[int] = set()
        while len(ended) < len(partitions):
            for message in consumer.consume(10_000, timeout=1):
                if message.error() is not None:
                    ended.add(message.partition())
                elif message.key() in keys:
                    found[keys[message.key()]] = message
        assert found.keys() == names
        return found
    finally:
        consumer.close()


def _client(servers: str) -> Client:
    return Client(ClientConfig.parse({"bootstrap.servers": servers}))
