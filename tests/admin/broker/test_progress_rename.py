"""``semel progress rename``: one prefix goes on where another stood, whole or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner, Result

import semel
import semel.steps
from semel import cli
from semel.admin.progress_rename import rename
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, Step
from tests.admin.support.killed_commands import STEPS, killing
from tests.support.raw_producer import Raw
from tests.support.waiting import PATIENCE_S

BATCH = pa.table({"value": ["batch"]})


@pytest.fixture
def cluster(kafka: Sandbox) -> Iterator[semel.Cluster]:
    with semel.Cluster({"bootstrap.servers": kafka.bootstrap_servers, "delivery.timeout.ms": 60_000}) as opened:
        yield opened


@pytest.fixture
def raw(kafka: Sandbox, cluster: semel.Cluster) -> Iterator[Raw]:
    """A prefix that has committed batch 0."""
    made = Raw(kafka.bootstrap_servers)
    go_on(cluster, made.id, made, "before")
    yield made
    made.close()


def go_on(cluster: semel.Cluster, prefix: str, raw: Raw, value: str = "batch") -> None:
    with cluster.producer(prefix) as producer, producer.transaction() as txn:
        txn.send(raw.topic, pa.table({"value": [value]}))


def reached_batch(cluster: semel.Cluster, prefix: str) -> int | None:
    """The batch that the next owner finds committed. It takes the prefix over."""
    with cluster.producer(prefix) as producer:
        found = producer.take_over()
    return found.batch if found is not None else None


def command(raw: Raw, *names: str) -> list[str]:
    return ["progress", "rename", *names, "--yes", "--bootstrap-server", raw.servers]


def run(raw: Raw, *names: str, answer: str = "") -> Result:
    arguments = [one for one in command(raw, *names) if one != "--yes" or not answer]
    return CliRunner().invoke(cli.app, arguments, input=answer)


def refused(raw: Raw, *names: str) -> semel.SemelError:
    error = run(raw, *names).exception
    assert isinstance(error, semel.SemelError)
    return error


def test_the_new_prefix_goes_on_and_the_old_one_is_refused(raw: Raw, cluster: semel.Cluster) -> None:
    new = f"{raw.id}-new"
    done = run(raw, raw.id, new, answer="y\n")
    assert done.exit_code == 0, done.output
    assert f"renamed: {new} resumes at batch 0 where {raw.id} stood" in done.output
    assert reached_batch(cluster, new) == 0
    go_on(cluster, new, raw)
    with pytest.raises(semel.ConfigError, match=rf"PREFIX_MOVED.*was renamed to '{new}'"):
        go_on(cluster, raw.id, raw)
    assert raw.visible() == ["before", "batch"]
    assert refused(raw, raw.id, f"{raw.id}-other").tag == "PREFIX_MOVED"
    assert refused(raw, raw.id, new).tag == "PREFIX_IN_USE", "it is done"
    assert run(raw, new, f"{raw.id}-third").exit_code == 0, "a prefix can be renamed again"
    assert reached_batch(cluster, f"{raw.id}-third") == 1


def test_with_no_nothing_is_changed_and_nobody_fenced(raw: Raw, cluster: semel.Cluster) -> None:
    with cluster.producer(raw.id) as running:
        running.take_over()
        asked = run(raw, raw.id, f"{raw.id}-new", answer="n\n")
        assert (asked.exit_code, "Nothing was changed." in asked.output) == (1, True)
        with running.transaction() as txn:
            txn.send(raw.topic, BATCH)
    assert raw.visible() == ["before", "batch"]


def test_names_that_do_not_fit_are_refused(raw: Raw, cluster: semel.Cluster) -> None:
    go_on(cluster, f"{raw.id}-used", raw)
    assert refused(raw, f"{raw.id}-mistyped", f"{raw.id}-new").tag == "NO_PROGRESS"
    assert refused(raw, raw.id, raw.id).tag == "SAME_PREFIX"
    assert refused(raw, raw.id, f"{raw.id}-used").tag == "PREFIX_IN_USE"
    assert [reached_batch(cluster, name) for name in (raw.id, f"{raw.id}-used")] == [0, 0]


def test_killed_at_every_step_it_is_renamed_or_as_it_was(raw: Raw, cluster: semel.Cluster, tmp_path: Path) -> None:
    with killing(tmp_path) as kill:
        for step in STEPS:
            old, new = f"{raw.id}-{step.name}", f"{raw.id}-{step.name}-new"
            go_on(cluster, old, raw)
            kill(step, command(raw, old, new))
            if STEPS.index(step) < STEPS.index(OwnerStep.COMMIT_SENT):
                # the new one first: the old one would wait for the end of what was broken off
                assert (reached_batch(cluster, new), reached_batch(cluster, old)) == (None, 0), step
            elif step is not OwnerStep.COMMIT_SENT:  # whether what was sent had arrived, nobody knows
                assert reached_batch(cluster, new) == 0, step
                with pytest.raises(semel.ConfigError, match="PREFIX_MOVED"):
                    reached_batch(cluster, old)


@pytest.mark.parametrize("step", [OwnerStep.PARTITIONS_ADDED, OwnerStep.PROGRESS_WRITTEN], ids=lambda step: step.value)
def test_the_old_query_comes_back_in_the_middle(
    raw: Raw, cluster: semel.Cluster, monkeypatch: pytest.MonkeyPatch, step: Step
) -> None:
    """It may not have seen the mark: the rename stops, and it goes on."""
    new = f"{raw.id}-new"
    with cluster.producer(raw.id) as old, ThreadPoolExecutor(1) as aside:
        back: list[Callable[[], object]] = []
        fenced = threading.Event()

        def observe(passed: Step, of: str) -> None:
            if passed is step and of == new and not back:
                back.append(aside.submit(old.take_over, [raw.topic]).result)
                assert fenced.wait(PATIENCE_S)
            elif passed is OwnerStep.INITIALISED and of == raw.id and back:
                fenced.set()

        monkeypatch.setattr(semel.steps, "_observer", observe)
        with pytest.raises(semel.Fenced, match=rf"'{raw.id}' while it was being renamed to '{new}'"):
            rename(cluster._client, raw.id, new, scope="producer")
        back[0]()
        with old.transaction() as txn:
            txn.send(raw.topic, BATCH)
    assert raw.visible() == ["before", "batch"]
    assert reached_batch(cluster, new) is None
