"""Connect in a storm: two workers of one group; connectors that follow growing files, and one that counts in one to
three tasks; they are changed, paused and started again by REST.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from random import Random
from typing import Any

from semel.errors import SemelError
from semel.sandbox.ports import Ports
from semel.testing.records import arrived, read
from semel.testing.spark import fork_server
from semel.testing.spark.spark_cluster import SparkCluster
from tests.connect.support.lines import Appending, Lines
from tests.connect.support.rest import Rest
from tests.storm.checks import open_transactions
from tests.storm.faults import MISSED, Striker, brokers, drivers, faults_on_the_wire, processes
from tests.storm.storm import Storm
from tests.storm.supervisor import SPARK, Keeper
from tests.storm.targets import SEMEL, workers_of
from tests.storm.wire import OF_A_GROUP
from tests.support import topics

__all__ = ["ConnectStorm"]

_FILES, _COUNTED, _TASKS = 3, "storm-counted", 3
_LOCAL = SparkCluster("local[12,4]", SPARK.settings, SPARK.workers)


class ConnectStorm(Storm):
    """Two workers, of which one leads; its tasks are processes below its Spark."""

    system = "connect"
    promise = "every line and number exactly once, in order, and no transaction open"
    apis = OF_A_GROUP

    def prepare(self, stack: ExitStack) -> Sequence[Keeper]:
        fork_server.python()  # once, before the threads that want it
        self._servers, through = self.cluster(stack, "kafka")
        ports = Ports(2)
        addresses = [f"http://127.0.0.1:{number}" for number in ports.numbers]
        ports.release()
        replication = {f"{kind}.storage.replication.factor": str(self.plan.nodes) for kind in ("config", "status")}
        worker = {
            "bootstrap.servers": through,
            "config.storage.topic": "storm-configs",
            "status.storage.topic": "storm-states",
            "exactly.once.source.support": "disabled" if self.plan.control else "enabled",
            "request.timeout.ms": "5000",
            "session.timeout.ms": "10000",
            "heartbeat.interval.ms": "2000",
            **replication,
        }
        home = self.outcome.directory
        self._lines = Lines.prepare(
            self._servers, home / "files", _FILES, 100, None, self.plan.nodes, listeners=addresses[0], **worker
        )
        topics.create(self._servers, _COUNTED, 2, self.plan.nodes)
        self._rests = [Rest("storm", address, self._servers, worker, home) for address in addresses]
        other = home / "other.properties"
        other.write_text(self._lines.worker.read_text().replace(addresses[0], addresses[1]))
        files = {"worker-0": self._lines.worker, "worker-1": other}
        return [
            Keeper(name, [*SEMEL, "connect", str(file)], home / f"{name}-steps", spark=_LOCAL, replaceable=False)
            for name, file in files.items()
        ]

    def strikers(self) -> Mapping[str, Striker]:
        return {
            "worker": drivers(self.keepers, self.pause, ("killed", "killed", "frozen")),
            "task": processes(self.keepers, workers_of, self.pause, 2, 9),
            "REST": Striker(3, 12, ("changed", "paused", "stopped", "started again"), self._ask),
            "broker": brokers(self.clusters, self.pause),
            "wire": faults_on_the_wire(self.wires),
        }

    def _ask(self, action: str, random: Random) -> str:
        which, number, seconds = random.random(), random.randint(1, _TASKS), random.choice((0.5, 2.0, 5.0))
        names = [*self._lines.names, _COUNTED]
        path = f"/connectors/{names[int(which * len(names))]}"
        if action == "changed":
            done = self._put(path.removeprefix("/connectors/"), number)
        elif action == "started again":
            done = self._tell("POST", f"{path}/restart?includeTasks=true&onlyFailed=false")
        else:
            done = self._tell("PUT", f"{path}/{'pause' if action == 'paused' else 'stop'}")
            self.pause(seconds)
            self._tell("PUT", f"{path}/resume")
        return action if done else MISSED

    def _put(self, name: str, number: int) -> bool:
        """Create it, or change it: another size of its batches, or number of its tasks."""
        if name == _COUNTED:
            config = {"connector.class": "DatagenSource", "topic": name, "iterations": "100000000", "rate": "30"}
            config["value.converter"] = "JsonConverter"
            config |= {"value.converter.schemas.enable": "false", "tasks.max": str(number)}
        else:
            lines = self._lines.properties(name).read_text().splitlines()
            config = {**dict(line.split("=", 1) for line in lines), "batch.size": str(100 * number)}
        return self._tell("PUT", f"/connectors/{name}/config", config)

    def _tell(self, method: str, path: str, body: Any = None) -> bool:
        """Whether one of the workers has done it: they may be dead, frozen, or know no leader."""
        for rest in self._rests:
            try:
                if rest.ask(method, path, body)[0] < 300:
                    return True
            except (OSError, ValueError):
                continue
        return False

    def feed(self) -> int:
        with Appending(self._lines):
            self.fed.wait()
        return sum(len(self._lines.expected(name)) for name in self._lines.names)

    def begun(self) -> bool:
        self._created: set[str] = getattr(self, "_created", set())
        for name in {*self._lines.names, _COUNTED} - self._created:
            if self._put(name, _TASKS):
                self._created.add(name)
        return all(arrived(self._servers, name) > 0 for name in (*self._lines.names, _COUNTED))

    def caught_up(self) -> bool:
        """A connector whose resumption was struck is resumed. A task that has failed stays so: that is wrong."""
        names = (*self._lines.names, _COUNTED)
        if not all(self._tell("PUT", f"/connectors/{name}/resume") for name in names):
            return False
        for name in names:
            if any(state == "FAILED" for state in self._states(name)):
                raise AssertionError(f"{name} has failed: {self._traces(name)}")
        return self._lines.all_arrived()

    def _status(self, name: str) -> list[dict[str, Any]]:
        for rest in self._rests:
            try:
                status, shown = rest.ask("GET", f"/connectors/{name}/status")
            except (OSError, ValueError):
                continue
            if status == 200:
                return [shown["connector"], *shown["tasks"]]
        return []

    def _states(self, name: str) -> list[str]:
        return [one["state"] for one in self._status(name)]

    def _traces(self, name: str) -> list[str]:
        return [one["trace"] for one in self._status(name) if one.get("trace")]

    def where(self) -> str:
        states = {name: self._states(name) for name in (*self._lines.names, _COUNTED)}
        return f"{arrived(self._servers, *self._lines.names)} of {self.outcome.rows} lines; {states}"

    def verdict(self) -> list[str]:
        problems = list(open_transactions(self._servers))
        try:
            wrong = [*self._lines.differences(), *self._miscounted()]
        except SemelError as error:  # an open transaction hides what is behind it
            return [*problems, f"it could not be checked: {error}"]
        return [*problems, *(f"not exactly once: {one}" for one in wrong)]

    def _miscounted(self) -> list[str]:
        """Each task counts from 0 on, over all generations of tasks; in order in each partition."""
        rows = read(self._servers, [_COUNTED], {"value": "value"})
        rows = rows.sort_by([("partition", "ascending"), ("offset", "ascending")])
        numbers: dict[tuple[int, int], list[int]] = defaultdict(list)
        for row in rows.to_pylist():
            value = json.loads(row["value"])
            numbers[value["task"], row["partition"]].append(value["id"])
        out_of_order = [place for place, ids in numbers.items() if ids != sorted(ids)]
        wrong = [f"task {task} in partition {at} is out of order" for task, at in out_of_order]
        for task in {task for task, _ in numbers}:
            ids = sorted(number for (whose, _), some in numbers.items() if whose == task for number in some)
            if ids != list(range(len(ids))):
                wrong.append(f"task {task}: {len(ids)} numbers, {len(set(ids))} of them different, up to {ids[-1]}")
        return wrong
