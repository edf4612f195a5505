"""What a Python worker keeps from one task to the next."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from semel.config import ClientConfig
from semel.spark.worker_client import client


def config(servers: str) -> ClientConfig:
    return ClientConfig.parse({"bootstrap.servers": servers})


def test_the_next_task_has_the_same_client() -> None:
    first = client(config("one:9092"))
    assert client(config("one:9092")) is first
    assert client(config("two:9092")) is not first


def test_a_thread_has_its_own() -> None:
    first = client(config("one:9092"))
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lambda: client(config("one:9092"))).result() is not first
