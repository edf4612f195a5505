"""Jobs for workers of streams, and what has to be there when all is counted: output, changelog and stores."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from semel.sandbox import Sandbox
from semel.streams.nodes.waiting import unmatched
from semel.streams.state.rocks import Rocks
from semel.streams.state.state_store import StateStore, StoreSpec
from semel.streams.testing import Driver
from semel.testing.records import read
from tests.streams.support.streams_worker import (
    EVEN,
    PARTITIONS,
    TABLE_EVERY,
    StreamsJob,
    account,
    is_bad,
    is_even,
    paired,
    work,
)
from tests.support.topics import create
from tests.support.waiting import PATIENCE_S

WORDS = 40

_names = itertools.count(1)


def new_job(
    broker: Sandbox,
    folder: Path,
    rows: int,
    total: int | None = None,
    *,
    shape: str = "count",
    replication: int = 1,
) -> StreamsJob:
    """Return a job with so many rows in its source. The table of a join is read before any row of its stream."""
    servers, unique = broker.bootstrap_servers, f"streams-{next(_names)}"
    source, target = (create(servers, f"{unique}-{kind}", PARTITIONS, replication) for kind in ("in", "out"))
    job = StreamsJob(servers, unique, source, target, 0, str(folder / "state"), shape=shape)
    if shape == "join":
        job = replace(job, table=create(servers, f"{unique}-users", PARTITIONS, replication), users=WORDS)
        produce(servers, job.table, ((f"word-{number}", user(f"word-{number}")) for number in range(WORDS)))
        work(job)
    if shape == "tables":
        create(servers, job.letters, PARTITIONS, replication)
    job = replace(job, total=rows if total is None else total)
    fill(job, 0, rows)
    return job


def word(number: int) -> str:
    return f"word-{number * number % WORDS}"


def user(key: str) -> str:
    return f"user of {key}"


def time_of(number: int) -> int:
    """Return the time of a record. Times rise, except for late records, some too late for their windows."""
    return 1_700_000_000_000 + number - number * 7919 % 41


def fill(job: StreamsJob, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": job.servers, "enable.idempotence": True})
    send(producer, job, first, end)
    assert producer.flush(60) == 0


def produce(servers: str, topic: str, rows: Iterable[tuple[str, str]]) -> None:
    producer = Producer(
        {"bootstrap.servers": servers, "enable.idempotence": True, "queue.buffering.max.messages": 1_000_000}
    )
    for key, value in rows:
        producer.produce(topic, value, key=key)
    assert producer.flush(60) == 0


def send(producer: Producer, job: StreamsJob, first: int, end: int) -> None:
    """Send records with these numbers, without waiting for their acknowledgement. A join's table changes among them, at
    keys that its stream does not have.
    """
    for number in range(first, end):
        key, at = word(number), time_of(number)
        if job.shape in ("count", "pairs", "tables"):
            producer.produce(job.source, value=key, key=key, partition=number % PARTITIONS, timestamp=at)
            continue
        producer.produce(job.source, value=str(number), key=key, timestamp=at)
        if job.table and number % TABLE_EVERY == TABLE_EVERY - 1:
            key, value = other(number)
            producer.produce(job.table, value=value, key=key, timestamp=at)


def other(number: int) -> tuple[str, str]:
    """Return the record of a join's table that comes with this number. Values rise."""
    return f"other-{number // TABLE_EVERY % WORDS}", f"{number:08}"


def truth(job: StreamsJob) -> dict[str, int]:
    return dict(Counter(word(number) for number in range(job.total)))


def true_copy(job: StreamsJob) -> dict[str, list[str]]:
    """Return the values of each key in the output of a copy or a join, in their order."""
    found: dict[str, list[str]] = {}
    for number in range(job.total):
        key = word(number)
        found.setdefault(key, []).append(f"{number} {user(key)}" if job.table else str(number))
    return found


def true_table(job: StreamsJob) -> dict[str, str]:
    """Return the contents of a join's table."""
    first = {f"word-{number}": user(f"word-{number}") for number in range(WORDS)}
    return first | dict(map(other, range(TABLE_EVERY - 1, job.total, TABLE_EVERY)))


def written(job: StreamsJob) -> dict[str, list[str]]:
    """All values of each key in the output, in their order."""
    rows = read(job.servers, [job.target], {"key": "key", "value": "value"}, timeout=PATIENCE_S)
    found: dict[str, list[str]] = {}
    for key, value in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True):
        found.setdefault(key, []).append(value)
    return found


