"""Where the time goes: one timeline each of a micro-batch and of a write, beside Spark's own connector.

``make timeline`` runs it. Each work runs many times; the picture shows the run of the median length. Lanes from above:
Spark's trigger, the sink in the driver, its calls of Java and its requests, Spark's tasks, the sink's Python workers.
The table has the stages, and the processors' time of each kind of process.

What it writes down costs some milliseconds itself, so no ratio comes from here: those are ``make bench``.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.table import Table

from bench import rows, spark_events, timeline_picture, trace, whole_batches
from bench.micro_batches import FIRST
from bench.processes import Processors
from bench.rig import PARTITIONS, Rig
from bench.spark_events import TRIGGER_PARTS, Job
from bench.trace import Span
from semel.spark import KafkaSink

__all__ = ["Run", "main"]

_CHECKOUT = Path(__file__).parents[1]
_PICTURE = _CHECKOUT / "docs" / "timeline.png"
_OBSERVER = "bench.trace:observe"
_PATIENCE_S = 300.0
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a work. ``trigger`` are Spark's parts of it in seconds, ``processors`` seconds by kind of process, for
    one run on the average.
    """

    work: str
    begin: float
    end: float
    trigger: Mapping[str, float]
    spans: list[Span]
    jobs: list[Job]
    processors: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.begin

    def steps(self, pid: int) -> list[Span]:
        """Return the steps of one process."""
        return [span for span in self.spans if span.kind == "step" and span.pid == pid]

    def of(self, kind: str) -> list[Span]:
        """Return the driver's spans of a kind."""
        return [span for span in self.spans if span.kind == kind and span.pid == os.getpid()]


def main(
    batches: Annotated[int, typer.Option(min=3, help="Micro-batches of each query that are counted.")] = 20,
    writes: Annotated[int, typer.Option(min=3, help="Runs of each write that are counted.")] = 9,
    picture: Annotated[Path, typer.Option(help="Where the picture is written.")] = _PICTURE,
) -> None:
    """Show the stages of micro-batches of 1,000 and 50,000 rows, and of writes of 20,000 and 200,000."""
    console = Console(width=150)
    folder = Path(os.environ["SEMEL_TRACE"])
    with Rig.up(console) as rig:
        runs = [
            *(
                _micro_batch(rig, folder, form, size, batches)
                for size in (1_000, 50_000)
                for form in ("semel", "kafka")
            ),
            *(_write(rig, folder, form, size, writes) for size in (20_000, 200_000) for form in ("semel", "kafka")),
        ]
    timeline_picture.draw([run for run in runs if run.work.startswith("semel")], picture)
    console.print(_stages(runs))
    console.print(f"the picture is {picture}")


