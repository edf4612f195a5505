"""The proxy and the history checker on a real broker, with clients that are not ours.

Each kind of damage is really made, and found.
"""

import json
import struct
import sys
import threading
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from semel.config import ClientConfig
from semel.errors import ConfigError, Retriable
from semel.sandbox import Sandbox
from semel.steps import OwnerStep
from semel.testing.crash import CrashPlan, CrashPoint
from semel.testing.history import assert_exactly_once, check
from semel.testing.program import run_until_done
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.testing.records import read
from semel.wire.api.transactions import add_partitions, end, init_producer_id
from semel.wire.client import Client

WAIT = 30.0
MakeTopic = Callable[..., str]


@pytest.fixture
def topic(kafka: Sandbox) -> MakeTopic:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})

    def create(partitions: int = 1) -> str:
        name = f"tools-{uuid.uuid4().hex[:12]}"
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(WAIT)
        return name

    return create


def producer(servers: str, **more: object) -> Producer:
    return Producer({"bootstrap.servers": servers, "linger.ms": 0, **more})


def transactional(servers: str, **more: object) -> Producer:
    made = producer(servers, **{"transactional.id": f"tools-{uuid.uuid4()}", "request.timeout.ms": 2000, **more})
    made.init_transactions(WAIT)
    return made


def send(to: Producer, topic: str, ids: Iterable[object], partition: int = 0, **header: str) -> None:
    for each in ids:
        to.produce(
            topic, key=str(each), value=json.dumps({"n": each}), partition=partition, headers=list(header.items())
        )
    to.flush(WAIT)


# ---- history


