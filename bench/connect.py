"""Connect beside Kafka's own Connect: the lines of a file into a topic, exactly once, one worker and one task each.

Both read the same file with their ``FileStreamSource``. What is measured is the time from the first record, by its own
timestamp, to the commit that shows the last one, so that the start of Java, Spark or Python does not count. With
``interval`` a transaction lasts a second; with ``poll`` it holds the two lines of a poll, of a file that grows.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import count, islice
from pathlib import Path

from confluent_kafka import Consumer, Message, TopicPartition

from bench.figures import Figure, ratios
from bench.programs import running, working
from bench.rig import Incomplete, Rig
from bench.rounds import Contender, interleave
from tests.connect.support.kafka_connect import kafka_connect

__all__ = ["KAFKA_CONNECT", "measure"]

KAFKA_CONNECT = "Kafka Connect, exactly once"
_OURS = "semel"
_LINE = 100
#: Lines of a poll where each is a transaction, and how many of these are not counted.
_FEW = 2
_WARM = 20
_STRING = "org.apache.kafka.connect.storage.StringConverter"
#: Those of Kafka's own script.
_JVM = ("-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_POLL_S = 0.02
#: So long without another commit is the end.
_QUIET_S = 3.0
#: Kafka's own keeps the last lines of a file back until more follow.
_MOST = 0.98
_PATIENCE_S = 300.0


def measure(rig: Rig, lines: int, transactions: int, rounds: range) -> list[Figure]:
    """Lines a second with transactions of a second, and transactions a second with two lines in each."""
    return [_lines(rig, lines, rounds), _transactions(rig, transactions, rounds)]


def _lines(rig: Rig, lines: int, rounds: range) -> Figure:
    file = rig.directory / "lines.txt"
    with file.open("w") as written:
        written.writelines(_line(number) for number in range(lines))
    boundary = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "1000"}

    def ours(number: int) -> float:
        with _ours(rig, f"connect-lines-semel-{number}", file, boundary) as topic:
            return _line_rate(rig, topic, lines)

    def theirs(number: int) -> float:
        with _theirs(rig, f"connect-lines-java-{number}", file, boundary) as topic:
            return _line_rate(rig, topic, lines)

    return _compared(rig, "connect, lines, interval 1 s", ours, theirs, rounds, unit="lines/s", aim=3.0)


def _transactions(rig: Rig, transactions: int, rounds: range) -> Figure:
    file = rig.directory / "growing.txt"
    boundary = {"transaction.boundary": "poll", "batch.size": str(_FEW)}

    def ours(number: int) -> float:
        with _growing(file), _ours(rig, f"connect-polls-semel-{number}", file, boundary) as topic:
            return _transaction_rate(rig, topic, transactions)

    def theirs(number: int) -> float:
        with _growing(file), _theirs(rig, f"connect-polls-java-{number}", file, boundary) as topic:
            return _transaction_rate(rig, topic, transactions)

    return _compared(rig, "connect, transactions of 2 lines", ours, theirs, rounds, unit="transactions/s")


def _compared(
    rig: Rig,
    work: str,
    ours: Callable[[int], float],
    theirs: Callable[[int], float],
    rounds: range,
    *,
    unit: str,
    aim: float | None = None,
) -> Figure:
    contenders = [Contender(_OURS, ours), Contender(KAFKA_CONNECT, theirs)]
    rates = interleave(work, contenders, rounds, unit=unit, console=rig.console)
    return ratios(work, KAFKA_CONNECT, rates[_OURS], rates[KAFKA_CONNECT], target=1.0, aim=aim)


def _growing(file: Path) -> AbstractContextManager[None]:
    """Let a file grow by more lines than either reads two by two: Kafka's own reads only while there is more."""

    def grow(ending: threading.Event) -> None:
        with file.open("w") as written:
            numbers = count()
            while not ending.wait(0.01):
                written.writelines(_line(number) for number in islice(numbers, 20))
                written.flush()

    return working(grow)


