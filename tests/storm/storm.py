"""A storm from its beginning to its verdict: brokers, a proxy in front of them, programs behind it, and who strikes
them.

Its phases: all is started and has committed something; it storms, while records arrive; all is thawed and left alone
until what has arrived is dealt with; all is stopped and looked at. What is struck, and what must be true in the end, is
said by a :class:`Storm` for each system.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Self

from confluent_kafka import KafkaException, Producer

from semel.errors import SemelError
from semel.sandbox import Sandbox
from semel.testing.proxy.fault_proxy import FaultProxy
from tests.storm.faults import Pause, Striker, Strikers
from tests.storm.supervisor import Keeper
from tests.storm.wire import APIS, Wire

__all__ = ["Outcome", "Plan", "Storm", "patient_producer"]

#: How long it may take until all have begun, and until all is dealt with when the storm is over.
_BEGIN_S, _CATCH_UP_S, _STOP_S = 600.0, 900.0, 180.0
#: How much longer it storms where somebody was never found, such as an executor while the machine is slow in starting
#: them.
_OVERTIME_S = 300.0
_POLL_S = 0.3
#: A follower that is behind is missed soon, so that the others can go on without it, and a storm is not mostly waiting.
_BROKER = {"replica.lag.time.max.ms": "5000"}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for: seconds of storm, and records a second that arrive in it.

    ``control`` has the system run without its guarantee: such a storm must find something wrong.
    """

    seed: int
    seconds: float
    rows_a_second: int = 100
    nodes: int = 3
    control: bool = False