def _stored(job: StreamsJob, folders: Sequence[str], part: int, spec: StoreSpec) -> dict[tuple[int, bytes, int], bytes]:
    """Return the contents of the stores of a sub-topology by partition, key and window start. Values rise: if several
    folders have a partition, the one with the farthest position counts.
    """
    found: dict[tuple[int, bytes, int], bytes] = {}
    pattern = f"*/{part}_*/rocksdb/{spec.name}"
    for folder in [path for base in folders or (job.state_dir,) for path in Path(base).glob(pattern)]:
        store = StateStore(spec, Rocks(folder))
        for key, begin, _, value in store.entries():
            place = int(folder.parents[1].name[2:]), key, begin or 0
            found[place] = max(found.get(place, b""), value)
        store.close()
    return found


def stored(job: StreamsJob, *folders: str) -> dict[str, int]:
    """Return the counts in the stores: each word is in one partition."""
    return {
        key.decode(): _number(value) for (_, key, _), value in _stored(job, folders, 1, StoreSpec("counts")).items()
    }


def stored_windows(job: StreamsJob, *folders: str) -> dict[tuple[int, bytes, int], int]:
    """Return the windows in the stores by partition, word and window start."""
    return {place: _number(value) for place, value in _stored(job, folders, 0, StoreSpec("windows", 1)).items()}


def stored_seen(job: StreamsJob, *folders: str) -> dict[tuple[int, str], int]:
    """Return what the processor has counted, by partition and word."""
    found = _stored(job, folders, 0, StoreSpec("seen"))
    return {(partition, key.decode()): _number(value) for (partition, key, _), value in found.items()}


def stored_table(job: StreamsJob, *folders: str) -> dict[str, str]:
    """Return the table of a join in the stores."""
    found = _stored(job, folders, 0, StoreSpec("users"))
    return {key.decode(): value.decode() for (_, key, _), value in found.items()}


def _number(value: bytes) -> int:
    return int.from_bytes(value, "big")


def true_windows(job: StreamsJob) -> dict[tuple[int, bytes, int], int]:
    """Return the windows of the test driver, which knows neither brokers nor restarts."""
    return {
        (partition, key, begin): _number(value)
        for partition, driver in enumerate(_drivers(job))
        for (key, begin), value in driver.store("windows").items()
    }


def _drivers(job: StreamsJob) -> Iterator[Driver]:
    """Yield a test driver for each partition, after all of its records."""
    for partition in range(PARTITIONS):
        driver = Driver(job.app())
        numbers = range(partition, job.total, PARTITIONS)
        driver.pipe_many(job.source, [(word(number), word(number), time_of(number)) for number in numbers])
        yield driver


def _wrong_sessions(job: StreamsJob) -> list[str]:
    """Compare the sessions of a count with those of the test driver."""
    true = {
        (partition, key, begin): _number(value)
        for partition, driver in enumerate(_drivers(job))
        for (key, begin), value in driver.store("sessions").items()
    }
    changes = _changelog(job, "sessions").items()
    kept = {(index, key[:-16], _number(key[-8:])): _number(value) for (index, key), value in changes}
    return _compared(("the sessions", kept, true))


def _wrong_pairs(job: StreamsJob) -> list[str]:
    """Compare a join of two streams with that of the test driver. When a record without a partner is handed on depends
    on restarts: those that still wait are taken as handed on.
    """
    true: Counter[tuple[str, str]] = Counter()
    for driver in _drivers(job):
        true.update((one.key, one.value) for one in driver.read(job.target))
        true.update(_waiting(driver.store("met-left-shared-join-store")))
    pairs = read(job.servers, [job.target], {"key": "key", "value": "value"}, timeout=PATIENCE_S)
    written = Counter(zip(pairs["key"].to_pylist(), pairs["value"].to_pylist(), strict=True))
    for (_, key), value in _changelog(job, "met-left-shared-join-store").items():
        written.update(_waiting({key: value}))
    return _compared(("the pairs", written, true))


def _waiting(entries: Mapping[bytes, bytes]) -> Iterator[tuple[str, str]]:
    """Yield what the join will hand on for the records that wait."""
    for name, value in entries.items():
        for one in unmatched(name, bytes(8) + value):
            yield one.key.decode(), paired(one.value.decode(), None)


def in_changelog(job: StreamsJob, store: str) -> dict[str, bytes]:
    """Return the newest value of each key in a changelog, by a reader that is not ours."""
    return {key.decode(): value for (_, key), value in _changelog(job, store).items()}


