"""Jobs for workers of streams, and what has to be there when all is counted: output, changelog and stores."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from semel.sandbox import Sandbox
from semel.streams.state.rocks import Rocks
from semel.streams.state.store import Store, StoreSpec
from semel.streams.testing import Driver
from semel.testing.records import read
from tests.crash.support.streams_worker import PARTITIONS, StreamsJob
from tests.topics import create
from tests.waiting import PATIENCE_S

WORDS = 40

_names = itertools.count(1)


def new_job(broker: Sandbox, folder: Path, rows: int, total: int | None = None, *, replication: int = 1) -> StreamsJob:
    servers, unique = broker.bootstrap_servers, f"streams-{next(_names)}"
    source, target = (create(servers, f"{unique}-{kind}", PARTITIONS, replication) for kind in ("in", "out"))
    job = StreamsJob(servers, unique, source, target, rows if total is None else total, str(folder / "state"))
    fill(job, 0, rows)
    return job


def word(number: int) -> str:
    return f"word-{number * number % WORDS}"


def time_of(number: int) -> int:
    """Return the time of a record. Times rise, except for late records, some too late for their windows."""
    return 1_700_000_000_000 + number - number * 7919 % 41


def fill(job: StreamsJob, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": job.servers, "enable.idempotence": True})
    send(producer, job, first, end)
    assert producer.flush(60) == 0


def send(producer: Producer, job: StreamsJob, first: int, end: int) -> None:
    """Send records with these numbers, without waiting for their acknowledgement."""
    for number in range(first, end):
        text, partition = word(number), number % PARTITIONS
        producer.produce(job.source, value=text, key=text, partition=partition, timestamp=time_of(number))


def truth(job: StreamsJob) -> dict[str, int]:
    return dict(Counter(word(number) for number in range(job.total)))


def written(job: StreamsJob) -> dict[str, list[int]]:
    """All counts of each word in the output, in their order."""
    rows = read(job.servers, [job.target], {"key": "key", "value": "value"}, timeout=PATIENCE_S)
    found: dict[str, list[int]] = {}
    for key, value in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True):
        found.setdefault(key, []).append(int(value))
    return found


def stored(job: StreamsJob, *folders: str) -> dict[str, int]:
    """Return the contents of the stores. If several have a partition, the one with the farthest position counts."""
    found: dict[str, int] = {}
    for folder in sorted(path for base in folders or (job.state_dir,) for path in Path(base).glob("*/1_*/rocksdb/*")):
        store = Store(StoreSpec("counts"), Rocks(folder))
        for key, _, _, value in store.entries():
            found[key.decode()] = max(found.get(key.decode(), 0), int.from_bytes(value, "big"))
        store.close()
    return found


def stored_windows(job: StreamsJob, *folders: str) -> dict[tuple[int, bytes, int], int]:
    """Return the windows in the stores by partition, word and window start. Of several folders one counts, as in
    :func:`stored`.
    """
    found: dict[tuple[int, bytes, int], int] = {}
    for folder in [path for base in folders or (job.state_dir,) for path in Path(base).glob("*/0_*/rocksdb/windows")]:
        store = Store(StoreSpec("windows", 1), Rocks(folder))
        for key, begin, _, value in store.entries():
            place = int(folder.parents[1].name[2:]), key, begin or 0
            found[place] = max(found.get(place, 0), int.from_bytes(value, "big"))
        store.close()
    return found


def stored_seen(job: StreamsJob, *folders: str) -> dict[tuple[int, str], int]:
    """Return what the processor has counted, by partition and word."""
    found: dict[tuple[int, str], int] = {}
    for folder in [path for base in folders or (job.state_dir,) for path in Path(base).glob("*/0_*/rocksdb/seen")]:
        store = Store(StoreSpec("seen"), Rocks(folder))
        for key, _, _, value in store.entries():
            place = int(folder.parents[1].name[2:]), key.decode()
            found[place] = max(found.get(place, 0), int.from_bytes(value, "big"))
        store.close()
    return found


def true_windows(job: StreamsJob) -> dict[tuple[int, bytes, int], int]:
    """Return the windows of the test driver, which knows neither brokers nor restarts."""
    found = {}
    for partition in range(PARTITIONS):
        driver = Driver(job.app())
        numbers = range(partition, job.total, PARTITIONS)
        driver.pipe_many(job.source, [(word(number), word(number), time_of(number)) for number in numbers])
        for (key, begin), value in driver.store("windows").items():
            found[partition, key, begin] = int.from_bytes(value, "big")
    return found


def in_changelog(job: StreamsJob) -> dict[str, int]:
    """Return the newest count of each word in the changelog, by a reader that is not ours."""
    ends = read(job.servers, [job.changelog], {"key": "key"}, timeout=PATIENCE_S).num_rows
    settings = {"bootstrap.servers": job.servers, "group.id": "look", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.assign([TopicPartition(job.changelog, index, 0) for index in range(PARTITIONS)])
    found: dict[str, int] = {}
    while ends:
        message = consumer.poll(1)
        if message is not None and not message.error():
            found[message.key().decode()] = int.from_bytes(message.value(), "big")
            ends -= 1
    consumer.close()
    return found


def assert_exact(job: StreamsJob, *folders: str) -> None:
    assert not (wrong := differences(job, *folders)), wrong


def differences(job: StreamsJob, *folders: str) -> list[str]:
    """Return what is not exact. Each count rises and is there once, so nothing was counted again. The last one is right
    everywhere.
    """
    counts = written(job)
    wrong = [f"output of {key}: {series}" for key, series in counts.items() if series != sorted(set(series))]
    seen = Counter((number % PARTITIONS, word(number)) for number in range(job.total))
    compared: list[tuple[str, Mapping[Any, int], Mapping[Any, int]]] = [
        ("the output", {key: series[-1] for key, series in counts.items()}, truth(job)),
        ("the changelog", in_changelog(job), truth(job)),
        ("the store counts", stored(job, *folders), truth(job)),
        ("the store windows", stored_windows(job, *folders), true_windows(job)),
        ("the store seen", stored_seen(job, *folders), seen),
    ]
    for what, found, true in compared:
        keys = sorted(key for key in {*found, *true} if found.get(key, 0) != true.get(key, 0))
        if keys:
            first = keys[0]
            wrong.append(
                f"{what}: {len(keys)} keys are wrong; {first} has {found.get(first)}, and it is {true.get(first)}"
            )
    return wrong
