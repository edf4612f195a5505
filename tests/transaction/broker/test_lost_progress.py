"""Progress that is not there though its id has committed before: the coordinator remembers, and nobody continues as if
it had never been.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import semel
import semel.steps
import semel.transaction.transaction
from semel.admin.txn_heal import _progress as look_by_hand
from semel.cli import app
from semel.steps import OwnerStep
from semel.transaction.progress.reader import committed_progress
from semel.transaction.progress.record import claim_key
from semel.transaction.progress.topic import Presence, ProgressTopic
from semel.wire.api import topics
from semel.wire.deadline import Deadline
from tests.support.delete_front import cut
from tests.support.other_client import delete, produce
from tests.support.raw_producer import Raw
from tests.transaction.support.lost_progress import ROWS, cluster, numbers, refused


def test_a_progress_topic_that_was_deleted_is_not_made_anew(raw: Raw, kept: str) -> None:
    """Nor by the second start: what the first one was refused by must not be wiped by it."""
    delete(raw.servers, kept)
    with cluster(raw) as opened:
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=kept))
    assert kept not in raw.client.existing({kept})
    assert raw.visible() == ["x"]


def test_a_topic_of_the_wrong_kind_is_refused_before_all_of_it_is_read(raw: Raw) -> None:
    """It may be another program's, and large."""
    name = f"{raw.id}-not-ours"
    topics.create(raw.client, name, partitions=16, config={"cleanup.policy": "delete"})
    row = {
        "key": claim_key(raw.id),
        "value": b"not ours",
        "partition": ProgressTopic(raw.client, raw.id, "producer", name).partition[1],
    }
    produce(raw.servers, name, [row])
    with cluster(raw) as opened, pytest.raises(semel.ConfigError, match=r"cleanup\.policy=delete"):
        opened.producer(raw.id, progress_topic=name).take_over()


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
        assert f"`semel {command}`" in told
        done = CliRunner().invoke(app, [*command.split(), "--yes", "--bootstrap-server", raw.servers])
        assert done.exit_code == 0, done.output
        with opened.producer(raw.id, progress_topic=kept) as producer:
            assert producer.take_over() is None
            with producer.transaction() as txn:
                txn.send(raw.topic, ROWS)
    assert raw.visible() == ["x", "x"]


@pytest.mark.parametrize(
    ("arguments", "answer", "status"), [([], "n", 1), (["--yes", "--to-offsets", '{"nowhere": {"0": 5}}'], "", None)]
)
def test_a_reset_that_is_not_done_leaves_it_lost(
    raw: Raw, kept: str, arguments: list[str], answer: str, status: int | None
) -> None:
    """Taken over for it, the prefix would look like a new one to the next start."""
    delete(raw.servers, kept)
    command = [
        "progress",
        "reset",
        raw.id,
        "--scope",
        "producer",
        "--progress-topic",
        kept,
        "--bootstrap-server",
        raw.servers,
        *arguments,
    ]
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
        assert committed_progress(raw.client, f"{raw.id}-other", scope="producer", progress_topic=kept) is not None, (
            "the control"
        )
        assert look_by_hand(raw.client, raw.id, kept).everything == ()
        refused(opened.producer(raw.id, progress_topic=kept))


def test_an_import_is_refused_too(raw: Raw, kept: str, tmp_path: Path) -> None:
    delete(raw.servers, kept)
    folder = tmp_path / "checkpoint"
    written = {
        "metadata": '{"id":"q"}',
        "offsets/0": f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{{}}}}\n{{"{raw.topic}":{{"0":1}}}}\n',
    }
    for name, text in (written | {"commits/0": 'v1\n{"nextBatchWatermarkMs":0}'}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    arguments = [
        "progress",
        "import",
        raw.id,
        "--checkpoint",
        str(folder),
        "--progress-topic",
        kept,
        "--bootstrap-server",
        raw.servers,
        "--yes",
    ]
    for _ in range(2):
        stopped = CliRunner().invoke(app, arguments).exception
        assert isinstance(stopped, semel.DataLoss), stopped
        assert stopped.tag == "PROGRESS_LOST"


def behind_the_first_look(monkeypatch: pytest.MonkeyPatch, strike: Callable[[], None]) -> None:
    """Do this when a start has looked what is left in the progress topic, and not yet asked anybody else."""
    trace = ProgressTopic.presence

    def and_then(topic: ProgressTopic, deadline: Deadline) -> Presence:
        monkeypatch.undo()
        found = trace(topic, deadline)
        strike()
        return found

    monkeypatch.setattr(ProgressTopic, "presence", and_then)


def test_a_topic_that_is_deleted_and_made_again_while_it_is_looked_at(
    raw: Raw, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind_the_first_look(monkeypatch, lambda: delete(raw.servers, kept))
    with cluster(raw) as opened:
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=kept))