@dataclass(slots=True)
class Outcome:
    """What came of it. ``seconds`` by phase; the counts are the strikers'."""

    plan: Plan
    directory: Path
    rows: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Storm(ABC):
    """A context manager, with everything that runs. ``directory`` keeps logs, steps and checkpoints."""

    #: What it strikes, in a word.
    system = ""
    #: What the verdict means if nothing is wrong.
    promise = "every record exactly once, and no transaction open"
    #: What faults on the wire befall.
    apis: ClassVar[Mapping[str, int]] = APIS

    def __init__(self, plan: Plan, directory: Path, say: Callable[[str], None] = print) -> None:
        self.plan, self.outcome = plan, Outcome(plan, directory)
        self.clusters: list[Sandbox] = []
        self.wires: list[Wire] = []
        self.keepers: Sequence[Keeper] = ()
        self.fed, self.pause = threading.Event(), Pause()
        self._say = say
        self._stack = ExitStack()
        self._proxies: list[FaultProxy] = []
        self._feeder = threading.Thread(target=self._feed, name="storm-feeder")

    # ---- what each system says of itself

    @abstractmethod
    def prepare(self, stack: ExitStack) -> Sequence[Keeper]:
        """Start clusters, make topics, and return what keeps the programs. The stack ends what is started."""

    @abstractmethod
    def strikers(self) -> Mapping[str, Striker]:
        """Who strikes, by kind."""

    @abstractmethod
    def feed(self) -> int:
        """Have records arrive until ``fed`` is set, from before the programs start. Returns how many."""

    @abstractmethod
    def begun(self) -> bool:
        """Whether each program has committed something."""

    @abstractmethod
    def caught_up(self) -> bool:
        """Whether all that has arrived is dealt with."""

    @abstractmethod
    def verdict(self) -> list[str]:
        """What is wrong, by a client that is not ours and goes around the proxies, when all has ended."""

    def where(self) -> str:
        """How far they are, for people."""
        return ", ".join(f"{keeper.name}: {keeper.starts} starts" for keeper in self.keepers)

    # ---- what they need

    def cluster(self, stack: ExitStack, name: str, settings: Mapping[str, str] = {}) -> tuple[str, str]:
        """Brokers, and a proxy in front of them: the servers, and those of the proxy."""
        directory = self.outcome.directory / name
        broker = {**_BROKER, **settings}
        sandbox = stack.enter_context(Sandbox.start(nodes=self.plan.nodes, directory=directory, settings=broker))
        stack.callback(sandbox.stop, now=True)
        proxy = FaultProxy(sandbox.bootstrap_servers)
        stack.callback(proxy.stop)
        self.clusters.append(sandbox)
        self._proxies.append(proxy)
        self.wires.append(Wire(proxy, self.apis))
        return sandbox.bootstrap_servers, proxy.bootstrap_servers

    @property
    def happened(self) -> Counter[str]:
        """The faults of the wire that took effect."""
        return sum((wire.happened for wire in self.wires), Counter())

    @property
    def by_api(self) -> Counter[str]:
        """The same by the requests that they met."""
        return sum((wire.by_api for wire in self.wires), Counter())

    # ---- its phases

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.keepers = self.prepare(stack)
            for keeper in self.keepers:
                stack.callback(keeper.end)
            self.struck = Strikers(self.plan.seed, self.strikers(), self.pause)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.fed.set()
        if self._feeder.ident is not None:
            self._feeder.join()
        self._stack.close()

    def run(self) -> Outcome:
        """All of them. What goes wrong is in ``problems`` of the outcome."""
        try:
            for phase in (self.begin, self.rage, self.calm, self.judge):
                began = time.monotonic()
                phase()
                self.outcome.seconds[phase.__name__] = time.monotonic() - began
        except AssertionError as error:
            self.outcome.problems.append(str(error))
        self.outcome.problems += [problem for keeper in self.keepers for problem in keeper.problems]
        self.outcome.problems += self.struck.problems
        return self.outcome

    def begin(self) -> None:
        """Start the programs, the first records with them, and return when each has committed some."""
        self._feeder.start()
        for keeper in self.keepers:
            keeper.start()
        self._wait(self.begun, "the first commit of each", _BEGIN_S)

    def rage(self) -> None:
        """Strike, for as long as was asked and until each kind of victim has been struck, or until a program stops for
        good.
        """
        self._say(f"seed {self.plan.seed}: it storms for {self.plan.seconds:.0f} s; logs in {self.outcome.directory}")
        end = time.monotonic() + self.plan.seconds
        self.struck.start()
        try:
            while (
                (left := end - time.monotonic()) > -_OVERTIME_S
                and not self._given_up()
                and (left > 0 or not self.struck.met_all())
            ):
                time.sleep(_POLL_S)
                for proxy in self._proxies:
                    proxy.log.clear()  # of every request since the beginning; nobody asks
        finally:
            self.struck.stop()
            for wire in self.wires:
                wire.calm()

    def calm(self) -> None:
        """Let what has arrived be dealt with, and stop all."""
        self._say("it is calm; what is left is read")
        self.fed.set()
        self._feeder.join()
        self._wait(self.caught_up, "the end of what has arrived", _CATCH_UP_S)
        for keeper in self.keepers:
            keeper.ask_to_end()
        for keeper in self.keepers:
            keeper.finish(_STOP_S)

    def judge(self) -> None:
        """Look at what is there."""
        self.outcome.problems += self.verdict()

    def _feed(self) -> None:
        try:
            self.outcome.rows = self.feed()
        except Exception as error:
            self.outcome.problems.append(f"the storm's own feeder failed: {type(error).__name__}: {error}")

    def _given_up(self) -> bool:
        return not all(keeper.running for keeper in self.keepers)

    def _wait(self, condition: Callable[[], bool], what: str, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not self._holds(condition):
            assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}; {self.where()}"
            assert not self._given_up(), f"a program ended for good before {what}"
            time.sleep(_POLL_S)

    def _holds(self, condition: Callable[[], bool]) -> bool:
        try:
            return condition()
        except (KafkaException, SemelError):  # a leader or a coordinator moves still
            return False


def patient_producer(servers: str) -> Producer:
    """One that waits for brokers that are struck, and says nothing of it."""
    patience = {"delivery.timeout.ms": 600_000, "log_level": 2}
    return Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 20, **patience})
