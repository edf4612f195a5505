"""Other versions of Kafka than the default, which all other tests run on: those that are trusted, and those that are
refused (DESIGN rule 8).

All tests of the core against a broker on them are ``make test-versions``; what was seen is in ``docs/versions.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka.protocol.producer import WriteTxnMarkersRequest

import semel
from semel.config import ClientConfig
from semel.errors import Unsupported
from semel.sandbox import Sandbox
from semel.steps import OwnerStep, ParticipantStep
from semel.testing.crash import Action, CrashPlan, CrashPoint
from semel.transaction.progress.topic import DEFAULT_TOPIC
from semel.wire.api.describe_transactions import describe
from semel.wire.api.transactions import Identity
from semel.wire.client import Client
from tests.support.forked_owners import Nursery
from tests.support.raw_producer import INVALID_EPOCH, Raw
from tests.support.waiting import PATIENCE_S
from tests.transaction.support.pipeline import FENCED, PARTITIONS, Job, copy_next, position, write_here
from tests.transaction.support.pipeline_checks import assert_whole, new_job

TRUSTED = ["4.2.1", "4.4.0"]
REFUSED = ["4.1.2"]
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


@pytest.fixture(scope="module", params=REFUSED)
def refused(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox.start(version=request.param) as sandbox:
        yield sandbox


def live(job: Job, nursery: Nursery, directory: Path) -> None:
    """A pipeline that is killed and taken over, aborts on its way, and meets a rival; its end is read by another
    client.
    """
    plan = CrashPlan(directory / "plan", *KILLS)
    first, log = replace(job, total=job.total // 2), directory / "log"
    assert nursery.run_until_done(first, plan, len(KILLS), log) == len(KILLS) - 1, (
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


def test_an_old_version_is_refused_before_anything_is_written(refused: Sandbox) -> None:
    job = new_job(refused, "refused", chunks=1)
    with semel.Cluster(job.properties()) as cluster, cluster.producer(job.prefix) as producer:
        with pytest.raises(
            Unsupported, match=r"(?s)is older than 4\.2.*Nothing was written.*Upgrade to Kafka 4\.2 or newer"
        ):
            producer.take_over([job.target], job.group)
        with pytest.raises(Unsupported, match=r"is older than 4\.2"):
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
        for values, commit in ((["one", "two"], True), (["never"], False)):
            identity = raw.init()
            raw.add(identity, 0)
            raw.produce(identity, values)
            raw.end(identity, commit=commit)
            raw.settled(0)
        rows = [
            value
            for batch in cluster.read(raw.topic, start="earliest", end="latest")
            for value in batch["value"].to_pylist()
        ]
    assert rows == [b"one", b"two"]


def test_the_hole_of_an_old_version_is_there(refused: Sandbox) -> None:
    """Half of a transaction is committed by the marker of the one before it, and its own abort does not take that
    back.
    """
    assert late_marker_is_taken(refused) == (0, ["half of the next"])


def late_marker_is_taken(kafka: Sandbox) -> tuple[int, list[str]]:
    """Repeat the marker of a committed transaction in the middle of the next one, which is then aborted: the answer,
    and what readers see of it.
    """
    raw = Raw(kafka.bootstrap_servers)
    with closing(raw):
        first = raw.init()
        raw.add(first, 0)
        raw.produce(first, ["first"])
        _, second = raw.end(first, commit=True)
        raw.settled(0)
        raw.add(second, 0)
        raw.produce(second, ["half of the next"])
        code = write_marker(raw, second)
        raw.end(second, commit=False)
        raw.settled(0)
        return code, [value for value in raw.visible() if value != "first"]


def write_marker(raw: Raw, marked: Identity) -> int:
    """The COMMIT marker as its coordinator writes it: with the epoch that comes behind its transaction's, which is the
    next one's own.
    """
    topic = WriteTxnMarkersRequest.WritableTxnMarker.WritableTxnMarkerTopic(name=raw.topic, partition_indexes=[0])
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=marked.producer_id,
        producer_epoch=marked.epoch,
        transaction_result=True,
        topics=[topic],
        coordinator_epoch=0,
        transaction_version=2,
    )
    version = raw.client.versions().pick(WriteTxnMarkersRequest, 1, 2)
    answer = raw.once(raw.leader(), WriteTxnMarkersRequest(markers=[marker]), version)
    return int(answer.markers[0].topics[0].partitions[0].error_code)
