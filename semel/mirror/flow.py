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

from semel.config import ClientConfig
from semel.errors import AbortAndRetry, Fenced, Retriable
from semel.mirror.background.presence import Presence, wait_for_turn
from semel.mirror.config.flow_config import FlowConfig
from semel.mirror.meter import Doing, FlowMeter
from semel.mirror.operation.wanted import FlowState, paused, read_wanted
from semel.mirror.operation.watch import OperatorWatch
from semel.mirror.positions import Positions, flow_id, last_known
from semel.mirror.session import Session
from semel.mirror.tries import Tries
from semel.spark_session import check_no_speculation
from semel.wire.client import Client

__all__ = ["Flow", "run_flows", "run_side_by_side"]

log = logging.getLogger("semel.mirror")

#: So often in a row ``once`` tries a round.
_TRIES = 5
#: How long a standby that was fenced leaves the other driver the time to show a sign of life.
_NEXT_TURN_S = 10.0
#: How often a stopped flow looks whether it is resumed.
_LOOK_S = 0.2


class Flow:
    """Copies by a :class:`FlowConfig`. ``stop`` ends it after the round that it is in.

    A ``standby`` waits until no other driver of the flow shows a sign of life. It stands by again where another one
    takes over from it.
    """

    def __init__(
        self, spark: SparkSession, config: FlowConfig, stop: threading.Event, *, standby: bool = False
    ) -> None:
        self.config, self._standby = config, standby
        self.meter = FlowMeter(config)
        #: What the flow has ended with, where it has run in a thread of its own.
        self.failed: Exception | None = None
        self._spark, self._stop = spark, stop
        self._id = flow_id(config.policy.source, config.policy.target)
        self._restart = threading.Event()
        #: The newest positions that the last session knew.
        self._known: Positions | None = None
        self._thread: threading.Thread | None = None

    # ---- in a thread of its own

    def start(self, *, once: bool = False, alone: bool = False) -> None:
        """Run it in a thread of its own, ``alone`` or beside others. One that has failed runs again."""
        self.failed = None
        self._thread = threading.Thread(
            target=self._run_caught, args=[once, alone], name=self.config.title, daemon=True
        )
        self._thread.start()

    def _run_caught(self, once: bool, alone: bool) -> None:
        try:
            self.run(once=once)
        except Exception as error:  # of whatever kind: it is raised when all flows have ended
            self.failed = error
            if not alone:
                log.warning("%s has stopped, and the other flows go on: %s", self.config.title, error)

    def restart(self) -> None:
        """Take over again, after the round that it is in. One that has failed runs again."""
        if self.is_alive:
            self._restart.set()
        else:
            self.start()

    @property
    def is_alive(self) -> bool:
        """True while its thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def join(self) -> None:
        """Wait until its thread has ended."""
        if self._thread is not None:
            self._thread.join()

    # ---- in this thread

    def run(self, *, once: bool = False) -> None:
        """Copy until it is stopped; with ``once``, until what is there now is copied.

        Raises :class:`ConfigError` for what the file or a cluster must change, :class:`DataLoss` where rows of the
        source or the target are gone, :class:`~semel.errors.Fenced` if another mirror has taken over. What may pass is
        waited for, and raised with ``once`` after a few tries.
        """
        try:
            self.meter.doing = Doing.STARTING
            check_no_speculation(self._spark.sparkContext, "Nothing was copied.")
            with OperatorWatch(self.config, self._restart) as watch:
                if once:
                    self._run(watch, once=True)
                    return
                while self._is_turn():
                    if not self._is_fenced(watch):
                        return
        finally:
            self.meter.doing = Doing.ENDED

    def _is_turn(self) -> bool:
        """Stand by if this is one that does. Return False if it is to end."""
        if not self._standby:
            return True
        self.meter.doing = Doing.STANDING_BY
        return wait_for_turn(self.config, self._stop)

    def _is_fenced(self, watch: OperatorWatch) -> bool:
        """Run as the driver. Return True if another one has taken over, and this one stands by again."""
        try:
            with Presence(self.config):
                self._run(watch, once=False)
        except Fenced as error:
            if not self._standby:
                raise
            log.info("%s: another mirror runs it now, and this one stands by: %s", self.config.title, error)
            return not self._stop.wait(_NEXT_TURN_S)
        return False

    def _run(self, watch: OperatorWatch, *, once: bool) -> None:
        tries = Tries(self.meter, self._stop, most=_TRIES if once else None)
        while not self._stop.is_set():
            try:
                wanted = watch.read()
                if once and wanted.state is not FlowState.RUNNING:
                    raise paused(self.config, wanted)
                if wanted.state is FlowState.STOPPED:
                    self._wait_until_wanted(watch)
                    continue
                self._work(watch, tries, once=once)
                if once and not watch.lets_go:  # else it has ended in the middle
                    return
            except (AbortAndRetry, Retriable) as error:
                # a cluster is away, or the last round's outcome is unknown: a takeover shows it
                tries.failed(error)

    def _work(self, watch: OperatorWatch, tries: Tries, *, once: bool) -> None:
        """Take over, and run rounds. Where a command has fenced the flow, return, so that it takes over again."""
        self._restart.clear()
        session = Session(self._spark, self.config, self._id, self._stop, self.meter, watch)
        try:
            with session:
                session.work(tries, once=once)
        except Fenced as error:
            self._known = session.known or self._known
            if once or not self._set_by_operator():
                raise Fenced(
                    f"another `semel mirror` has taken over {self.config.title}. Nothing is lost: that one copies what"
                    " this one had not committed. Run one, or start the second with --standby."
                ) from error
            log.info("%s: an operator has set its positions: it takes over again", self.config.title)
        self._known = session.known or self._known

    def _wait_until_wanted(self, watch: OperatorWatch) -> None:
        self.meter.doing = Doing.STOPPED
        log.info("%s: stopped by an operator, until it is resumed", self.config.title)
        while watch.wanted.state is FlowState.STOPPED and not self._stop.wait(_LOOK_S):
            pass

    def _set_by_operator(self) -> bool:
        """Return whether a command has fenced this flow, and not another mirror: one that has set the positions since
        this flow knew them, or while it was stopped.
        """
        try:
            with Client(ClientConfig.parse(self.config.target)) as target:
                if read_wanted(target, self.config).state is FlowState.STOPPED:
                    return True
                newest = last_known(target, self._id)
        except (AbortAndRetry, Retriable):  # another mirror may have come: it is left alone
            return False
        return newest is not None and bool(newest.set_by) and newest != self._known


def run_flows(spark: SparkSession, flows: Sequence[FlowConfig], stop: threading.Event, *, once: bool = False) -> None:
    """Run flows side by side, a thread each, until all have ended. One that fails leaves the others running.

    Then the first error is raised.
    """
    run_side_by_side([Flow(spark, config, stop) for config in flows], once=once)


def run_side_by_side(flows: Sequence[Flow], *, once: bool = False) -> None:
    """Run these, as :func:`run_flows` does. One that has failed may be restarted while another runs."""
    for flow in flows:
        flow.start(once=once, alone=len(flows) == 1)
    while (running := next((flow for flow in flows if flow.is_alive), None)) is not None:
        running.join()
    for flow in flows:
        if flow.failed is not None:
            raise flow.failed
