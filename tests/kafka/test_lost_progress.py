"""Progress that is not there though its id has committed before: the coordinator remembers, and nobody goes on as if it had never been."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from typer.testing import CliRunner

import semel
import semel.steps
import semel.transaction.transaction
from semel.cli import app
from semel.sandbox import Sandbox
from semel.steps import OwnerStep
from semel.transaction.committed import committed_progress
from semel.transaction.producer import Producer
from semel.transaction.progress_topic import ProgressTopic
from semel.transaction.remedy import _progress as look_by_hand
from semel.wire.deadline import Deadline
from semel.wire.offsets import LATEST, list_offsets
from semel.wire.topics import topic_config
from semel.wire.transactions import fence
from tests.kafka.raw import Raw
from tests.kafka.reading import delete, delete_records
from tests.waiting import wait_for

_numbers = itertools.count(1)
ROWS = pa.table({"value": ["x"]})


@pytest.fixture
def raw(kafka: Sandbox) -> Iterator[Raw]:
    made = Raw(kafka.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture
def kept(raw: Raw) -> str:
    """A progress topic of its own, with what the id has committed."""
    name = f"progress-{next(_numbers)}"
    with cluster(raw) as opened, opened.producer(raw.id, progress_topic=name) as producer, producer.transaction() as txn:
        txn.send(raw.topic, ROWS)
    return name


def cluster(raw: Raw) -> semel.Cluster:
    return semel.Cluster({"bootstrap.servers": raw.servers})


def policy(raw: Raw, topic: str, wanted: str) -> None:
    """Returns when the brokers answer by it."""
    admin = AdminClient({"bootstrap.servers": raw.servers})
    entry = ConfigEntry("cleanup.policy", wanted, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for changed in admin.incremental_alter_configs([resource]).values():
        changed.result(60)
    wait_for(lambda: topic_config(raw.client, topic, ["cleanup.policy"])["cleanup.policy"] == wanted, f"cleanup.policy={wanted}")


def cut(raw: Raw, topic: str, *, but: int = 0) -> None:
    """Delete all records of this id's partition but the last ones, as whoever sets a policy of deleting for a while."""
    partition = ProgressTopic(raw.client, raw.id, "producer", topic).partition
    end = list_offsets(raw.client, {partition: LATEST}, read_committed=False)[partition].offset
    policy(raw, topic, "compact,delete")
    delete_records(raw.servers, *partition, end - but)
    policy(raw, topic, "compact")


def refused(producer: Producer) -> str:
    with pytest.raises(semel.DataLoss, match=r"PROGRESS_LOST.*Nothing was written") as found:
        producer.take_over()
    return found.value.message


def test_a_progress_topic_that_was_deleted_is_not_made_anew(raw: Raw, kept: str) -> None:
    """Nor by the second start: what the first one was refused by must not be wiped by it."""
    delete(raw.servers, kept)
    with cluster(raw) as opened:
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=kept))
    assert kept not in raw.client.existing({kept})
    assert raw.visible() == ["x"]


def test_a_progress_topic_that_somebody_else_made_anew(raw: Raw, kept: str) -> None:
    delete(raw.servers, kept)
    with cluster(raw) as opened:
        with opened.producer(f"{raw.id}-other", progress_topic=kept) as other, other.transaction() as txn:
            txn.send(raw.topic, ROWS)
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=kept))


def test_another_progress_topic_is_named_by_mistake(raw: Raw, kept: str) -> None:
    with cluster(raw) as opened:
        assert "progressTopic" in refused(opened.producer(raw.id, progress_topic=f"{kept}-mistaken"))
        with opened.producer(raw.id, progress_topic=kept) as producer:
            assert producer.take_over() is not None


