"""Logs of progress that are cut, or looked at while they change: what is missing is said, and nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import semel
import semel.steps
import semel.transaction.transaction
from semel.cli import app
from semel.config import ClientConfig
from semel.read import raw_log
from semel.steps import OwnerStep
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.transaction.producer import Producer
from semel.transaction.progress.record import Progress
from semel.transaction.progress.topic import Presence, ProgressTopic
from semel.wire.api.transactions import fence
from semel.wire.client import Client
from semel.wire.deadline import Deadline
from semel.wire.metadata import TopicPartition
from tests.support.delete_front import cut
from tests.support.other_client import delete
from tests.support.raw_producer import Raw
from tests.transaction.support.lost_progress import ROWS, cluster, numbers, refused

SHORT = {"request.timeout.ms": 500, "delivery.timeout.ms": 4_000}


def start(raw: Raw, topic: str) -> bool:
    """Whether a start that writes nothing finds progress."""
    with cluster(raw) as opened, opened.producer(raw.id, progress_topic=topic) as producer:
        return producer.take_over() is not None


def test_a_claim_says_nothing_of_what_was_cut_off_before_it(raw: Raw, kept: str) -> None:
    assert start(raw, kept), "it leaves a claim behind the progress"
    cut(raw.servers, raw.id, kept, but=1)
    with cluster(raw) as opened:
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=kept))
    reset = [
        "progress",
        "reset",
        raw.id,
        "--scope",
        "producer",
        "--progress-topic",
        kept,
        "--yes",
        "--bootstrap-server",
        raw.servers,
    ]
    assert CliRunner().invoke(app, reset).exit_code == 0
    assert not any(start(raw, kept) for _ in range(2)), "what was set claims for the log that there is"


def test_another_scopes_record_says_nothing_of_what_was_cut_off_before_it(raw: Raw, kept: str) -> None:
    """Nor does the start of its owner, which claims in a log that is shorter."""
    batch = ["--scope", "batch", "--progress-topic", kept, "--bootstrap-server", raw.servers]

    def start_batch() -> bool:
        with Producer(raw.client, raw.id, scope="batch", progress_topic=kept) as owner:
            return owner.take_over() is not None

    assert not start_batch(), "nothing was cut: a scope that is new begins anew"
    offsets = f'{{"{raw.topic}": {{"0": 0}}}}'
    assert (
        CliRunner().invoke(app, ["progress", "reset", raw.id, *batch, "--to-offsets", offsets, "--yes"]).exit_code == 0
    )
    cut(raw.servers, raw.id, kept, but=2)
    with cluster(raw) as opened:
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=kept))
            assert start_batch(), "the control: its own record is there"


def test_a_log_that_is_cut_and_still_has_the_progress(raw: Raw, kept: str) -> None:
    """The control."""
    start(raw, kept)
    with (
        cluster(raw) as opened,
        opened.producer(raw.id, progress_topic=kept) as producer,
        producer.transaction() as txn,
    ):
        txn.send(raw.topic, ROWS)
    cut(raw.servers, raw.id, kept, but=2)
    assert all(start(raw, kept) for _ in range(2))


def test_the_claim_behind_a_reset_is_written_again_until_it_is_there(raw: Raw, kept: str) -> None:
    """It outlives the record that forgets, which goes with compaction."""
    start(raw, kept)
    cut(raw.servers, raw.id, kept, but=1)
    others = ProgressTopic(raw.client, raw.id, "batch", kept)  # sees the claims alone
    assert others.presence(raw.client.deadline()) is Presence.LOST
    with (
        FaultProxy(raw.servers) as proxy,
        Client(ClientConfig.parse({"bootstrap.servers": proxy.bootstrap_servers, **SHORT})) as client,
    ):
        owner = Producer(client, raw.id, scope="producer", progress_topic=kept, may_have_lost_progress=True)
        owner.take_over()
        with owner.transaction() as txn:
            txn.commit(Progress(forgotten=True))
        dropped = [proxy.drop_request("Produce", n) for n in range(1, 30)]
        with pytest.raises(semel.Retriable, match="COMMITTED"):
            owner.wait_visible()
        for fault in dropped:
            proxy.withdraw(fault)
        assert others.presence(raw.client.deadline()) is Presence.LOST
        owner.wait_visible()
        assert others.presence(raw.client.deadline()) is Presence.COMPLETE
        owner.close()


def test_a_log_that_is_cut_while_it_is_taken_over(raw: Raw, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def strike(passed: semel.steps.Step, of: str) -> None:
        if passed is OwnerStep.INITIALISED and of == raw.id:
            monkeypatch.undo()
            cut(raw.servers, raw.id, kept)

    monkeypatch.setattr(semel.steps, "_observer", strike)
    with cluster(raw) as opened:
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=kept))


def test_a_log_that_is_cut_while_it_is_read(raw: Raw, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind where it began, and before it is fetched from there."""
    with (
        cluster(raw) as opened,
        opened.producer(raw.id, progress_topic=kept) as producer,
        producer.transaction() as txn,
    ):
        txn.send(raw.topic, ROWS)
    beginning = raw_log._start

    def strike(client: Client, partition: TopicPartition, deadline: Deadline) -> int:
        monkeypatch.undo()
        found = beginning(client, partition, deadline)
        cut(raw.servers, raw.id, kept, but=2)
        return found

    monkeypatch.setattr(raw_log, "_start", strike)
    with pytest.raises(semel.DataLoss, match=r"OFFSET_OUT_OF_RANGE.*were deleted meanwhile.*Start again"):
        start(raw, kept)
    assert start(raw, kept)