def _line(number: int) -> str:
    return f"{number:0{_LINE}}\n"


@contextmanager
def _ours(rig: Rig, name: str, file: Path, boundary: Mapping[str, str]) -> Iterator[str]:
    worker, connector = rig.directory / f"{name}-worker.properties", rig.directory / f"{name}.properties"
    _write(worker, _worker(rig, name))
    _write(connector, {"name": name, **_connector(name, file, boundary)})
    command = [sys.executable, "-c", "from semel.cli import main; main()", "connect", str(worker), str(connector)]
    with rig.topic(name, 1), running(rig.directory, command, name):
        yield name


@contextmanager
def _theirs(rig: Rig, name: str, file: Path, boundary: Mapping[str, str]) -> Iterator[str]:
    with rig.topic(name, 1), kafka_connect(_worker(rig, name), rig.directory / name, jvm=_JVM) as worker:
        worker.ask("PUT", f"/connectors/{name}/config", _connector(name, file, boundary))
        yield name


def _worker(rig: Rig, name: str) -> dict[str, str]:
    return {
        "bootstrap.servers": rig.servers,
        "group.id": name,
        "offset.storage.topic": f"{name}-offsets",
        "offset.storage.replication.factor": "1",
        "key.converter": _STRING,
        "value.converter": _STRING,
        "exactly.once.source.support": "enabled",
    }


def _connector(name: str, file: Path, boundary: Mapping[str, str]) -> dict[str, str]:
    return {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "file": str(file),
        "topic": name,
        "tasks.max": "1",
        **boundary,
    }


def _write(file: Path, properties: Mapping[str, str]) -> None:
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


@contextmanager
def _watching(rig: Rig) -> Iterator[Consumer]:
    settings = {"bootstrap.servers": rig.servers, "group.id": "none", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    try:
        yield consumer
    finally:
        consumer.close()


def _line_rate(rig: Rig, topic: str, lines: int) -> float:
    """Wait until all lines are committed; lines a second, from the first one's timestamp."""
    place, began = TopicPartition(topic, 0), time.time()
    end, changed, arrived = 0, began, 0
    with _watching(rig) as consumer:
        while arrived < lines * _MOST:
            found, now = _end(consumer, place), time.time()
            if found != end:
                end, changed = found, now
            elif end and now - changed > _QUIET_S:
                arrived = _number(consumer, place, end) + 1
            _check_patience(topic, began, arrived)
        first = _message(consumer, place, 0).timestamp()[1] / 1000
        return float(arrived / (changed - first))


def _transaction_rate(rig: Rig, topic: str, transactions: int) -> float:
    """Wait for so many transactions behind the first ones; each takes the offsets of its lines and of a marker."""
    place, began = TopicPartition(topic, 0), time.time()
    each = _FEW + 1
    with _watching(rig) as consumer:
        first = 0
        while first < _WARM * each:
            first, start = _end(consumer, place), time.time()
            _check_patience(topic, began, first)
        end = first
        while end < first + transactions * each:
            end, now = _end(consumer, place), time.time()
            _check_patience(topic, began, end)
    return (end - first) / each / (now - start)


def _end(consumer: Consumer, place: TopicPartition) -> int:
    time.sleep(_POLL_S)
    return int(consumer.get_watermark_offsets(place, 30)[1])


def _check_patience(topic: str, began: float, reached: int) -> None:
    if time.time() - began > _PATIENCE_S:
        raise Incomplete(f"{topic} came to {reached} in {_PATIENCE_S:.0f} s, and not to its end")


def _number(consumer: Consumer, place: TopicPartition, end: int) -> int:
    """Return the number in the last line. A marker or two lie after it."""
    return int(_message(consumer, place, max(0, end - 2)).value())


def _message(consumer: Consumer, place: TopicPartition, offset: int) -> Message:
    consumer.assign([TopicPartition(place.topic, place.partition, offset)])
    (found,) = consumer.consume(1, 30)
    return found