def test_the_command_that_the_refusal_names_begins_anew(raw: Raw, kept: str) -> None:
    delete(raw.servers, kept)
    with cluster(raw) as opened:
        told = refused(opened.producer(raw.id, progress_topic=kept))
        command = f"progress reset {raw.id} --scope producer --progress-topic {kept}"
        assert f"(`semel {command}`)" in told
        done = CliRunner().invoke(app, [*command.split(), "--yes", "--bootstrap-server", raw.servers])
        assert done.exit_code == 0, done.output
        with opened.producer(raw.id, progress_topic=kept) as producer:
            assert producer.take_over() is None
            with producer.transaction() as txn:
                txn.send(raw.topic, ROWS)
    assert raw.visible() == ["x", "x"]


@pytest.mark.parametrize(("arguments", "answer", "status"), [([], "n", 1), (["--yes", "--to-offsets", '{"nowhere": {"0": 5}}'], "", None)])
def test_a_reset_that_is_not_done_leaves_it_lost(raw: Raw, kept: str, arguments: list[str], answer: str, status: int | None) -> None:
    """Taken over for it, the prefix would look like a new one to the next start."""
    delete(raw.servers, kept)
    command = ["progress", "reset", raw.id, "--scope", "producer", "--progress-topic", kept, "--bootstrap-server", raw.servers, *arguments]
    done = CliRunner().invoke(app, command, input=answer)
    assert done.exit_code == 1
    assert (status is None) == isinstance(done.exception, semel.ConfigError)
    assert "fenced" not in done.output
    assert status is None or all(told in done.output for told in ("it was lost", "Nothing was changed."))
    with cluster(raw) as opened:
        refused(opened.producer(raw.id, progress_topic=kept))


def test_who_only_looks_does_not_say_that_nothing_is_missing(raw: Raw, kept: str) -> None:
    """What bounds a read of ``startingOffsets=committed`` and of ``semel txn heal`` is no claim."""
    delete(raw.servers, kept)
    with cluster(raw) as opened:
        with opened.producer(f"{raw.id}-other", progress_topic=kept) as other, other.transaction() as theirs:
            theirs.send(raw.topic, ROWS)
        assert committed_progress(raw.client, raw.id, scope="producer", progress_topic=kept) is None
        assert committed_progress(raw.client, f"{raw.id}-other", scope="producer", progress_topic=kept) is not None, "the control"
        assert look_by_hand(raw.client, raw.id, kept).everything == ()
        refused(opened.producer(raw.id, progress_topic=kept))


def test_an_import_is_refused_too(raw: Raw, kept: str, tmp_path: Path) -> None:
    delete(raw.servers, kept)
    folder = tmp_path / "checkpoint"
    written = {"metadata": '{"id":"q"}', "offsets/0": f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{{}}}}\n{{"{raw.topic}":{{"0":1}}}}\n'}
    for name, text in (written | {"commits/0": 'v1\n{"nextBatchWatermarkMs":0}'}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    arguments = ["progress", "import", raw.id, "--checkpoint", str(folder), "--progress-topic", kept, "--bootstrap-server", raw.servers, "--yes"]
    for _ in range(2):
        stopped = CliRunner().invoke(app, arguments).exception
        assert isinstance(stopped, semel.DataLoss), stopped
        assert stopped.tag == "PROGRESS_LOST"


def test_a_topic_that_is_deleted_and_made_again_while_it_is_looked_at(raw: Raw, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    holds_progress = ProgressTopic.holds_progress

    def and_then_it_goes(topic: ProgressTopic, deadline: Deadline) -> bool:
        monkeypatch.undo()
        found = holds_progress(topic, deadline)
        delete(raw.servers, kept)
        return found

    monkeypatch.setattr(ProgressTopic, "holds_progress", and_then_it_goes)
    with cluster(raw) as opened:
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=kept))