def test_who_is_fenced_does_not_say_that_nothing_is_missing(raw: Raw, kept: str) -> None:
    """It looks how its transaction has ended, in a log of which it knows nothing any more."""
    with cluster(raw) as opened:
        txn = opened.producer(raw.id, progress_topic=kept).transaction()
        txn.send(raw.topic, ROWS)
        cut(raw.servers, raw.id, kept)
        fence(raw.client, raw.id)
        with pytest.raises(semel.Fenced):
            txn.commit()
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=kept))
    assert raw.visible() == ["x"]


@pytest.mark.parametrize("left", ["open", "aborted"])
def test_whatever_the_last_transaction_was(raw: Raw, kept: str, left: str) -> None:
    """The coordinator's state of it says nothing of those before."""
    with cluster(raw) as opened:
        producer = opened.producer(raw.id, progress_topic=kept)
        txn = producer.transaction()
        txn.send(raw.topic, ROWS)
        if left == "aborted":
            txn.abort()
        delete(raw.servers, kept)
        with opened.producer(f"{raw.id}-other", progress_topic=kept) as other, other.transaction() as theirs:
            theirs.send(raw.topic, pa.table({"value": ["theirs"]}))
        refused(opened.producer(raw.id, progress_topic=kept))


def test_a_first_start_that_dies_at_any_step_is_no_loss(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the coordinator knows the id, and nothing was ever committed."""
    name = f"progress-{next(numbers)}"
    for step in (OwnerStep.INITIALISED, OwnerStep.CLAIMED, OwnerStep.PROGRESS_READ, OwnerStep.MARKERS_CHECKED):

        def die(passed: semel.steps.Step, _: str, step: OwnerStep = step) -> None:
            if passed is step:
                raise KeyboardInterrupt

        monkeypatch.setattr(semel.steps, "_observer", die)
        with cluster(raw) as opened, pytest.raises(KeyboardInterrupt):
            opened.producer(f"{raw.id}-{step.name}", progress_topic=name).take_over()
        monkeypatch.undo()
        with cluster(raw) as opened, opened.producer(f"{raw.id}-{step.name}", progress_topic=name) as producer:
            assert producer.take_over() is None


def test_an_id_that_has_committed_nothing_begins_where_it_left_off(raw: Raw) -> None:
    """The control: taken over and aborted, and nothing is lost by its having no progress."""
    with cluster(raw) as opened:
        for _ in range(2):
            with opened.producer(raw.id) as producer:
                txn = producer.transaction()
                txn.send(raw.topic, ROWS)
                txn.abort()
        with opened.producer(raw.id) as producer:
            assert producer.take_over() is None
