"""A worker of streams, until all is read: a count, a copy, a join of a stream with a table, or a table alone.

The count counts the words of a topic behind a repartition topic, in windows and sessions, and in a processor. Pairs are
a join of two streams.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass

from semel.config import ClientConfig
from semel.errors import Retriable
from semel.read.data_loss import newest_ends
from semel.steps import Step, reached
from semel.streams import App, Processor, Record, stores, windows
from semel.streams.state.state_store import StateStore
from semel.streams.worker.worker import Worker
from semel.wire.api.offsets import committed
from semel.wire.client import Client

PARTITIONS = 4
#: One record of the join's table comes with so many of its stream.
TABLE_EVERY = 10
#: What an even word adds to its aggregate, beside 1.
EVEN = 1_000
#: Counts belong to so many words.
ACCOUNTS = 5


class ControlStep(Step):
    """The step of the mistake."""

    STORED_EARLY = "stored_early"


class Seen(Processor):
    """Counts the records of each key."""

    def process(self, record: Record) -> None:
        """One more, in its store."""
        seen = self.context.store("seen")
        seen.put(record.key, (seen.get(record.key) or 0) + 1)


@dataclass(frozen=True)
class StreamsJob:
    """The job of a streams worker, and the final number of records in the source.

    ``shape`` is count, copy, join, pairs, pattern, table or tables. The join's ``table`` has ``users`` records, and one
    more with each tenth of the source.

    ``mode`` is ``exact``; ``early``: state is in the store before the transaction is committed; ``again``: what a new
    start cures is cured by one, as ``App.run`` does.
    """

    servers: str
    application_id: str
    source: str
    target: str
    total: int
    state_dir: str
    instance: str | None = None
    mode: str = "exact"
    chunk: int = 50
    request_timeout_ms: int = 30_000
    timeout_ms: int = 2_000
    session_ms: int | None = None
    commit_ms: int = 5
    shape: str = "count"
    table: str = ""
    users: int = 0
    standbys: int = 0
    recovery_lag: int = 10_000
    look_ms: int = 300_000

    def app(self) -> App:
        app = App(
            self.application_id,
            **{
                "bootstrap.servers": self.servers,
                "transaction.timeout.ms": self.timeout_ms,
                "session.timeout.ms": self.session_ms or self.timeout_ms,
                "commit.interval.ms": self.commit_ms,
                "max.poll.records": self.chunk,
                "request.timeout.ms": self.request_timeout_ms,
                "state.dir": self.state_dir,
                "num.standby.replicas": self.standbys,
                "metadata.max.age.ms": self.look_ms,
                "acceptable.recovery.lag": self.recovery_lag,
                **({"group.instance.id": self.instance} if self.instance else {}),
                **(self._handlers if self.shape == "tables" else {}),
            },
        )
        _SHAPES[self.shape](self, app)
        return app

    @property
    def later(self) -> str:
        """The topic that joins the source of a pattern."""
        return f"{self.source}-later"

    @property
    def letters(self) -> str:
        """The topic of dead letters."""
        return f"{self.target}-letters"

    @property
    def _handlers(self) -> dict[str, str]:
        return {"processing.exception.handler": "continue", "errors.dead.letter.queue.topic.name": self.letters}

    @property
    def expected(self) -> dict[str, int]:
        """The final number of records in each topic that is read."""
        if self.shape == "pattern":
            return {self.source: self.total // 2, self.later: self.total - self.total // 2}
        return {self.source: self.total} | ({self.table: self.users + self.total // TABLE_EVERY} if self.table else {})

    @property
    def repartitions(self) -> list[str]:
        """The repartition topics: what a later one has comes from those before it."""
        between = [f"foreign-subscription-{way}-topic" for way in ("registration", "response")]
        names = {
            "count": ["counts-repartition"],
            "tables": ["counts-repartition", "groups-repartition", *between],
        }.get(self.shape, [])
        return [f"{self.application_id}-{name}" for name in names]

    def changelog(self, store: str) -> str:
        return f"{self.application_id}-{store}-changelog"


def is_bad(word: str) -> bool:
    return word.endswith("1")


def account(count: int) -> str:
    """Return the word to which a count belongs."""
    return f"word-{count % ACCOUNTS}"


def is_even(word: str) -> bool:
    return int(word.partition("-")[2]) % 2 == 0


def accepted(record: Record) -> str:
    if is_bad(record.value):
        raise ValueError(f"{record.value} is refused")
    return str(record.value)


def paired(left: object, right: str | None) -> str:
    return f"{left} {right}"


def _count(job: StreamsJob, app: App) -> None:
    words = app.stream(job.source, key="string", value="string")
    words.group_by("value").count("counts").to_stream().to(job.target)
    words.group_by_key().windowed(windows.hopping(20, 10, grace=5)).count("windows")
    words.group_by_key().windowed(windows.session(9, grace=5)).count("sessions")
    words.process(Seen, stores=[stores.key_value("seen", value="long")])


def _tables(job: StreamsJob, app: App) -> None:
    words = app.stream(job.source, key="string", value="string").map_values(accepted, value="string")
    words = words.select_key("value").repartition("counts")
    counts, newest = (
        words.group_by_key().count("counts"),
        words.group_by_key().reduce(lambda _, value: value, "newest"),
    )
    counted = counts.left_join(newest, lambda count, _: count)
    groups = counted.group_by(lambda record: (record.value % 3, record.value), key="json").aggregate(
        lambda: 0, lambda _, value, total: total + value, lambda _, value, total: total - value, name="groups"
    )
    groups.to_stream().to(job.target)
    even = words.filter(lambda record: is_even(record.value)).group_by_key()
    both = words.group_by_key().cogroup(lambda _, word, total: total + 1)
    both = both.cogroup(even, lambda _, word, total: total + EVEN)
    counts.join(
        newest,
        paired,
        foreign_key_extractor=lambda record: account(record.value),
        value="string",
        name="accounts",
        named="foreign",
    )
    both.windowed(windows.tumbling("24 h", grace="24 h")).aggregate(lambda: 0, name="both", value="long")


def _pairs(job: StreamsJob, app: App) -> None:
    words = app.stream(job.source, key="string", value="string")
    even, odd = words.branch(lambda record: record.timestamp % 2 == 0, lambda record: True)
    even.left_join(odd, paired, windows.join(20, grace=5), value="string", name="met").to(job.target)


def _pattern(job: StreamsJob, app: App) -> None:
    words = app.stream(re.compile(f"{job.source}.*"), key="string", value="string")
    words.group_by_key().count("counts").to_stream().to(job.target)


def _copy(job: StreamsJob, app: App) -> None:
    app.stream(job.source).to(job.target)


def _join(job: StreamsJob, app: App) -> None:
    users = app.table(job.table, key="string", value="string", name="users")
    stream = app.stream(job.source, key="string", value="string")
    stream.join(users, lambda number, user: f"{number} {user}", value="string").to(job.target)


def _table(job: StreamsJob, app: App) -> None:
    app.table(job.source, name="table")


_SHAPES: dict[str, Callable[[StreamsJob, App], None]] = {
    "count": _count,
    "copy": _copy,
    "pairs": _pairs,
    "pattern": _pattern,
    "join": _join,
    "table": _table,
    "tables": _tables,
}


def done(client: Client, job: StreamsJob) -> bool:
    """Return whether all is read: the group is at the end of each topic."""
    for topic, total in job.expected.items():
        read = [(topic, index) for index in range(PARTITIONS)]
        if sum(committed(client, job.application_id, read, require_stable=True).values()) < total:
            return False
    for topic in job.repartitions:
        between = [(topic, index) for index in range(PARTITIONS)]
        ends = newest_ends(client, between)
        stands = committed(client, job.application_id, between, require_stable=True)
        if any(stands.get(partition, 0) != end for partition, end in ends.items()):
            return False
    return True


def run(job: StreamsJob) -> None:
    """Work until all is done."""
    logging.basicConfig(level=logging.WARNING)
    logging.getLogger("semel").setLevel(logging.INFO)
    if job.mode == "early":
        store_early()
    while True:
        try:
            work(job)
        except Retriable as error:
            if job.mode != "again":
                raise
            logging.getLogger("semel").warning("it starts again: %s", error)
        else:
            return


def work(job: StreamsJob) -> None:
    """Work until all is done, in one start."""
    with Client(ClientConfig.parse({"bootstrap.servers": job.servers})) as client, Worker(job.app()) as worker:
        while True:
            if not worker.step() and not worker.restoring and done(client, job):
                worker.commit()
                return


def store_early() -> None:
    """Make the mistake that the store prevents: put uncommitted changes into the backend."""
    before = StateStore.changes

    def changes(store: StateStore) -> object:
        made = before(store)
        there = store.position
        kept = dict(store._puts)
        store.apply(there.topic_id if there else "", there.offset if there else 0)
        store._puts.update(kept)
        reached(ControlStep.STORED_EARLY)
        return made

    StateStore.changes = changes  # type: ignore[assignment,method-assign]
