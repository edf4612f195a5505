"""A node's properties, its ports, and what it answers."""

from __future__ import annotations

import socket
import struct
import threading
from pathlib import Path

import pytest

from semel.sandbox import settings
from semel.sandbox.ports import Ports, is_free
from semel.sandbox.readiness import ask


def properties(nodes: int, **extra: str) -> dict[str, str]:
    controllers = {node: 21_000 + node for node in range(1, nodes + 1)}
    return settings.server_properties(
        node_id=1, ports={"PLAINTEXT": 22_001}, controllers=controllers, data=Path("/data"), settings=extra
    )


@pytest.mark.parametrize(("nodes", "replicas", "in_sync"), [(1, "1", "1"), (2, "2", "1"), (3, "3", "2"), (5, "3", "2")])
def test_internal_topics_are_as_safe_as_the_cluster_allows(nodes: int, replicas: str, in_sync: str) -> None:
    made = properties(nodes)
    assert made["transaction.state.log.replication.factor"] == made["offsets.topic.replication.factor"] == replicas
    assert made["transaction.state.log.min.isr"] == made["min.insync.replicas"] == in_sync
    assert len(made["controller.quorum.voters"].split(",")) == nodes


def test_it_listens_on_the_loopback_address_only() -> None:
    made = properties(3)
    addresses = [*made["listeners"].split(","), *made["advertised.listeners"].split(",")]
    assert [address.split("://")[1].split(":")[0] for address in addresses] == ["127.0.0.1"] * 3


def test_settings_of_the_caller_win() -> None:
    assert properties(1, **{"num.partitions": "7", "min.insync.replicas": "9"})["min.insync.replicas"] == "9"


def test_text_of_properties() -> None:
    text = settings.properties_text({"a": "1", "path": "back\\slash"})
    assert text == "a=1\npath=back\\\\slash\n"
    assert settings.parse_properties("#comment\n\ncluster.id=x=y \n") == {"cluster.id": "x=y"}


def test_ids_are_new_and_not_mistaken_for_options() -> None:
    ids = {settings.new_cluster_id() for _ in range(500)}
    assert len(ids) == 500
    assert {len(text) for text in ids} == {22}
    assert not any(text.startswith("-") for text in ids)


def test_ports_are_free_and_nobody_else_gets_them() -> None:
    held = [Ports(20) for _ in range(20)]
    numbers = [number for ports in held for number in ports.numbers]
    assert len(set(numbers)) == 400
    assert all(is_free(number) for number in numbers)
    for ports in held:
        ports.release()


def test_a_port_somebody_listens_on_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_free(server.getsockname()[1])


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"\x00\x00",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        struct.pack(">i", 4) + b"\x00\x00\x00\x09",
        struct.pack(">iiii", 12, 1, 0, 5),
    ],
)
def test_whoever_does_not_answer_like_kafka_is_no_broker(reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        assert ask(server.getsockname()[1]) is None
        thread.join()