def _micro_batch(rig: Rig, folder: Path, form: str, size: int, batches: int) -> Run:
    """Run a query from topic to topic, and return its batch of the median length."""
    source = f"timeline-{form}-{size}"
    target = f"{source}-out"
    with rig.topic(source), rig.topic(target):
        count = size * (FIRST + batches + 20)
        rows.keyed(rig.spark, count, 2).write.format("kafka").options(topic=source, **rig.kafka).save()
        query = whole_batches.start(rig, form, source, target, size, {})
        try:
            _await_batches(query, FIRST)
            with _counted(rig) as processors:
                first = _await_batches(query, FIRST)
                last = _await_batches(query, first + batches)
        finally:
            query.stop()
    done = [one for one in query.recentProgress if first <= one["batchId"] < last and one["numInputRows"]]
    done.sort(key=lambda one: one["durationMs"]["triggerExecution"])
    chosen = done[len(done) // 2]
    begin = datetime.fromisoformat(chosen["timestamp"]).timestamp()
    times = {name: ms / 1000 for name, ms in chosen["durationMs"].items()}
    share = {kind: seconds / (last - first) for kind, seconds in processors.items()}
    return _run(f"{form}, micro-batch of {size:,}", folder, begin, begin + times["triggerExecution"], times, share)


def _await_batches(query: StreamingQuery, number: int) -> int:
    """Return the number of batches that are done, once there are so many."""
    end = time.monotonic() + _PATIENCE_S
    while (progress := query.lastProgress) is None or progress["batchId"] < number:
        failed = query.exception()
        if failed is not None:
            raise failed
        if time.monotonic() > end:
            raise TimeoutError(f"batch {number} was not done in {_PATIENCE_S:.0f} s")
        time.sleep(_POLL_S)
    return int(progress["batchId"])


def _write(rig: Rig, folder: Path, form: str, size: int, writes: int) -> Run:
    """Write rows with few keys as a batch job, each time to a fresh topic, and return the run of the median length."""
    df = rows.keyed(rig.spark, size, PARTITIONS)
    for number in range(2):
        _written(rig, df, form, f"timeline-write-{form}-{size}-warm-{number}", size)
    with _counted(rig) as processors:
        times = [_written(rig, df, form, f"timeline-write-{form}-{size}-{number}", size) for number in range(writes)]
    begin, end = sorted(times, key=lambda time: time[1] - time[0])[len(times) // 2]
    share = {kind: seconds / writes for kind, seconds in processors.items()}
    return _run(f"{form}, write of {size:,}", folder, begin, end, {}, share)


def _written(rig: Rig, df: DataFrame, form: str, topic: str, size: int) -> tuple[float, float]:
    with rig.topic(topic):
        begin = time.time()
        if form == "semel":
            KafkaSink(topic=topic, transactionalIdPrefix=topic, **rig.kafka).write(df, version=1)
        else:
            df.write.format("kafka").options(topic=topic, **rig.kafka, **{"kafka.acks": "all"}).save()
        end = time.time()
        rig.check(topic, size, markers=PARTITIONS if form == "semel" else 0)
    return begin, end


@contextmanager
def _counted(rig: Rig) -> Iterator[dict[str, float]]:
    """Yield what the processors do for each kind of process meanwhile, in seconds; filled at the end."""
    processors, spent = Processors(rig), dict[str, float]()
    before = processors.seconds()
    yield spent
    spent.update({kind: seconds - before.get(kind, 0.0) for kind, seconds in processors.seconds().items()})


def _run(
    work: str, folder: Path, begin: float, end: float, trigger: Mapping[str, float], processors: Mapping[str, float]
) -> Run:
    spans = [span for span in trace.read(folder) if begin <= span.begin and span.end <= end]
    jobs = [job for job in spark_events.read(folder / "events") if begin <= job.begin and job.end <= end + 0.01]
    return Run(work, begin, end, trigger, spans, jobs, processors)


def _stages(runs: list[Run]) -> Table:
    """Return the stages of each run in milliseconds, a column for each run."""
    table = Table("ms", *(run.work for run in runs), title="where the time goes: the run of the median length")
    shown: dict[str, Callable[[Run], str]] = {
        "in all": lambda run: _ms(run.seconds),
        **{f"Spark: {name}": _part(name) for name in TRIGGER_PARTS},
        "the sink, before its job": lambda run: _ms(_around_job(run)[0]),
        "the job": lambda run: _ms(sum(job.end - job.begin for job in run.jobs)),
        "the sink, after its job": lambda run: _ms(_around_job(run)[1]),
        "tasks": lambda run: str(sum(len(job.tasks) for job in run.jobs)),
        "of a task, waiting for Python": lambda run: _ms(_mean([t.python_s for job in run.jobs for t in job.tasks])),
        "calls of Java": lambda run: f"{len(run.of('java'))}, {_ms(sum(s.end - s.begin for s in run.of('java')))}",
        "requests of the driver": lambda run: ", ".join(
            f"{count} {name}" for name, count in Counter(span.name for span in run.of("request")).most_common()
        ),
    }
    for kind in Processors.KINDS:
        shown[f"processor, {kind}"] = _processor(kind)
    for name, cell in shown.items():
        table.add_row(name, *(cell(run) for run in runs))
    return table


def _part(name: str) -> Callable[[Run], str]:
    return lambda run: _ms(run.trigger[name]) if name in run.trigger else ""


def _processor(kind: str) -> Callable[[Run], str]:
    return lambda run: _ms(run.processors.get(kind, 0.0))


def _around_job(run: Run) -> tuple[float, float]:
    """Return the seconds between the sink's call and its job, and between the job and its return."""
    steps = {span.name: span.begin for span in run.steps(os.getpid())}
    if not run.jobs or not steps:
        return 0.0, 0.0
    called, returning = steps.get("SinkStep.CALLED", run.begin), steps.get("SinkStep.RETURNING", run.end)
    return max(0.0, run.jobs[0].begin - called), max(0.0, returning - run.jobs[-1].end)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f}"


def _begin_again(folder: Path) -> None:
    """Run this program again with the observer, which is read as semel is imported."""
    (folder / "events").mkdir()
    events = {"enabled": "true", "compress": "false", "dir": (folder / "events").as_uri()}
    submit = " ".join(f"--conf spark.eventLog.{name}={value}" for name, value in events.items())
    os.environ.update(
        SEMEL_STEPS=_OBSERVER,
        SEMEL_TRACE=str(folder),
        PYSPARK_SUBMIT_ARGS=f"{submit} pyspark-shell",
        PYTHONPATH=os.pathsep.join([str(_CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    )
    os.execv(sys.executable, [sys.executable, "-m", "bench.timeline", *sys.argv[1:]])


if __name__ == "__main__":
    if os.environ.get("SEMEL_STEPS") != _OBSERVER:
        _begin_again(Path(tempfile.mkdtemp(prefix="semel-timeline-")))
    typer.run(main)