def test_committed_transactions_are_exact_and_aborted_ones_are_not_seen(kafka: Sandbox, topic: MakeTopic) -> None:
    out = topic(2)
    writer = transactional(kafka.bootstrap_servers)
    for first in range(0, 100, 10):
        writer.begin_transaction()
        send(writer, out, range(first, first + 5), 0)
        send(writer, out, range(first + 5, first + 10), 1)
        if first == 50:
            writer.abort_transaction(WAIT)
        else:
            writer.commit_transaction(WAIT)
    kept = [number for number in range(100) if number // 10 != 5]
    history = assert_exactly_once(kafka.bootstrap_servers, out, id="json:$.n", expected=kept)
    assert history.written == 90
    with pytest.raises(AssertionError, match="not exactly once"):
        assert_exactly_once(kafka.bootstrap_servers, out, expected=range(100))
    with pytest.raises(AssertionError, match="unexpected"):
        assert_exactly_once(kafka.bootstrap_servers, out, expected=kept[1:])


def test_each_kind_of_damage_is_found_against_a_source_topic(kafka: Sandbox, topic: MakeTopic) -> None:
    source, out = topic(2), topic()
    writer = producer(kafka.bootstrap_servers)
    for batch in range(10):
        send(writer, source, range(batch * 4, batch * 4 + 4), batch % 2, batch=str(batch))
    send(writer, out, [*range(8), *range(4), 10, 9, 8, 11, *range(12, 38), 99])
    history = check(kafka.bootstrap_servers, out, source=source, batch="header:batch")
    assert (history.lost, history.duplicated, history.unexpected, history.reordered, history.torn) == (2, 4, 1, 2, 1)
    assert history.examples["lost"] == ["38", "39"]
    assert history.examples["torn"] == ["9"]
    assert check(kafka.bootstrap_servers, source, source=source, batch="header:batch").exact


def test_an_open_transaction_is_waited_for_and_named(kafka: Sandbox, topic: MakeTopic) -> None:
    out = topic(2)
    writer = transactional(kafka.bootstrap_servers)
    send(producer(kafka.bootstrap_servers), out, ["before"], 1)
    writer.begin_transaction()
    send(writer, out, ["open"], 1)
    send(producer(kafka.bootstrap_servers), out, ["behind"], 1)
    with pytest.raises(Retriable, match=rf"\[SEMEL_OPEN_TRANSACTION\] .* {out}-1@1:"):
        check(kafka.bootstrap_servers, out, expected=["before"], timeout=0.3)
    seen = read(kafka.bootstrap_servers, [out], {"id": "key"}, wait_for_open=False)
    assert seen["id"].to_pylist() == ["before"]
    ended = threading.Timer(0.3, writer.commit_transaction, [WAIT])
    ended.start()
    assert check(kafka.bootstrap_servers, out, expected=["before", "open", "behind"]).exact
    ended.join()


def test_empty_topics_and_topics_with_markers_only_end(kafka: Sandbox, topic: MakeTopic) -> None:
    out = topic(3)
    assert check(kafka.bootstrap_servers, out, expected=[]).exact
    writer = transactional(kafka.bootstrap_servers)
    writer.begin_transaction()
    send(writer, out, ["gone"], 1)
    writer.abort_transaction(WAIT)
    assert check(kafka.bootstrap_servers, out, expected=[]).exact


def test_what_cannot_be_read_is_named(kafka: Sandbox, topic: MakeTopic) -> None:
    out = topic()
    with pytest.raises(ConfigError, match="topic nowhere cannot be read"):
        check(kafka.bootstrap_servers, "nowhere", expected=[])
    send(producer(kafka.bootstrap_servers), out, [1])
    with pytest.raises(ConfigError, match=rf"{out}-0@0 has no header:id"):
        check(kafka.bootstrap_servers, out, id="header:id", expected=[])


# ---- proxy


def test_clients_stay_behind_the_proxy(kafka: Sandbox, topic: MakeTopic) -> None:
    out = topic()
    with FaultProxy(kafka.bootstrap_servers) as proxy:
        send(producer(proxy.bootstrap_servers), out, range(10))
        consumer = Consumer(
            {"bootstrap.servers": proxy.bootstrap_servers, "group.id": out, "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([out])
        assert len(consumer.consume(10, WAIT)) == 10
        consumer.close()
        # the group's coordinator is found by an address too
        assert {"Metadata", "Produce", "FindCoordinator", "JoinGroup", "Fetch"} <= {seen.api for seen in proxy.log}


def test_a_lost_answer_to_a_plain_producer_makes_a_duplicate_and_the_history_shows_it(
    kafka: Sandbox, topic: MakeTopic
) -> None:
    out = topic()
    with FaultProxy(kafka.bootstrap_servers) as proxy:
        writer = producer(proxy.bootstrap_servers, **{"enable.idempotence": False, "retries": 10})
        lost = proxy.drop_reply("Produce")
        send(writer, out, ["a"])
        assert lost.happened.wait(WAIT)
        send(writer, out, ["b"])
    history = check(kafka.bootstrap_servers, out, expected=["a", "b"])
    assert (history.lost, history.duplicated) == (0, 1)


@pytest.mark.parametrize("fault", ["drop_reply", "drop_request", "cut_request", "cut_reply", "repeat"])
def test_an_idempotent_producer_comes_through_each_fault(kafka: Sandbox, topic: MakeTopic, fault: str) -> None:
    out = topic()
    with FaultProxy(kafka.bootstrap_servers) as proxy:
        writer = producer(proxy.bootstrap_servers, **{"enable.idempotence": True})
        send(writer, out, ["a"])
        handle = {
            "drop_reply": lambda: proxy.drop_reply("Produce"),
            "drop_request": lambda: proxy.drop_request("Produce"),
            "cut_request": lambda: proxy.cut("Produce"),
            "cut_reply": lambda: proxy.cut("Produce", reply=True),
            "repeat": lambda: proxy.repeat_request("Produce", times=3),
        }[fault]()
        send(writer, out, ["b"])
        send(writer, out, ["c"])
        assert handle.finished.wait(WAIT)
    assert_exactly_once(kafka.bootstrap_servers, out, expected="abc")


def test_a_commit_whose_answer_is_lost_is_settled_by_asking_again(kafka: Sandbox, topic: MakeTopic) -> None:
    out = topic()
    with FaultProxy(kafka.bootstrap_servers) as proxy:
        writer = transactional(proxy.bootstrap_servers)
        writer.begin_transaction()
        send(writer, out, range(5))
        lost = proxy.drop_reply("EndTxn")
        writer.commit_transaction(WAIT)
        assert lost.happened.is_set()
        assert sum(seen.api == "EndTxn" for seen in proxy.log) >= 2
    assert_exactly_once(kafka.bootstrap_servers, out, expected=range(5))


def test_a_producer_behind_a_held_commit_can_be_fenced(kafka: Sandbox, topic: MakeTopic) -> None:
    out = topic()
    name = f"tools-{uuid.uuid4()}"
    with FaultProxy(kafka.bootstrap_servers) as proxy:
        writer = transactional(proxy.bootstrap_servers, **{"transactional.id": name})
        writer.begin_transaction()
        send(writer, out, range(5))
        held = proxy.delay_request("EndTxn", containing=name.encode())
        failed: list[BaseException] = []
        commit = threading.Thread(target=lambda: failed.extend(_problem(writer.commit_transaction, WAIT)))
        commit.start()
        assert held.happened.wait(WAIT)
        transactional(kafka.bootstrap_servers, **{"transactional.id": name})
        held.release()
        commit.join()
        assert held.finished.wait(WAIT)
    assert len(failed) == 1
    assert check(kafka.bootstrap_servers, out, expected=[]).exact


def _problem(call: Callable[[float], object], timeout: float) -> list[BaseException]:
    try:
        call(timeout)
    except KafkaException as error:
        return [error]
    return []


def test_a_copy_of_a_commit_that_comes_inside_the_next_transaction_is_refused(kafka: Sandbox, topic: MakeTopic) -> None:
    out = topic()
    name = f"tools-{uuid.uuid4()}"
    with (
        FaultProxy(kafka.bootstrap_servers) as proxy,
        Client(ClientConfig.parse({"bootstrap.servers": proxy.bootstrap_servers})) as client,
    ):
        first = init_producer_id(client, name, 60_000, client.deadline())
        later = threading.Event()
        copy = proxy.repeat_request("EndTxn", later=later)
        assert add_partitions(client, first, [(out, 0)], client.deadline()) == 0
        second = end(client, first, commit=True, deadline=client.deadline())
        assert second.code == 0
        assert add_partitions(client, second.identity, [(out, 0)], client.deadline()) == 0
        later.set()
        assert copy.finished.wait(WAIT)
        assert end(client, second.identity, commit=False, deadline=client.deadline()).code == 0
    codes = [struct.unpack_from(">xih", answer)[1] for answer in copy.answers]
    assert codes == [0, 90]


# ---- crash points and history together

WRITER = """
import json, sys
from pathlib import Path
from confluent_kafka import Consumer, Producer, TopicPartition
from semel.steps import OwnerStep, reached
servers, topic, state, mode = sys.argv[1:]
settings = {"bootstrap.servers": servers} | ({"transactional.id": topic} if mode == "exactly-once" else {})
writer = Producer(settings)
done = Path(state)
if mode == "exactly-once":
    # what is committed in the topic itself is the progress: as many batches as there are records
    writer.init_transactions(30)
    committed = {"isolation.level": "read_committed", "enable.partition.eof": True}
    reader = Consumer({"bootstrap.servers": servers, "group.id": topic, **committed})
    reader.assign([TopicPartition(topic, 0, 0)])
    first = 0
    while reader.poll(30).error() is None:
        first += 1
    reader.close()
else:
    first = int(done.read_text()) if done.exists() else 0
for batch in range(first, 6):
    reached(OwnerStep.BEGUN)
    if mode == "exactly-once":
        writer.begin_transaction()
    writer.produce(topic, key=str(batch))
    writer.flush(30)
    reached(OwnerStep.WRITTEN)
    if mode == "exactly-once":
        writer.commit_transaction(30)
    reached(OwnerStep.COMMIT_ANSWERED)
    done.write_text(str(batch + 1))
"""


@pytest.mark.parametrize(("mode", "duplicated"), [("at-least-once", 2), ("exactly-once", 0)])
def test_a_killed_writer_duplicates_unless_it_is_transactional(
    kafka: Sandbox, topic: MakeTopic, tmp_path: Path, mode: str, duplicated: int
) -> None:
    out = topic()
    plan = CrashPlan(tmp_path / "plan", CrashPoint(OwnerStep.WRITTEN, 2), CrashPoint(OwnerStep.COMMIT_ANSWERED, 3))
    restarts = run_until_done(
        [sys.executable, "-c", WRITER, kafka.bootstrap_servers, out, str(tmp_path / "state"), mode], plan, 4
    )
    assert restarts == 2
    history = check(kafka.bootstrap_servers, out, expected=range(6))
    assert (history.lost, history.duplicated) == (0, duplicated)
