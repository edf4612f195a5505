"""A storm from its beginning to its verdict: three brokers, a proxy in front of them, queries behind it, and who
strikes them.

Its phases: all is started and each query has committed something; it storms, while rows arrive; all is thawed and left
alone until each query has read its source to the end; all is stopped and looked at.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from semel.sandbox import Sandbox
from semel.testing.proxy.fault_proxy import FaultProxy
from semel.testing.spark import fork_server
from tests import topics
from tests.spark.support.topics_and_drivers import source_ends
from tests.storm.checks import verdict
from tests.storm.faults import Strikers
from tests.storm.job import KINDS, USERS, Job, row
from tests.storm.supervisor import Keeper
from tests.storm.wire import Wire

__all__ = ["Outcome", "Plan", "Storm"]

SOURCE, SOURCE_PARTITIONS, OUTPUT_PARTITIONS = "storm-in", 3, 4
#: Rows of one lot are written together.
_LOT = 100
_PER_BATCH = 2_000
#: How long it may take until all have begun, and until all is read when the storm is over.
_BEGIN_S, _CATCH_UP_S, _STOP_S = 600.0, 900.0, 180.0
#: How much longer it storms where somebody was never found, such as an executor while the machine is slow in starting
#: them.
_OVERTIME_S = 300.0
_POLL_S = 0.3
#: A follower that is behind is missed soon, so that the others can go on without it, and a storm is not mostly waiting.
_BROKER = {"replica.lag.time.max.ms": "5000"}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for: seconds of storm, and rows a second that arrive in it."""

    seed: int
    seconds: float
    kinds: Sequence[str] = KINDS
    rows_a_second: int = 100


