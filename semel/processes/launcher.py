"""A Spark job with one partition for each long-running process.

Spark schedules and places it, and restarts its task up to ``spark.task.maxFailures``. A process holds a slot for its
whole life.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pyspark import InheritableThread
from pyspark.sql import SparkSession

from semel.errors import Retriable
from semel.processes.process import run_in_task
from semel.spark_session import check_no_speculation, spark_session

__all__ = ["DEFAULT_MASTER", "JobFailed", "Launcher", "SparkGone", "session_of_processes"]

#: Slots for 64 processes that mostly wait. Four attempts of a task, as on a cluster; local mode has one by default.
DEFAULT_MASTER = "local[64,4]"


class JobFailed(Retriable):
    """The job of a process has failed or was cancelled. The work of the process is not known here."""

    default_tag = "JOB_FAILED"


class SparkGone(Retriable):
    """Spark's driver has ended: no process can run any more."""

    default_tag = "SPARK_GONE"


def session_of_processes(
    name: str, master: str | None, settings: Mapping[str, str], py_files: Sequence[str] = ()
) -> SparkSession:
    """Return a session for processes: without ``master`` or spark-submit with :data:`DEFAULT_MASTER`.

    ``py_files`` are sent to executors, and can be imported there.
    """
    # Spark starts "python3" by default, which is another Python if the virtual environment is not active
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # a process that has ended leaves globals and threads behind: the next one begins in a new Python
    own = {"spark.log.level": "OFF", **settings, "spark.python.worker.reuse": "false"}
    session = spark_session(name, master, own, otherwise=DEFAULT_MASTER)
    for path in py_files:
        session.sparkContext.addPyFile(path)
    return session


class Launcher:
    """Runs processes as jobs of one Spark session. Refuses speculation (:class:`ConfigError`), which would run two."""

    def __init__(self, session: SparkSession) -> None:
        self._session, self._context = session, session.sparkContext
        check_no_speculation(self._context, "Nothing was started.")
        conf = self._context.getConf()
        local = str(self._context.master).startswith("local")
        #: The address at which executors find the driver, and the one at which it listens.
        self.host = "127.0.0.1" if local else str(conf.get("spark.driver.host"))
        self.bind = "127.0.0.1" if local else str(conf.get("spark.driver.bindAddress", self.host))

    def thread(self, work: Callable[[], None], name: str) -> threading.Thread:
        """Return a started thread with its own job group. The program's end does not wait for it."""
        thread = InheritableThread(target=work, name=name, daemon=True)
        thread.start()
        return thread

    def run(self, group: str, description: str, address: str, token: str) -> None:
        """Run one process, and return when its job has ended well.

        Raise :class:`JobFailed` if it ended otherwise, :class:`SparkGone` if Spark has ended.
        """
        try:
            self._context.setJobGroup(group, description, interruptOnCancel=True)
            self._context.parallelize([0], 1).foreachPartition(partial(run_in_task, address, token))
        except Exception as error:
            if not self.alive:
                raise SparkGone(
                    "Spark's driver has ended, and with it every process. What their sources have committed stays"
                    " committed. Start again."
                ) from error
            raise JobFailed(f"the job {group} ended: {type(error).__name__}. What it had committed stays.") from error

    def stop(self) -> None:
        """Stop Spark."""
        self._session.stop()

    def cancel(self, group: str) -> None:
        """Cancel the job of a process; the process may live for some seconds."""
        self._context.cancelJobGroup(group)

    def has_slot(self, group: str) -> bool | None:
        """Return True if the job of a process holds a slot, None where Spark does not say."""
        try:
            tracker = self._context.statusTracker()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
            stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
            active = [stage.numActiveTasks > 0 for stage in stages if stage is not None]
            return any(active) if active else None
        except Exception:  # any error of the gateway means that it does not answer
            return None

    @property
    def alive(self) -> bool:
        """True if Spark still runs."""
        try:
            return self._context.defaultParallelism > 0  # Spark refuses the question once it is stopped
        except Exception:  # any error of the gateway means that it does not answer
            return False
