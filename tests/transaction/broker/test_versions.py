"""Other versions of Kafka than the default, which all other tests run on: those that are trusted, those that take late
markers, and those that are refused (DESIGN rule 8).

All tests of the core against a broker on them are ``make test-versions``; what was seen is in ``docs/versions.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka import KafkaProducer
from kafka.protocol.producer import WriteTxnMarkersRequest

import semel
from semel.config import ClientConfig
from semel.errors import Unsupported
from semel.read.raw_log import EndMarker, read_raw
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, ParticipantStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.transaction.group_offsets import offsets_partition
from semel.transaction.late_markers import skip_epoch
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.api.describe_transactions import describe
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from tests.support.forked_owners import Nursery
from tests.support.raw_producer import CONCURRENT, INVALID_EPOCH, INVALID_STATE, Raw
from tests.support.raw_producer import FENCED as PRODUCER_FENCED
from tests.support.waiting import PATIENCE_S
from tests.transaction.support.pipeline import FENCED, PARTITIONS, Job, copy_next, position, write_here
from tests.transaction.support.pipeline_checks import assert_whole, new_job

TRUSTED = ["4.4.0", pytest.param("4.2.1", marks=pytest.mark.exhaustive)]
OLD = ["4.1.2", pytest.param("4.0.2", marks=pytest.mark.exhaustive)]
#: The default version with an old level, and a version that has none.
REFUSED = [
    pytest.param(({"transaction.version": 1}, None), id="level"),
    pytest.param(({}, "3.9.1"), id="3.9.1", marks=pytest.mark.exhaustive),
]
#: One kill on the way in, while it is written, around the commit, and in an abort: every step is struck on the default
#: version.
KILLS = [
    CrashPoint(OwnerStep.PARTITIONS_ADDED, 2),
    CrashPoint(OwnerStep.COMMIT_SENT, 2),
    CrashPoint(OwnerStep.COMMIT_ANSWERED, 3),
    CrashPoint(OwnerStep.MARKERS_CHECKED, 3),
    CrashPoint(OwnerStep.ABORT_SENT, 2),
    CrashPoint(ParticipantStep.ACKNOWLEDGED, 9),
]


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with Nursery() as running:
        yield running


@pytest.fixture(scope="module", params=TRUSTED)
def trusted(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox.start(version=request.param) as sandbox:
        yield sandbox


@pytest.fixture(scope="module", params=OLD)
def old(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox.start(version=request.param) as sandbox:
        yield sandbox


@pytest.fixture(scope="module", params=REFUSED)
def refused(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    features, version = request.param
    with Sandbox.start(features=features, version=version) as sandbox:
        yield sandbox


def live(job: Job, nursery: Nursery, directory: Path, kills: Sequence[CrashPoint] = KILLS) -> None:
    """A pipeline that is killed and taken over, aborts on its way, and meets a rival; its end is read by another
    client.
    """
    plan = CrashPlan(directory / "plan", *kills)
    first, log = replace(job, total=job.total // 2), directory / "log"
    assert nursery.run_until_done(first, plan, len(kills), log) == len(kills) - 1, (
        "a participant dies without its owner"
    )
    held = CrashPoint(OwnerStep.PROGRESS_WRITTEN, 1, Action.STOP)
    frozen = CrashPlan(directory / "frozen", held)
    owner = nursery.start(job, frozen, log)
    with closing(owner), semel.Cluster(job.properties()) as cluster:
        frozen.wait(held, PATIENCE_S)
        with cluster.producer(job.prefix) as rival:
            rival.take_over([job.target], job.group)
            copy_next(rival, job, write_here(cluster, job))
            frozen.release(held)
            assert owner.wait() == FENCED, owner.said()
            while position(rival.progress, job) < job.total:
                copy_next(rival, job, write_here(cluster, job))
    assert_whole(job)


# ---- 4.2 and newer


def test_killed_taken_over_and_fenced_on_a_trusted_version(trusted: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    live(new_job(trusted, "trusted", chunks=20), nursery, tmp_path)


def test_a_late_marker_is_refused_by_a_trusted_version(trusted: Sandbox) -> None:
    """What makes them trusted: WriteTxnMarkers version 2."""
    assert late_marker_is_taken(trusted) == (INVALID_EPOCH, [])


# ---- 4.0 and 4.1


def test_killed_taken_over_and_fenced_on_an_old_version(old: Sandbox, nursery: Nursery, tmp_path: Path) -> None:
    kills = [*KILLS, CrashPoint(OwnerStep.EPOCH_SKIPPED, 3)]
    live(new_job(old, "old", chunks=20), nursery, tmp_path, kills)


def test_the_hole_of_an_old_version_is_there(old: Sandbox) -> None:
    """Half of a transaction is committed by the marker of the one before it, and its own abort does not take that
    back.
    """
    assert late_marker_is_taken(old) == (0, ["half of the next"])


def test_a_late_marker_is_refused_after_a_skipped_epoch(old: Sandbox) -> None:
    assert late_marker_is_taken(old, skip=True) == (INVALID_EPOCH, [])


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "aborted"])
def test_a_late_marker_before_the_first_row_ends_nothing(old: Sandbox, commit: bool) -> None:
    raw = Raw(old.bootstrap_servers)
    with closing(raw):
        second = first_transaction(raw, commit=commit)
        third = skipped(raw, second)
        raw.add(third, 0)
        assert write_marker(raw, second) == 0
        raw.produce(third, ["aborted"])
        raw.end(third, commit=False)
        raw.settled(0)
        assert raw.visible() == ["first"] * commit


@pytest.mark.parametrize("skip", [False, True], ids=["control", "skipped"])
def test_a_late_marker_on_the_partition_of_a_groups_offsets(old: Sandbox, skip: bool) -> None:
    raw = Raw(old.bootstrap_servers)
    with closing(raw):
        first = raw.init()
        raw.commit_offset(first, 5)
        second = ended(raw, first, commit=True)
        now = skipped(raw, second) if skip else second
        raw.commit_offset(now, 9)
        code = write_marker(raw, second, *offsets_partition(raw.client, raw.group))
        ended(raw, now, commit=False)
        assert (code, raw.group_offset()) == ((INVALID_EPOCH, 5) if skip else (0, 9))


def test_a_skipped_epoch_comes_late_or_twice(old: Sandbox) -> None:
    """It aborts nothing of the next transaction. An InitProducerId in its place does."""
    raw = Raw(old.bootstrap_servers)
    with closing(raw):
        second = first_transaction(raw)
        third = skipped(raw, second)
        assert skipped(raw, second) == third
        raw.add(third, 0)
        raw.produce(third, ["next"])
        assert raw.end(second, commit=False)[0] == PRODUCER_FENCED
        ended(raw, third, commit=True)
        assert raw.visible() == ["first", "next"]
        fifth = skipped(raw, Identity(third.transactional_id, third.producer_id, third.epoch + 1))
        raw.add(fifth, 0)
        raw.produce(fifth, ["destroyed"])
        assert raw.init_once(producer_id=second.producer_id, epoch=second.epoch)[0] == CONCURRENT
        assert raw.end(fifth, commit=True)[0] in (INVALID_STATE, PRODUCER_FENCED)


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "aborted"])
def test_the_markers_of_an_owners_transactions_end_nothing_late(old: Sandbox, commit: bool) -> None:
    raw = Raw(old.bootstrap_servers)
    prefix = f"late-{raw.id}"
    with closing(raw), semel.Cluster({"bootstrap.servers": raw.servers}) as cluster, cluster.producer(prefix) as owner:
        for _ in range(2):
            with owner.transaction() as txn:
                txn.send(raw.topic, values("first"))
                if not commit:
                    txn.abort()
            owner.wait_visible()
        late = last_marker(raw, prefix)
        assert late.commit is commit
        with owner.transaction() as txn:
            txn.send(raw.topic, values("half of the next"))
            assert write_marker(raw, late) == INVALID_EPOCH
            txn.abort()
        owner.wait_visible()
        assert raw.visible() == ["first", "first"] * commit


def test_the_markers_of_prepared_transactions_end_nothing_late(old: Sandbox) -> None:
    raw = Raw(old.bootstrap_servers)
    prefix = f"late-{raw.id}"
    with (
        closing(raw),
        semel.Cluster({"bootstrap.servers": raw.servers}) as cluster,
        cluster.producer(prefix, two_phase="bounded") as producer,
    ):
        with producer.transaction() as unit:
            unit.send(raw.topic, values("first"))
            prepared = unit.prepare()
        producer.commit(prepared)
        late = last_marker(raw, prepared.transactional_id)
        with producer.transaction() as unit:
            unit.send(raw.topic, values("next"))
            following = unit.prepare()
        assert (following.producer_id, following.epoch) == (prepared.producer_id, late.epoch + 1), "another id"
        assert write_marker(raw, late) == INVALID_EPOCH
        cluster.commit(prepared)  # again, by the text: it is answered by its markers
        producer.abort(following)
        assert raw.visible() == ["first"]


# ---- refused


def test_an_old_version_is_refused_before_anything_is_written(refused: Sandbox) -> None:
    job = new_job(refused, "refused", chunks=1)
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        with pytest.raises(Unsupported, match=r"(?s)need 2\. Nothing was written; reading works on 3\.9 and newer.*=2"):
            producer.take_over([job.target], job.group)
        with pytest.raises(Unsupported, match=r"Upgrade the brokers to 4\.0 or newer"):
            producer.transaction()
    with Client(ClientConfig.parse(job.properties())) as client:
        assert describe(client, job.prefix) is None, "it took the id"
    admin = AdminClient({"bootstrap.servers": job.servers})
    assert DEFAULT_TOPIC not in admin.list_topics(timeout=30).topics
    ends = admin.list_offsets({TopicPartition(job.target, index): OffsetSpec.latest() for index in range(PARTITIONS)})
    assert [end.result(30).offset for end in ends.values()] == [0] * PARTITIONS


def test_an_old_version_can_be_read(refused: Sandbox) -> None:
    raw = Raw(refused.bootstrap_servers)
    with closing(raw), semel.Cluster({"bootstrap.servers": raw.servers}) as cluster:
        written = KafkaProducer(bootstrap_servers=raw.servers)
        for value in (b"one", b"two"):
            written.send(raw.topic, value)
        written.close()
        rows = [
            value
            for batch in cluster.read(raw.topic, start="earliest", end="latest")
            for value in batch["value"].to_pylist()
        ]
    assert rows == [b"one", b"two"]


# ---- steps


def first_transaction(raw: Raw, *, commit: bool = True) -> Identity:
    """One transaction. Returns the identity that EndTxn hands out, with the epoch of its markers."""
    first = raw.init()
    raw.add(first, 0)
    raw.produce(first, ["first"])
    return ended(raw, first, commit=commit)


def ended(raw: Raw, identity: Identity, *, commit: bool) -> Identity:
    """End it, wait for its markers, and return the identity of the next one."""
    raw.end(identity, commit=commit)
    raw.settled(0)
    code, following = raw.end(identity, commit=commit)  # answered when all markers are written
    assert code == 0
    return following


def skipped(raw: Raw, identity: Identity) -> Identity:
    following = skip_epoch(raw.client, identity, raw.client.deadline())
    assert following is not None
    assert following.epoch == identity.epoch + 1
    return following


def late_marker_is_taken(kafka: Sandbox, *, skip: bool = False) -> tuple[int, list[str]]:
    """Repeat the marker of a committed transaction in the middle of the next one, which is then aborted: the answer,
    and what readers see of it.
    """
    raw = Raw(kafka.bootstrap_servers)
    with closing(raw):
        second = first_transaction(raw)
        now = skipped(raw, second) if skip else second
        raw.add(now, 0)
        raw.produce(now, ["half of the next"])
        code = write_marker(raw, second)
        raw.end(now, commit=False)
        raw.settled(0)
        return code, [value for value in raw.visible() if value != "first"]


def values(value: str) -> pa.Table:
    return pa.table({"value": [value], "partition": pa.array([0], pa.int32())})


def last_marker(raw: Raw, transactional_id: str) -> EndMarker:
    """Return the newest marker in the log, of the id's producer id."""
    description = describe(raw.client, transactional_id)
    assert description is not None
    (end,) = list_offsets(raw.client, {(raw.topic, 0): LATEST}, read_committed=False).values()
    log = read_raw(raw.client, (raw.topic, 0), end.offset, raw.client.deadline())
    *_, newest = (one for one in log if isinstance(one, EndMarker))
    assert newest.producer_id == description.producer_id
    return newest


def write_marker(raw: Raw, marked: Identity | EndMarker, topic: str = "", index: int = 0) -> int:
    """The COMMIT marker as its coordinator writes it: with the epoch that comes after its transaction's."""
    where = topic or raw.topic
    target = WriteTxnMarkersRequest.WritableTxnMarker.WritableTxnMarkerTopic(name=where, partition_indexes=[index])
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=marked.producer_id,
        producer_epoch=marked.epoch,
        transaction_result=True,
        topics=[target],
        coordinator_epoch=0,
        transaction_version=2,
    )
    version = raw.client.versions().pick(WriteTxnMarkersRequest, 1, 2)
    leader = raw.client.topics({where})[where].partitions[index].leader
    answer = raw.once(leader, WriteTxnMarkersRequest(markers=[marker]), version)
    return int(answer.markers[0].topics[0].partitions[0].error_code)
