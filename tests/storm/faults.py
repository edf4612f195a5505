"""Who strikes: a thread for each kind of victim, each with a random sequence of its own.

The seed decides what is struck, in which order, after which pauses and for how long. Which batch a strike meets, and
which request, is decided by the machine: the same seed makes the same storm, not the same run. A strike takes from its
sequence as many values as any other of its kind, also one that finds nobody.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from confluent_kafka import KafkaException

from semel.sandbox import Sandbox
from tests.storm.supervisor import Keeper
from tests.storm.targets import driver_of, frozen, kill
from tests.storm.wire import Wire
from tests.support.broker_faults import wait_whole

__all__ = ["MISSED", "Pause", "Striker", "Strikers", "brokers", "drivers", "faults_on_the_wire", "processes"]

MISSED = "found nobody"
_READY_S = 180.0
#: How long a driver that is frozen waits for its successor to take over. It may thaw earlier than that: then two are at
#: it at once.
_SUCCESSION_S = 60.0
_POLL_S = 0.2
#: Longer than the 4 s after which the sandbox's controller misses a broker: it thaws as a leader that has been deposed.
_DEPOSED_S = (5.0, 9.0)
_DRIVERS = ("killed", "killed", "frozen", "replaced while frozen")
#: Carries out an action, and says what it was in the end.
Strike = Callable[[str, Random], str]


@dataclass(frozen=True, slots=True)
class Striker:
    """Pauses between two strikes, in seconds, what a strike may be, and who carries it out."""

    shortest: float
    longest: float
    actions: tuple[str, ...]
    strike: Strike


class Pause:
    """Waits that end with the storm."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def __call__(self, seconds: float, *, until: Callable[[], bool] | None = None) -> None:
        """For that long, or until it is so; not beyond the storm."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not (until is not None and until()):
            if self.over.wait(min(_POLL_S, seconds)):
                return


class Strikers:
    """All threads of a storm.

    ``counts`` are the strikes by kind and action; ``problems`` what went wrong with the storm itself.
    """

    def __init__(self, seed: int, strikers: Mapping[str, Striker], pause: Pause) -> None:
        self.counts: dict[str, Counter[str]] = {kind: Counter() for kind in strikers}
        self.problems: list[str] = []
        self._pause = pause
        self._threads = [
            threading.Thread(target=self._run, args=(kind, striker, Random(f"{seed}:{kind}")), name=f"storm-{kind}")
            for kind, striker in strikers.items()
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def met_all(self) -> bool:
        """Whether somebody of each kind has been struck."""
        return all(counts.total() > counts[MISSED] for counts in self.counts.values())

    def stop(self) -> None:
        """Return when nobody strikes any more, all is thawed, and the brokers are there again."""
        self._pause.over.set()
        for thread in self._threads:
            thread.join()

    def _run(self, kind: str, striker: Striker, random: Random) -> None:
        try:
            while not self._pause.over.wait(random.uniform(striker.shortest, striker.longest)):
                self.counts[kind][striker.strike(random.choice(striker.actions), random)] += 1
        except Exception as error:
            self.problems.append(f"the storm's own thread {kind} failed: {type(error).__name__}: {error}")


def drivers(
    keepers: Sequence[Keeper],
    pause: Pause,
    actions: tuple[str, ...] = _DRIVERS,
    others: Mapping[str, Callable[[Keeper], object]] = {},
    pauses: tuple[float, float] = (8, 35),
) -> Striker:
    """Whole programs, with the Java of their Spark if they have one. ``others`` are actions of one system."""

    def strike(action: str, random: Random) -> str:
        which, seconds = random.random(), random.choice((1.0, 4.0, 10.0))
        replaced = action == "replaced while frozen"
        able = [keeper for keeper in keepers if not replaced or keeper.replaceable]
        keeper = able[int(which * len(able))] if able else None
        if keeper is None or keeper.pid is None:
            return MISSED
        if action in others:
            others[action](keeper)
            return action
        victims = driver_of(keeper.pid)
        if action == "killed":
            kill(victims)
            return action
        with frozen(victims):
            if replaced:
                before = keeper.taken_over()
                keeper.replace()
                pause(_SUCCESSION_S, until=lambda: keeper.taken_over() > before)
            pause(seconds)
        return action

    return Striker(*pauses, (*actions, *others), strike)


def processes(
    keepers: Sequence[Keeper], find: Callable[[int], list[int]], pause: Pause, shortest: float, longest: float
) -> Striker:
    """Some of the processes below the programs."""

    def strike(action: str, random: Random) -> str:
        program, which, seconds = random.random(), random.random(), random.choice((0.5, 2.0, 6.0))
        pid = keepers[int(program * len(keepers))].pid
        found = find(pid) if pid is not None else []
        if not found:
            return MISSED
        victim = found[int(which * len(found))]
        if action == "killed":
            kill([victim])
        else:
            with frozen([victim]):
                pause(seconds)
        return action

    return Striker(shortest, longest, ("killed", "killed", "frozen"), strike)


def brokers(clusters: Sequence[Sandbox], pause: Pause) -> Striker:
    """Nodes of these clusters, one at a time."""
    nodes = [(cluster, node) for cluster in clusters for node in cluster.nodes]

    def strike(action: str, random: Random) -> str:
        which, down = random.random(), random.uniform(0.5, 6.0)
        long = random.uniform(*_DEPOSED_S)
        cluster, node = nodes[int(which * len(nodes))]
        if action == "killed":
            node.kill()
            pause(down)
            node.start()
        else:
            node.freeze()
            try:
                pause(long if action == "frozen and deposed" else down / 2)
            finally:
                node.thaw()
        _wait_all_there(cluster)
        return action

    return Striker(3, 12, ("killed", "frozen", "frozen and deposed"), strike)


def _wait_all_there(cluster: Sandbox) -> None:
    """All brokers are there and all replicas in sync: only then is another one struck."""
    end = time.monotonic() + _READY_S
    while True:
        try:
            cluster.wait_ready(_READY_S)
            wait_whole(cluster)
        except KafkaException:  # a broker that has just thawed may take longer than a client waits
            if time.monotonic() > end:
                raise
        else:
            return


def faults_on_the_wire(wires: Sequence[Wire]) -> Striker:
    """A fault of one of these at a time."""

    def strike(action: str, random: Random) -> str:
        wires[int(random.random() * len(wires))].strike(random)
        return action

    return Striker(0.1, 1.2, ("fault",), strike)