def test_a_topic_that_is_made_again_behind_the_record_of_a_slow_commit(raw: Raw, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The new one answers like the old one: by its id it is another."""
    monkeypatch.setattr(semel.transaction.transaction, "_LOOK_AGAIN_S", 0.0)  # as if the groups had let it wait
    struck: list[str] = []

    def strike(passed: semel.steps.Step, of: str) -> None:
        if passed is OwnerStep.PROGRESS_WRITTEN and of == raw.id and not struck:
            struck.append(kept)
            delete(raw.servers, kept)
            with cluster(raw) as opened, opened.producer(f"{raw.id}-other", progress_topic=kept) as other, other.transaction() as theirs:
                theirs.send(raw.topic, pa.table({"value": ["theirs"]}))

    with cluster(raw) as opened:
        producer = opened.producer(raw.id, progress_topic=kept)
        txn = producer.transaction()
        txn.send(raw.topic, ROWS)
        monkeypatch.setattr(semel.steps, "_observer", strike)
        with pytest.raises(semel.DataLoss, match="PROGRESS_LOST"):
            txn.commit()
        monkeypatch.undo()
        refused(opened.producer(raw.id, progress_topic=kept))
    assert raw.visible() == ["x", "theirs"]
    assert struck


def start(raw: Raw, topic: str) -> bool:
    """Whether a start that writes nothing finds progress."""
    with cluster(raw) as opened, opened.producer(raw.id, progress_topic=topic) as producer:
        return producer.take_over() is not None


def test_a_claim_says_nothing_of_what_was_cut_off_before_it(raw: Raw, kept: str) -> None:
    assert start(raw, kept), "it leaves a claim behind the progress"
    cut(raw, kept, but=1)
    with cluster(raw) as opened:
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=kept))
    reset = ["progress", "reset", raw.id, "--scope", "producer", "--progress-topic", kept, "--yes", "--bootstrap-server", raw.servers]
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
    assert CliRunner().invoke(app, ["progress", "reset", raw.id, *batch, "--to-offsets", offsets, "--yes"]).exit_code == 0
    cut(raw, kept, but=2)
    with cluster(raw) as opened:
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=kept))
            assert start_batch(), "the control: its own record is there"


def test_a_log_that_is_cut_and_still_has_the_progress(raw: Raw, kept: str) -> None:
    """The control."""
    start(raw, kept)
    with cluster(raw) as opened, opened.producer(raw.id, progress_topic=kept) as producer, producer.transaction() as txn:
        txn.send(raw.topic, ROWS)
    cut(raw, kept, but=2)
    assert all(start(raw, kept) for _ in range(2))


def test_a_log_that_is_cut_while_it_is_taken_over(raw: Raw, kept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def strike(passed: semel.steps.Step, of: str) -> None:
        if passed is OwnerStep.INITIALISED and of == raw.id:
            monkeypatch.undo()
            cut(raw, kept)

    monkeypatch.setattr(semel.steps, "_observer", strike)
    with cluster(raw) as opened:
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=kept))


def test_who_is_fenced_does_not_say_that_nothing_is_missing(raw: Raw, kept: str) -> None:
    """It looks how its transaction has ended, in a log of which it knows nothing any more."""
    with cluster(raw) as opened:
        txn = opened.producer(raw.id, progress_topic=kept).transaction()
        txn.send(raw.topic, ROWS)
        cut(raw, kept)
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
    name = f"progress-{next(_numbers)}"
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


def test_a_previous_id_that_has_no_progress_is_refused(raw: Raw, kept: str) -> None:
    """A name that is mistyped, and one whose progress is in another topic."""
    with cluster(raw) as opened:
        with pytest.raises(semel.ConfigError, match=rf"NO_PREVIOUS.*{raw.id}-mistyped.*nothing was written"):
            opened.producer(f"{raw.id}-new", progress_topic=kept).take_over(previous=f"{raw.id}-mistyped")
        with pytest.raises(semel.DataLoss, match=rf"PROGRESS_LOST.*'{raw.id}'"):
            opened.producer(f"{raw.id}-elsewhere").take_over(previous=raw.id)
        with opened.producer(f"{raw.id}-new", progress_topic=kept) as producer:
            assert producer.take_over(previous=raw.id) is not None
