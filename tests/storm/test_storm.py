"""A short storm; ``make storm`` makes long ones. And what it found, each by its name.

The verdict has a control in each of its parts: an output that is spoilt, a group that is moved, a step out of order and
a transaction that is left open must be seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import semel
from tests.storm.checks import verdict
from tests.storm.job import wrong_counts
from tests.storm.query_storm import SOURCE, QueryStorm
from tests.storm.storm import Outcome, Plan

#: In its first 20 s a driver is killed, the one with state, an executor is frozen and one killed, a broker killed and
#: one deposed.
SEED, SECONDS = 301, 25.0


@pytest.fixture(scope="module")
def storm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryStorm]:
    with QueryStorm(Plan(SEED, SECONDS), tmp_path_factory.mktemp("storm"), kinds=("keyed", "counted")) as storm:
        yield storm


@pytest.fixture(scope="module")
def outcome(storm: QueryStorm) -> Outcome:
    return storm.run()


@pytest.mark.exhaustive
def test_a_short_storm(storm: QueryStorm, outcome: Outcome) -> None:
    assert outcome.problems == [], f"seed {SEED}, logs in {outcome.directory}"
    assert outcome.rows > 0
    assert storm.struck.met_all(), storm.struck.counts
    assert storm.happened.total() > 0


@pytest.mark.exhaustive
def test_what_is_wrong_is_seen(storm: QueryStorm, outcome: Outcome) -> None:
    keyed, counted = storm.queries
    assert verdict(storm.servers, storm.queries) == []
    producer = Producer({"bootstrap.servers": storm.servers})
    producer.produce(keyed.job.target, key="u1", value=json.dumps({"id": 1, "lot": 0}))
    producer.produce(counted.job.target, value=json.dumps({"w": 0, "user": "u1", "n": 1, "ids": 1}))
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": storm.servers, "group.id": counted.job.group})
    consumer.commit(offsets=[TopicPartition(SOURCE, 0, 1)], asynchronous=False)
    consumer.close()
    steps = keyed.plan.log.read_bytes().splitlines(keepends=True)
    keyed.plan.log.write_bytes(b"".join([*steps, [line for line in steps if b"OwnerStep.COMMIT_ANSWERED" in line][-1]]))
    doubled, forbidden, miscounted, moved = verdict(storm.servers, storm.queries)
    assert "keyed: not exactly once" in doubled
    assert "keyed: the protocol forbids OwnerStep.COMMIT_ANSWERED" in forbidden
    assert "counted: storm-counted-" in miscounted
    assert "counted: the progress says" in moved


@pytest.mark.exhaustive
def test_an_open_transaction_is_seen(storm: QueryStorm, outcome: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.storm.checks._ENDING_S", 0.0)
    with semel.Cluster({"bootstrap.servers": storm.servers}) as cluster, cluster.producer("left-open") as producer:
        with producer.transaction() as txn:
            txn.send(SOURCE, pa.table({"key": ["u1"], "value": ["{}"]}))
            assert any("the transaction of left-open is open" in wrong for wrong in verdict(storm.servers, []))
            txn.abort()
        producer.wait_visible()


SOURCE_VALUES = [json.dumps({"id": number, "user": "u1", "at": 60}) for number in (5, 6, 7)]


def counted(*rows: tuple[int, int]) -> list[dict[str, object]]:
    return [
        {
            "topic": "out",
            "partition": 0,
            "offset": offset,
            "value": json.dumps({"w": 60, "user": "u1", "n": n, "ids": ids}),
        }
        for offset, (n, ids) in enumerate(rows)
    ]


@pytest.mark.parametrize("rows", [((3, 18),), ((1, 5), (3, 18)), ((1, 5), (2, 11), (3, 18))])
def test_counts_of_any_batches_are_right(rows: tuple[tuple[int, int], ...]) -> None:
    assert wrong_counts(SOURCE_VALUES, counted(*rows)) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (((1, 5), (2, 11)), "2 of 3 rows were counted"),
        (((1, 5), (2, 12), (3, 18)), "the source says"),
        (((3, 18), (4, 25)), "the source says"),
        (((1, 5), (1, 5), (3, 18)), "behind one that had seen 1"),
        (((2, 11), (1, 5), (3, 18)), "behind one that had seen 2"),
        ((), "0 of 3 rows were counted"),
    ],
)
def test_counts_that_are_wrong_are_seen(rows: tuple[tuple[int, int], ...], said: str) -> None:
    assert any(said in wrong for wrong in wrong_counts(SOURCE_VALUES, counted(*rows)))
