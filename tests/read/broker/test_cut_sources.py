"""Input whose log was cut, and has grown past what was read of it: by its end alone it looks whole.

Unclean elections do that, and brokers that die before their disks have what they acknowledged. What was read has gone
into the output; what was written in its place would be read by nobody.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from semel.errors import DataLoss
from semel.sandbox import Sandbox
from tests.read.support.source_runs import Run, add, numbers, texts
from tests.support.other_client import delete, produce
from tests.support.topics import create
from tests.support.truncate_log import cut_log
from tests.support.waiting import wait_for

_numbers = count()
LOST = r"\[20, 30\): the log was cut at 20 and written again"


@pytest.fixture(scope="module")
def fragile() -> Iterator[Sandbox]:
    with Sandbox.start() as sandbox:
        yield sandbox


@pytest.fixture
def topic(fragile: Sandbox) -> str:
    """Its log has 30 rows in three batches."""
    topic = create(fragile.bootstrap_servers, f"cut-source-{next(_numbers)}")
    for first in (0, 10, 20):
        add(fragile.bootstrap_servers, topic, first, first + 10)
    return topic


Start = Callable[..., Run]


@pytest.fixture
def run(fragile: Sandbox, topic: str) -> Iterator[Start]:
    started: list[Run] = []

    def start(log: list[str], **options: Any) -> Run:
        started.append(
            Run(fragile.bootstrap_servers, log, **{"subscribe": topic, "startingOffsets": "earliest", **options})
        )
        return started[-1]

    yield start
    for one in started:
        one.stop()


def cut_and_filled(fragile: Sandbox, topic: str) -> None:
    cut_log(fragile, (topic, 0), batches=1)
    add(fragile.bootstrap_servers, topic, 100, 140)


def test_while_the_query_is_down(fragile: Sandbox, topic: str, run: Start) -> None:
    query = run([])
    assert numbers(query.batch()) == texts(0, 30)
    cut_and_filled(fragile, topic)
    for _ in range(2):
        with pytest.raises(DataLoss, match=LOST):
            run(list(query.log)).plan()
    easy = run(list(query.log), failOnDataLoss=False)
    assert numbers(easy.rest()) == texts(100, 140), "all that nobody has read"


@pytest.mark.exhaustive  # its sample is test_while_the_query_is_down
def test_control_a_checkpoint_without_leader_epochs_does_not_tell(fragile: Sandbox, topic: str, run: Start) -> None:
    query = run([])
    assert numbers(query.batch()) == texts(0, 30)
    cut_and_filled(fragile, topic)
    (last,) = map(json.loads, query.log)
    del last["topics"][topic]["epochs"]
    assert numbers(run([json.dumps({**last, "v": 1})]).rest()) == texts(110, 140)


@pytest.mark.exhaustive
def test_while_it_runs(fragile: Sandbox, topic: str, run: Start) -> None:
    query = run([])
    assert numbers(query.batch()) == texts(0, 30)
    cut_and_filled(fragile, topic)
    with pytest.raises(DataLoss, match=LOST):
        query.plan()


@pytest.mark.exhaustive
@pytest.mark.parametrize("committed", [True, False])
def test_what_was_planned_is_there_no_more(fragile: Sandbox, topic: str, run: Start, committed: bool) -> None:
    """Read or not, before the run ended: nobody here can know.

    Without failOnDataLoss no offset of it is read, and all that is there is next.
    """
    options: dict[str, Any] = {
        "maxOffsetsPerTrigger": 15,
        "kafka.isolation.level": "read_committed" if committed else "read_uncommitted",
    }
    query = run([], **options)
    assert numbers(query.batch()) == texts(0, 15)
    assert query.plan()
    cut_and_filled(fragile, topic)
    with pytest.raises(DataLoss, match=LOST):
        run(list(query.log), **options).read()
    easy = run(list(query.log), failOnDataLoss=False, **options)
    assert numbers(easy.read()) == texts(15, 20)
    assert numbers(easy.rest()) == texts(100, 140)


@pytest.mark.exhaustive
def test_cut_and_shorter_than_what_was_read(fragile: Sandbox, topic: str, run: Start) -> None:
    query = run([])
    assert numbers(query.batch()) == texts(0, 30)
    cut_log(fragile, (topic, 0), batches=2)
    add(fragile.bootstrap_servers, topic, 100, 105)
    with pytest.raises(DataLoss, match=r"\[10, 30\): the log was cut at 10 and written again"):
        run(list(query.log)).plan()
    easy = run(list(query.log), failOnDataLoss=False)
    assert numbers(easy.rest()) == texts(100, 105), "what is in front of its end, too"


@pytest.mark.exhaustive
@pytest.mark.parametrize("start", ["latest", "by a checkpoint without leader epochs"])
def test_a_partition_that_had_nothing_to_read(fragile: Sandbox, run: Start, topic: str, start: str) -> None:
    """It is told where another one moves: its place is watched from then on."""
    two = create(fragile.bootstrap_servers, f"{topic}-two", partitions=2)
    add(fragile.bootstrap_servers, two, 0, 20, partitions=2)
    add(fragile.bootstrap_servers, two, 20, 40, partitions=2)
    query = run([], subscribe=two, startingOffsets="latest")
    assert numbers(query.batch()) == []
    if start != "latest":
        (first,) = map(json.loads, query.log)
        del first["topics"][two]["epochs"]
        query = run([json.dumps({**first, "v": 1})], subscribe=two)
    produce(fragile.bootstrap_servers, two, [{"value": b"v40", "partition": 0}])
    assert numbers(query.batch()) == texts(40, 41)
    cut_log(fragile, (two, 1), batches=1)
    produce(fragile.bootstrap_servers, two, [{"value": b"v100", "partition": 1}] * 20)
    with pytest.raises(DataLoss, match=r"-two-1 \[10, 20\): the log was cut at 10 and written again"):
        run(list(query.log), subscribe=two).plan()


def test_between_its_plan_and_its_tasks(fragile: Sandbox, topic: str, run: Start) -> None:
    """What the plan names is gone, and nobody has read it: what stands there now is read by the batch that plans it,
    and not twice.
    """
    easy, hard = run([], failOnDataLoss=False), run([])
    for query in (easy, hard):
        assert numbers(query.batch()) == texts(0, 30)
    add(fragile.bootstrap_servers, topic, 30, 40)
    for query in (easy, hard):
        assert query.plan()
    cut_and_filled(fragile, topic)
    with pytest.raises(DataLoss, match=r"\[30, 40\): the log was cut at 30 and written again"):
        hard.read()
    assert numbers(easy.read()) == []
    assert numbers(easy.rest()) == texts(100, 140)


@pytest.mark.exhaustive
@pytest.mark.parametrize("filled", [True, False])
def test_a_second_cut_behind_a_start_that_went_on(fragile: Sandbox, topic: str, run: Start, filled: bool) -> None:
    """It stopped behind the empty batch that goes back to the first one."""
    query = run([])
    assert numbers(query.batch()) == texts(0, 30)
    cut_log(fragile, (topic, 0), batches=1)
    if filled:
        add(fragile.bootstrap_servers, topic, 50, 90)
    easy = run(list(query.log), failOnDataLoss=False)
    assert numbers(easy.batch()) == []
    cut_log(fragile, (topic, 0), batches=2 if filled else 1)
    add(fragile.bootstrap_servers, topic, 100, 140)
    with pytest.raises(DataLoss, match=r"\[10, 20\): the log was cut at 10 and written again"):
        run(list(easy.log)).plan()


@pytest.mark.exhaustive  # its sample is test_while_the_query_is_down
def test_a_topic_that_is_deleted_behind_an_election_is_named(fragile: Sandbox, topic: str, run: Start) -> None:
    query = run([])
    assert numbers(query.batch()) == texts(0, 30)
    cut_log(fragile, (topic, 0), batches=0)
    last = run(list(query.log), available_now=True)
    delete(fragile.bootstrap_servers, topic)

    def never() -> bool:
        last.plan()
        return False

    # a broker lists no such topic a moment before its partition is closed: until then it answers for it
    with pytest.raises(DataLoss, match=r"\[30, …\): the topic or partition does not exist any more"):
        wait_for(never, "the end of the partition")


def test_what_seemed_to_be_gone_and_is_not_is_no_other_batch(fragile: Sandbox, topic: str, run: Start) -> None:
    """A run that has looked before those rows came knows of fewer than its checkpoint."""
    early = run([], available_now=True)
    add(fragile.bootstrap_servers, topic, 30, 40)
    query = run([])
    assert numbers(query.batch()) == texts(0, 40)
    early.log[:] = query.log
    assert not early.plan(), "the text is the same, leader epochs included"


@pytest.mark.exhaustive
def test_another_leader_of_a_whole_log_is_no_batch_and_no_loss(fragile: Sandbox, topic: str, run: Start) -> None:
    query = run([])
    assert numbers(query.batch()) == texts(0, 30)
    for _ in range(2):
        cut_log(fragile, (topic, 0), batches=0)
        assert not query.plan(), "the text is the same"
        assert not run(list(query.log)).plan()
    add(fragile.bootstrap_servers, topic, 30, 35)
    assert numbers(query.batch()) == texts(30, 35)
    assert query.log[-1] != query.log[-2]
    first, last = (json.loads(text)["topics"][topic]["epochs"]["0"] for text in query.log)
    assert last > first
