"""An application of streams in a storm: three workers of one group, each with a folder for its state."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import ClassVar

from semel.config import ClientConfig
from semel.errors import SemelError
from semel.steps import StreamsStep
from semel.testing.crash import CrashPoint
from semel.testing.step_log import step_name
from semel.wire.client import Client
from tests.storm.checks import open_transactions
from tests.storm.faults import Striker, brokers, drivers, faults_on_the_wire
from tests.storm.storm import Storm, patient_producer
from tests.storm.supervisor import Keeper
from tests.storm.targets import SEMEL, kill
from tests.storm.wire import OF_A_GROUP
from tests.streams.support.streams_checks import differences, send
from tests.streams.support.streams_worker import PARTITIONS, ControlStep, StreamsJob, done
from tests.support import topics

__all__ = ["StreamsStorm"]

_WORKERS = 3
_LOT = 20
#: Longer than a freeze of a broker, and shorter than one of a worker may be.
_TIMEOUT_MS = 6_000
_LONG_MS = 60_000
_APP = """
from tests.streams.support.streams_worker import StreamsJob, store_early
app = StreamsJob(**{job!r}).app()
if {early}:
    store_early()
"""


class StreamsStorm(Storm):
    """Counts behind a repartition topic, windows, and a processor with a store; workers come and go."""

    system = "streams"
    promise = "every record counted once in output, changelog and stores, and no transaction open"
    apis: ClassVar[Mapping[str, int]] = OF_A_GROUP

    def prepare(self, stack: ExitStack) -> Sequence[Keeper]:
        servers, through = self.cluster(stack, "kafka")
        source, target = (topics.create(servers, f"storm-{way}", PARTITIONS, self.plan.nodes) for way in ("in", "out"))
        self._job = StreamsJob(servers, "storm-streams", source, target, 0, "", chunk=200, commit_ms=50)
        self._client = stack.enter_context(Client(ClientConfig.parse({"bootstrap.servers": servers})))
        self._folders = {f"worker-{number}": self.outcome.directory / f"state-{number}" for number in range(_WORKERS)}
        return [self._keeper(name, through) for name in self._folders]

    def _keeper(self, name: str, through: str) -> Keeper:
        job = replace(self._job, servers=through, state_dir=str(self._folders[name]))
        job = replace(job, timeout_ms=_TIMEOUT_MS, request_timeout_ms=5_000, standbys=1, recovery_lag=100)
        if self.plan.control:  # whoever is killed gets its tasks back: others would restore what is right
            job = replace(job, timeout_ms=_LONG_MS, instance=name, standbys=0)
        file = self.outcome.directory / f"{name}.py"
        file.write_text(_APP.format(job=asdict(job), early=self.plan.control))
        argv = [*SEMEL, "streams", "run", str(file)]
        points = [CrashPoint(ControlStep.STORED_EARLY, 40)] if self.plan.control else []
        return Keeper(name, argv, self.outcome.directory / f"{name}-steps", replaceable=False, points=points)

    def strikers(self) -> Mapping[str, Striker]:
        others = {"told to end": _tell_to_end, "robbed of its state": self._rob}
        if self.plan.control:  # the state that is wrong must not be thrown away
            others = {}
        return {
            "worker": drivers(self.keepers, self.pause, ("killed", "killed", "frozen"), others, (3, 12)),
            "broker": brokers(self.clusters, self.pause),
            "wire": faults_on_the_wire(self.wires),
        }

    def _rob(self, keeper: Keeper) -> None:
        """Its successor restores what it has."""
        pid = keeper.pid
        if pid is None:
            return
        kill([pid])
        folder: Path = self._folders[keeper.name]
        with suppress(FileNotFoundError):
            gone = folder.rename(folder.with_name(f"{folder.name}-gone-{keeper.starts}"))
            shutil.rmtree(gone)

    def feed(self) -> int:
        producer, rows, pause = patient_producer(self._job.servers), 0, _LOT / self.plan.rows_a_second
        while not self.fed.wait(pause):
            send(producer, self._job, rows, rows + _LOT)
            producer.poll(0)
            rows += _LOT
        assert producer.flush(300) == 0, "the brokers did not take all records within 300 s"
        return rows

    def begun(self) -> bool:
        committed = step_name(StreamsStep.COMMITTED)
        return all(any(passed.step == committed for passed in keeper.plan.passed()) for keeper in self.keepers)

    def caught_up(self) -> bool:
        return done(self._client, replace(self._job, total=self.outcome.rows))

    def verdict(self) -> list[str]:
        problems = list(open_transactions(self._job.servers))
        try:
            wrong = differences(replace(self._job, total=self.outcome.rows), *map(str, self._folders.values()))
        except SemelError as error:  # an open transaction hides what is behind it
            return [*problems, f"it could not be checked: {error}"]
        return [*problems, *(f"not exactly once: {one}" for one in wrong)]


def _tell_to_end(keeper: Keeper) -> None:
    """It commits, and leaves the group; its successor comes back."""
    if (pid := keeper.pid) is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
