"""Who strikes: a thread for each kind of victim, each with a random sequence of its own.

The seed decides what is struck, in which order, after which pauses and for how long. Which batch a strike meets, and
which request, is decided by the machine: the same seed makes the same storm, not the same run. A strike takes from its
sequence as many values as any other of its kind, also one that finds nobody.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from confluent_kafka import KafkaException

from semel.sandbox import Sandbox
from tests.crash.support.broker_faults import wait_whole
from tests.storm.job import STATELESS
from tests.storm.supervisor import Keeper
from tests.storm.targets import driver_of, executors_of, frozen, kill, workers_of
from tests.storm.wire import Wire

__all__ = ["KINDS", "Strikers"]

_READY_S = 180.0
#: How long a driver that is frozen waits for its successor to take over. It may thaw earlier than that: then two are at
#: it at once.
_SUCCESSION_S = 60.0
_POLL_S = 0.2
#: Longer than the 4 s after which the sandbox's controller misses a broker: it thaws as a leader that has been deposed.
_DEPOSED_S = (5.0, 9.0)
_MISSED = "found nobody"


@dataclass(frozen=True, slots=True)
class Kind:
    """Pauses between two strikes, in seconds, and what a strike may be."""

    shortest: float
    longest: float
    actions: tuple[str, ...]


KINDS = {
    "driver": Kind(8, 35, ("killed", "killed", "frozen", "replaced while frozen")),
    "executor": Kind(4, 18, ("killed", "killed", "frozen")),
    "worker": Kind(2, 9, ("killed", "killed", "frozen")),
    "broker": Kind(3, 12, ("killed", "frozen", "frozen and deposed")),
    "wire": Kind(0.1, 1.2, ("fault",)),
}


class Strikers:
    """All threads of a storm.

    ``counts`` are the strikes by kind and action; ``problems`` what went wrong with the storm itself.
    """

    def __init__(self, seed: int, sandbox: Sandbox, keepers: Sequence[Keeper], wire: Wire) -> None:
        self.counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
        self.problems: list[str] = []
        self._sandbox, self._keepers, self._wire = sandbox, keepers, wire
        self._over = threading.Event()
        strikes: dict[str, Callable[[str, Random], str]] = {
            "driver": self._driver,
            "executor": lambda action, random: self._process(executors_of, action, random),
            "worker": lambda action, random: self._process(workers_of, action, random),
            "broker": self._broker,
            "wire": self._fault,
        }
        self._threads = [
            threading.Thread(target=self._run, args=(kind, strike, Random(f"{seed}:{kind}")), name=f"storm-{kind}")
            for kind, strike in strikes.items()
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def met_all(self) -> bool:
        """Whether somebody of each kind has been struck."""
        return all(counts.total() > counts[_MISSED] for counts in self.counts.values())

    def stop(self) -> None:
        """Return when nobody strikes any more, all is thawed, and the brokers are there again."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._wire.calm()

    def _run(self, kind: str, strike: Callable[[str, Random], str], random: Random) -> None:
        pauses = KINDS[kind]
        try:
            while not self._over.wait(random.uniform(pauses.shortest, pauses.longest)):
                self.counts[kind][strike(random.choice(pauses.actions), random)] += 1
        except Exception as error:
            self.problems.append(f"the storm's own thread {kind} failed: {type(error).__name__}: {error}")

    def _driver(self, action: str, random: Random) -> str:
        which, seconds = random.random(), random.choice((1.0, 4.0, 10.0))
        replaced = action == "replaced while frozen"
        # two drivers of a stateful query write one state, and Spark keeps them apart only at its next commit
        keepers = [keeper for keeper in self._keepers if not replaced or keeper.job.kind in STATELESS]
        keeper = keepers[int(which * len(keepers))] if keepers else None
        if keeper is None or keeper.pid is None:
            return _MISSED
        victims = driver_of(keeper.pid)
        if action == "killed":
            kill(victims)
            return action
        with frozen(victims):
            if replaced:
                before = keeper.taken_over()
                keeper.replace()
                self._pause(_SUCCESSION_S, until=lambda: keeper.taken_over() > before)
            self._pause(seconds)
        return action

    def _process(self, find: Callable[[int], list[int]], action: str, random: Random) -> str:
        query, which, seconds = random.random(), random.random(), random.choice((0.5, 2.0, 6.0))
        keeper = self._keepers[int(query * len(self._keepers))]
        found = find(keeper.pid) if keeper.pid is not None else []
        if not found:
            return _MISSED
        victim = found[int(which * len(found))]
        if action == "killed":
            kill([victim])
        else:
            with frozen([victim]):
                self._pause(seconds)
        return action

    def _broker(self, action: str, random: Random) -> str:
        which, down = random.random(), random.uniform(0.5, 6.0)
        long = random.uniform(*_DEPOSED_S)
        node = self._sandbox.nodes[int(which * len(self._sandbox.nodes))]
        if action == "killed":
            node.kill()
            self._pause(down)
            node.start()
        else:
            node.freeze()
            try:
                self._pause(long if action == "frozen and deposed" else down / 2)
            finally:
                node.thaw()
        self._whole()
        return action

    def _whole(self) -> None:
        """All brokers are there and all replicas in sync: only then is another one struck."""
        end = time.monotonic() + _READY_S
        while True:
            try:
                self._sandbox.wait_ready(_READY_S)
                wait_whole(self._sandbox)
            except KafkaException:  # a broker that has just thawed may take longer than a client waits
                if time.monotonic() > end:
                    raise
            else:
                return

    def _fault(self, action: str, random: Random) -> str:
        self._wire.strike(random)
        return action

    def _pause(self, seconds: float, *, until: Callable[[], bool] | None = None) -> None:
        """For that long, or until it is so; not beyond the storm."""
        end = time.monotonic() + seconds
        while (
            time.monotonic() < end
            and not (until is not None and until())
            and not self._over.wait(min(_POLL_S, seconds))
        ):
            pass