@dataclass(slots=True)
class Outcome:
    """What came of it. ``seconds`` by phase; the counts are the strikers'."""

    plan: Plan
    directory: Path
    rows: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Storm:
    """A context manager, with everything that runs. ``directory`` keeps logs, steps and checkpoints."""

    def __init__(self, plan: Plan, directory: Path, say: Callable[[str], None] = print) -> None:
        self.plan, self.outcome = plan, Outcome(plan, directory)
        self._say = say
        self._stack = ExitStack()
        self._fed = threading.Event()
        self._feeder: threading.Thread | None = None

    def __enter__(self) -> Storm:
        directory = self.outcome.directory
        fork_server.python()  # once, before the threads that want it
        with ExitStack() as stack:
            self.sandbox = stack.enter_context(Sandbox.start(nodes=3, directory=directory / "kafka", settings=_BROKER))
            stack.callback(self.sandbox.stop, now=True)
            self.servers = self.sandbox.bootstrap_servers
            self.proxy = FaultProxy(self.servers)
            stack.callback(self.proxy.stop)
            topics.create(self.servers, SOURCE, SOURCE_PARTITIONS, 3)
            self.keepers = [self._keeper(kind) for kind in self.plan.kinds]
            for keeper in self.keepers:
                stack.callback(keeper.end)
            names = [keeper.job.group for keeper in self.keepers]
            self._groups = {
                name: Consumer({"bootstrap.servers": self.servers, "group.id": name, "log_level": 2}) for name in names
            }
            for consumer in self._groups.values():
                stack.callback(consumer.close)
            self.wire = Wire(self.proxy)
            self.strikers = Strikers(self.plan.seed, self.sandbox, self.keepers, self.wire)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._fed.set()
        if self._feeder is not None:
            self._feeder.join()
        self._stack.close()

    def _keeper(self, kind: str) -> Keeper:
        home = self.outcome.directory / kind
        stop = str(self.outcome.directory / "stop")
        job = Job(kind, self.proxy.bootstrap_servers, SOURCE, str(home / "checkpoint"), stop, _PER_BATCH)
        topics.create(self.servers, job.target, OUTPUT_PARTITIONS, 3)
        return Keeper(job, home / "steps")

    # ---- its phases

    def run(self) -> Outcome:
        """All of them. What goes wrong is in ``problems`` of the outcome."""
        try:
            for phase in (self.begin, self.rage, self.calm, self.judge):
                began = time.monotonic()
                phase()
                self.outcome.seconds[phase.__name__] = time.monotonic() - began
        except AssertionError as error:
            self.outcome.problems.append(str(error))
        self.outcome.problems += [
            problem for keeper in self.keepers for problem in keeper.problems
        ] + self.strikers.problems
        return self.outcome

    def begin(self) -> None:
        """Start the queries, the first rows with them, and return when each has committed some."""
        self._feeder = threading.Thread(target=self._feed, name="storm-feeder")
        self._feeder.start()
        for keeper in self.keepers:
            keeper.start()
        self._wait(
            lambda: all(sum(self._positions(keeper).values()) > 0 for keeper in self.keepers),
            "the first batch of each query",
            _BEGIN_S,
        )

    def rage(self) -> None:
        """Strike, for as long as was asked and until each kind of victim has been struck, or until a query stops for
        good.
        """
        self._say(f"seed {self.plan.seed}: it storms for {self.plan.seconds:.0f} s; logs in {self.outcome.directory}")
        end = time.monotonic() + self.plan.seconds
        self.strikers.start()
        try:
            while (
                (left := end - time.monotonic()) > -_OVERTIME_S
                and not self._given_up()
                and (left > 0 or not self.strikers.met_all())
            ):
                time.sleep(_POLL_S)
                self.proxy.log.clear()  # of every request since the beginning; nobody asks
        finally:
            self.strikers.stop()

    def calm(self) -> None:
        """Let every query read its source to the end, and stop."""
        self._say("it is calm; the queries read what is left")
        self._fed.set()
        assert self._feeder is not None
        self._feeder.join()
        ends = source_ends(self.servers, SOURCE)
        self.outcome.rows = sum(ends.values())
        self._wait(
            lambda: all(self._positions(keeper) == ends for keeper in self.keepers),
            "the end of the source",
            _CATCH_UP_S,
        )
        (self.outcome.directory / "stop").touch()
        for keeper in self.keepers:
            keeper.finish(_STOP_S)

    def judge(self) -> None:
        """Look at what is there."""
        self.outcome.problems += verdict(self.servers, self.keepers)

    # ---- what they need

    def _feed(self) -> None:
        patience = {
            "delivery.timeout.ms": 600_000,
            "log_level": 2,
        }  # brokers are struck: that they are gone is nothing to be said
        producer = Producer(
            {"bootstrap.servers": self.servers, "enable.idempotence": True, "linger.ms": 20, **patience}
        )
        pause, lot = _LOT / self.plan.rows_a_second, 0
        while True:
            for number in range(lot * _LOT, (lot + 1) * _LOT):
                key, value = row(number, lot)
                producer.produce(SOURCE, key=key, value=value, partition=int(key[1:]) % SOURCE_PARTITIONS)
            lot += 1
            if self._fed.wait(pause):
                break
            producer.poll(0)
        left = producer.flush(300)
        if left:
            self.outcome.problems.append(f"{left} rows of the source were not taken by the brokers within 300 s")

    def _positions(self, keeper: Keeper) -> dict[int, int]:
        """What the group of a query shows.

        By one client for each, kept: those that come and go while brokers fail end in a broken librdkafka.
        """
        asked = [TopicPartition(SOURCE, index) for index in range(SOURCE_PARTITIONS)]
        try:
            found = self._groups[keeper.job.group].committed(asked, timeout=10)
        except KafkaException:  # its coordinator is down or moves
            return {}
        return {each.partition: max(each.offset, 0) for each in found}

    def _given_up(self) -> bool:
        return not all(keeper.running for keeper in self.keepers)

    def _wait(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not condition():
            where = (
                {keeper.job.kind: self._positions(keeper) for keeper in self.keepers} if time.monotonic() > end else {}
            )
            assert not where, f"not within {seconds:.0f} s: {what}; the groups stand at {where}"
            assert not self._given_up(), f"a query ended for good before {what}"
            time.sleep(_POLL_S)


assert USERS >= SOURCE_PARTITIONS, "each partition of the source has rows"