@pytest.mark.parametrize("then", ["died", "committed", "committed, and was cut off"])
def test_another_first_start_between_two_looks(raw: Raw, monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    """The first look finds nothing, and the coordinator knows the id: nothing is lost by that, unless something is."""
    topic = f"progress-{next(numbers)}"
    with cluster(raw) as opened:

        def first() -> None:
            with opened.producer(raw.id, progress_topic=topic) as producer:
                producer.take_over()
                if then != "died":
                    with producer.transaction() as txn:
                        txn.send(raw.topic, ROWS)
            if "cut" in then:
                cut(raw.servers, raw.id, topic)

        behind_the_first_look(monkeypatch, first)
        if "cut" in then:
            for _ in range(2):
                refused(opened.producer(raw.id, progress_topic=topic))
        else:
            with opened.producer(raw.id, progress_topic=topic) as producer:
                assert (producer.take_over() is not None) == (then == "committed")


def test_another_first_start_that_is_cut_off_behind_the_last_look(raw: Raw, monkeypatch: pytest.MonkeyPatch) -> None:
    """The id was new when the coordinator was asked; where the log began before that shows what has been taken away
    since.
    """
    topic, prepare = f"progress-{next(numbers)}", ProgressTopic.ensure
    with cluster(raw) as opened:

        def freeze(progress: ProgressTopic, deadline: Deadline) -> None:
            monkeypatch.undo()
            with opened.producer(raw.id, progress_topic=topic) as producer, producer.transaction() as txn:
                txn.send(raw.topic, ROWS)
            cut(raw.servers, raw.id, topic)
            prepare(progress, deadline)

        monkeypatch.setattr(ProgressTopic, "ensure", freeze)
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=topic))


@pytest.mark.parametrize("made_anew", [False, True])
@pytest.mark.parametrize("was_there", [False, True])
def test_a_topic_that_is_deleted_behind_the_look_of_a_first_start(
    raw: Raw, monkeypatch: pytest.MonkeyPatch, was_there: bool, made_anew: bool
) -> None:
    """The id was new when the coordinator was asked, and is known by now: what was looked at is another topic than the
    one that is there.
    """
    topic, prepare = f"progress-{next(numbers)}", ProgressTopic.ensure
    with cluster(raw) as opened:

        def commit(prefix: str) -> None:
            with opened.producer(prefix, progress_topic=topic) as producer, producer.transaction() as txn:
                txn.send(raw.topic, ROWS)

        def freeze(progress: ProgressTopic, deadline: Deadline) -> None:
            monkeypatch.undo()
            commit(raw.id)
            delete(raw.servers, topic)
            if made_anew:
                commit(f"{raw.id}-later")
            prepare(progress, deadline)

        if was_there:
            commit(f"{raw.id}-before")
        monkeypatch.setattr(ProgressTopic, "ensure", freeze)
        for _ in range(2):
            refused(opened.producer(raw.id, progress_topic=topic))


def test_a_topic_that_is_made_again_behind_the_record_of_a_slow_commit(
    raw: Raw, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new one answers like the old one: by its id it is another."""
    monkeypatch.setattr(semel.transaction.transaction, "_LOOK_AGAIN_S", 0.0)  # as if the groups had let it wait
    struck: list[str] = []

    def strike(passed: semel.steps.Step, of: str) -> None:
        if passed is OwnerStep.PROGRESS_WRITTEN and of == raw.id and not struck:
            struck.append(kept)
            delete(raw.servers, kept)
            with (
                cluster(raw) as opened,
                opened.producer(f"{raw.id}-other", progress_topic=kept) as other,
                other.transaction() as theirs,
            ):
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
