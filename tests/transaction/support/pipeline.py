"""A small pipeline in plain processes: an owner copies numbered records, chunk by chunk, through two participants that
it forks.

In a process of its own (``nursery.py``) it is the victim of the crash tests; its functions are the rival that takes
over from it. Record number i of the source topic stands at offset i, so a chunk is known without reading it. Each
transaction holds one chunk, its position as progress, and the group's offset.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

import semel
from semel.config import ClientConfig
from semel.errors import AbortAndRetry, Retriable, SemelError
from semel.transaction.output_topics import describe_output_topics, non_transactional_tickets
from semel.transaction.producer import Producer
from semel.transaction.progress.record import KafkaSource, Progress, TopicEnd
from semel.transaction.ticket import Receipt, Ticket
from semel.wire.client import Client

#: Exit status of an owner that was fenced.
FENCED = 3
PARTITIONS = 3
#: Forked up front: a participant that is killed is replaced by the next one.
_PARTICIPANTS = 8
_POLL_S = 0.2

Write = Callable[[Sequence[Ticket], int, int], list[Receipt]]


@dataclass(frozen=True)
class Job:
    """The job of a pipeline. ``mode`` says where a restart begins: ``exact`` at the committed progress; ``forget`` and
    ``ahead`` at the position in a file that was written after the commit, or before it; ``plain`` writes without
    transactions, once.
    """

    servers: str
    prefix: str
    source: str
    target: str
    total: int
    chunk: int
    cluster: str
    mode: str = "exact"
    file: str = ""
    abort_every: int = 3
    transaction_timeout_ms: int = 60_000
    request_timeout_ms: int = 10_000
    delivery_timeout_ms: int = 30_000

    @property
    def group(self) -> str:
        return f"{self.prefix}-group"

    def rows(self, start: int, end: int, partitions: Sequence[int] = range(PARTITIONS)) -> pa.Table:
        numbers = [number for number in range(start, end) if number % PARTITIONS in partitions]
        values = [self.value(number) for number in numbers]
        return pa.table({"value": values, "partition": pa.array([n % PARTITIONS for n in numbers], pa.int32())})

    def value(self, number: int) -> str:
        return json.dumps({"id": number, "batch": number // self.chunk})

    def properties(self) -> dict[str, object]:
        return {
            "bootstrap.servers": self.servers,
            "delivery.timeout.ms": self.delivery_timeout_ms,
            "request.timeout.ms": self.request_timeout_ms,
            "socket.connection.setup.timeout.ms": min(self.request_timeout_ms, 10_000),
            "transaction.timeout.ms": self.transaction_timeout_ms,
        }


def position(progress: Progress | None, job: Job) -> int:
    if progress is None:
        return 0
    (source,) = progress.sources
    assert isinstance(source, KafkaSource)
    return source.topics[job.source].end[0]


def copy_next(producer: Producer, job: Job, write: Write, *, start: int | None = None, abort: bool = False) -> int:
    """Copy the next chunk in one transaction; with ``abort``, write it all and then abort.

    Returns the position reached.
    """
    start = position(producer.progress, job) if start is None else start
    end = min(start + job.chunk, job.total)
    with producer.transaction() as txn:
        txn.accept(write(txn.tickets(_shares(job)), start, end))
        txn.send_offsets({(job.source, 0): end}, job.group)
        if abort:
            txn.abort()
            return start
        here = KafkaSource(job.cluster, {job.source: TopicEnd("", {0: end})})
        txn.commit(Progress(query=job.prefix, batch=start // job.chunk, sources=(here,)))
    return end


def _shares(job: Job) -> list[list[tuple[str, int]]]:
    return [[(job.target, 0)], [(job.target, 1), (job.target, 2)]]


def write_here(cluster: semel.Cluster, job: Job) -> Write:
    """Write with the tickets in this process, one after the other."""

    def write(tickets: Sequence[Ticket], start: int, end: int) -> list[Receipt]:
        return [_write(cluster, job, ticket, start, end) for ticket in tickets]

    return write


def _write(cluster: semel.Cluster, job: Job, ticket: Ticket, start: int, end: int) -> Receipt:
    with cluster.participant(ticket) as participant:
        rows = job.rows(start, end, [index for _, index in ticket.partitions])
        half = rows.num_rows // 2
        participant.write(job.target, rows.slice(0, half))
        participant.write(job.target, rows.slice(half))
        return participant.receipt


class Workers:
    """Participants in processes of their own, forked before anything else is open."""

    def __init__(self, job: Job) -> None:
        fork = multiprocessing.get_context("fork")
        self._pipes: list[Connection] = []
        for _ in range(_PARTICIPANTS):
            mine, theirs = fork.Pipe()
            fork.Process(target=_participate, args=(job, theirs, os.getpid()), daemon=True).start()
            theirs.close()
            self._pipes.append(mine)

    def write(self, tickets: Sequence[Ticket], start: int, end: int) -> list[Receipt]:
        busy = self._pipes[: len(tickets)]
        for pipe, ticket in zip(busy, tickets, strict=True):
            pipe.send((ticket, start, end))
        answers = [self._answer(pipe) for pipe in busy]
        for answer in answers:
            if isinstance(answer, SemelError):
                raise answer
        return [answer for answer in answers if isinstance(answer, Receipt)]

    def _answer(self, pipe: Connection) -> Receipt | SemelError:
        try:
            answer: Receipt | SemelError = pipe.recv()
        except (EOFError, ConnectionResetError):
            self._pipes.remove(pipe)
            return AbortAndRetry("a participant died.")
        return answer


def _participate(job: Job, pipe: Connection, owner: int) -> None:
    cluster = None
    while True:
        while not pipe.poll(
            _POLL_S
        ):  # forked siblings hold copies of the pipe: its end does not show that the owner is gone
            if os.getppid() != owner:
                return
        ticket, start, end = pipe.recv()
        cluster = cluster or semel.Cluster(job.properties())
        try:
            answer: Receipt | SemelError = _write(cluster, job, ticket, start, end)
        except SemelError as error:
            answer = error
        pipe.send(answer)


def run(job: Job) -> None:
    """Copy until all is there."""
    workers = Workers(job)
    if job.mode == "plain":
        _run_plain(job, workers)
        return
    with semel.Cluster(job.properties()) as cluster:
        while True:
            with cluster.producer(job.prefix) as producer:
                try:
                    _run_owner(producer, job, workers.write)
                except Retriable as error:
                    if error.tag != "OUTCOME_UNKNOWN":
                        raise
                else:
                    return


def _run_plain(job: Job, workers: Workers) -> None:
    with Client(ClientConfig.parse(job.properties())) as client:
        for start in range(0, job.total, job.chunk):
            topics = describe_output_topics(client, {job.target}, client.deadline())
            workers.write(non_transactional_tickets(_shares(job), topics), start, start + job.chunk)


def _run_owner(producer: Producer, job: Job, write: Write) -> None:
    producer.take_over([job.target], job.group)
    kept = Path(job.file)
    at = position(producer.progress, job)
    if job.mode != "exact":
        at = int(kept.read_text()) if kept.exists() else 0
    turn = 0
    while at < job.total:
        turn += 1
        if job.mode == "ahead":
            kept.write_text(str(at + job.chunk))
        try:
            at = copy_next(producer, job, write, start=at, abort=turn % job.abort_every == 2)
        except AbortAndRetry as error:
            print("again:", error, flush=True)
        if job.mode == "forget":
            kept.write_text(str(at))
