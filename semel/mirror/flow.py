"""A flow: from one cluster to one other, round by round, until it is stopped. Start reading here.

A round is one transaction on the target: see where each source partition is stable, give disjoint target partitions to
few tasks, and when it is proven that each has written once, commit the positions with their records. What may pass is
waited for. A doubt about what is there, or should be, ends the flow.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from pyspark.sql import SparkSession

from semel.errors import AbortAndRetry, Retriable
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.metrics import FlowMeter
from semel.mirror.positions import flow_id
from semel.mirror.session import Session
from semel.mirror.tries import Tries
from semel.spark_session import check_no_speculation

__all__ = ["Flow", "run_flows"]

log = logging.getLogger("semel.mirror")

#: So often in a row ``once`` tries a round.
_TRIES = 5


class Flow:
    """Copies by a :class:`FlowConfig`. ``stop`` ends it after the round that it is in."""

    def __init__(self, spark: SparkSession, config: FlowConfig, stop: threading.Event) -> None:
        self._spark = spark
        self._config = config
        self._stop = stop
        self._id = flow_id(config.policy.source, config.policy.target)
        self._meter = FlowMeter(config)

    def run(self, *, once: bool = False) -> None:
        """Copy until it is stopped; with ``once``, until what is there now is copied.

        Raises :class:`ConfigError` for what the file or a cluster must change, :class:`DataLoss` where rows of the
        source or the target are gone, :class:`~semel.errors.Fenced` if another mirror has taken over. What may pass is
        waited for, and raised with ``once`` after a few tries.
        """
        try:
            self._run(once=once)
        finally:
            self._meter.running = False

    def _run(self, *, once: bool) -> None:
        check_no_speculation(self._spark.sparkContext, "Nothing was copied.")
        tries = Tries(self._meter, self._stop, most=_TRIES if once else None)
        while not self._stop.is_set():
            try:
                with Session(self._spark, self._config, self._id, self._stop, self._meter) as session:
                    session.work(tries, once=once)
            except (AbortAndRetry, Retriable) as error:
                # a cluster is away, or the last round's outcome is unknown: a takeover shows it
                tries.failed(error)
            else:
                return


def run_flows(spark: SparkSession, flows: Sequence[FlowConfig], stop: threading.Event, *, once: bool = False) -> None:
    """Run flows side by side, a thread each, until all have ended. One that fails leaves the others running.

    Then the first error is raised.
    """
    failed: list[Exception] = []

    def run(config: FlowConfig) -> None:
        try:
            Flow(spark, config, stop).run(once=once)
        except Exception as error:  # of what kind it may be: it is raised when the others have ended
            failed.append(error)
            if len(flows) > 1:
                log.warning("%s has stopped, and the other flows go on: %s", config.title, error)

    threads = [threading.Thread(target=run, args=[flow], name=flow.title, daemon=True) for flow in flows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