def _changelog(job: StreamsJob, store: str) -> dict[tuple[int, bytes], bytes]:
    changelog = job.changelog(store)
    ends = read(job.servers, [changelog], {"key": "key"}, timeout=PATIENCE_S).num_rows
    settings = {"bootstrap.servers": job.servers, "group.id": "look", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.assign([TopicPartition(changelog, index, 0) for index in range(PARTITIONS)])
    found: dict[tuple[int, bytes], bytes | None] = {}
    while ends:
        message = consumer.poll(1)
        if message is not None and not message.error():
            found[message.partition(), message.key()] = message.value()
            ends -= 1
    consumer.close()
    return {name: value for name, value in found.items() if value is not None}


def assert_exact(job: StreamsJob, *folders: str) -> None:
    assert not (wrong := differences(job, *folders)), wrong


def differences(job: StreamsJob, *folders: str) -> list[str]:
    """Return what is not exact in the output, in changelogs and in stores."""
    if job.shape == "pairs":
        return _wrong_pairs(job)
    if job.shape == "tables":
        return _wrong_tables(job)
    return _wrong_counts(job, folders) if job.shape == "count" else _wrong_copy(job, folders)


def _wrong_counts(job: StreamsJob, folders: Sequence[str]) -> list[str]:
    """Each count rises and is there once, so nothing was counted again. The last one is right everywhere."""
    counts = {key: list(map(int, series)) for key, series in written(job).items()}
    wrong = [f"output of {key}: {series}" for key, series in counts.items() if series != sorted(set(series))]
    seen = Counter((number % PARTITIONS, word(number)) for number in range(job.total))
    changelog = {key: _number(value) for key, value in in_changelog(job, "counts").items()}
    return (
        wrong
        + _compared(
            ("the output", {key: series[-1] for key, series in counts.items()}, truth(job)),
            ("the changelog", changelog, truth(job)),
            ("the store counts", stored(job, *folders), truth(job)),
            ("the store windows", stored_windows(job, *folders), true_windows(job)),
            ("the store seen", stored_seen(job, *folders), seen),
        )
        + _wrong_sessions(job)
    )


def _wrong_tables(job: StreamsJob) -> list[str]:
    """Each group has the sum of its keys' counts: what was added or taken out twice, or not at all, stays in it. Each
    bad record has one dead letter.
    """
    counts = {key: count for key, count in truth(job).items() if not is_bad(key)}
    groups = Counter[str]()
    for count in counts.values():
        groups[str(count % 3)] += count
    newest = {key: value.decode() for key, value in in_changelog(job, "newest").items()}
    both = {key: _number(value) for (_, key), value in _changelog(job, "both").items()}
    true_both = {key.encode(): count * (1 + EVEN * is_even(key)) for key, count in counts.items()}
    accounts = {key: paired(count, account(count)) for key, count in counts.items() if account(count) in counts}
    letters = read(job.servers, [job.letters], {"value": "value"}, timeout=PATIENCE_S)["value"].to_pylist()
    return _compared(
        ("the output", {key: int(values[-1]) for key, values in written(job).items()}, groups),
        ("the changelog", {key: int(value) for key, value in in_changelog(job, "groups").items()}, groups),
        ("the changelog of counts", {k: _number(v) for k, v in in_changelog(job, "counts").items()}, counts),
        ("the newest", newest, {key: key for key in counts}),
        ("the foreign-key join", {k: v.decode() for k, v in in_changelog(job, "accounts").items()}, accounts),
        ("both streams", {key[:-12]: value for key, value in both.items()}, true_both),
        ("the dead letters", Counter(letters), {key: count for key, count in truth(job).items() if is_bad(key)}),
    )


def _wrong_copy(job: StreamsJob, folders: Sequence[str]) -> list[str]:
    """Each record is there once, and those of a key in their order. A join's table is right everywhere."""
    wrong = _compared(("the output", written(job), true_copy(job)))
    if not job.table:
        return wrong
    changelog = {key: value.decode() for key, value in in_changelog(job, "users").items()}
    return wrong + _compared(
        ("the changelog", changelog, true_table(job)),
        ("the store users", stored_table(job, *folders), true_table(job)),
    )


def _compared(*compared: tuple[str, Mapping[Any, object], Mapping[Any, object]]) -> list[str]:
    wrong = []
    for what, found, true in compared:
        if keys := sorted(key for key in {*found, *true} if found.get(key, 0) != true.get(key, 0)):
            first = keys[0]
            wrong.append(
                f"{what}: {len(keys)} keys are wrong; {first} has {found.get(first)}, and it is {true.get(first)}"
            )
    return wrong
