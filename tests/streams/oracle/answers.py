"""What Kafka Streams has answered, and what the test driver answers to the same cases."""

from __future__ import annotations

import json
import lzma
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from semel.streams import Record
from semel.streams.rows import times
from semel.streams.testing import Driver
from semel.streams.topology.record_order import RecordOrder
from semel.streams.windows.record_keys import RecordKeys
from semel.streams.worker.task import Task
from tests.streams.oracle.cases import Case
from tests.streams.oracle.topologies import build

__all__ = [
    "BAD",
    "FILE",
    "NEW",
    "SECOND",
    "TABLES",
    "THIRD",
    "VERSIONS",
    "differing",
    "driven",
    "judged",
    "kept",
    "shown",
    "text",
]

FILE = Path(__file__).parent / "answers.jsonl.xz"
SECOND = Path(__file__).parent / "second.jsonl.xz"
BAD = Path(__file__).parent / "bad.jsonl.xz"
TABLES = Path(__file__).parent / "tables.jsonl.xz"
THIRD = Path(__file__).parent / "third.jsonl.xz"
NEW = Path(__file__).parent / "new.jsonl.xz"
VERSIONS = Path(__file__).parent / "versions.jsonl.xz"
_UNLIKE = ("-SUPPRESS-", "-stream-times-", "-VERSIONED-", "-FK-JOIN-OUTPUT-STATE-STORE-")
Answers = dict[str, dict[str, list[Any]]]


def kept(file: Path = FILE) -> Iterator[Case]:
    """Yield the cases with their answers."""
    with lzma.open(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def judged(case: Case) -> Answers:
    """Return what Kafka Streams has answered: the rows of topics, and the newest ones of changelogs."""
    return _alike(case, {kind: case[kind] for kind in ("topics", "changelogs")})


def _alike(case: Case, answers: Answers) -> Answers:
    """Leave out what is empty, the buffers of suppress and versions, which have another form, what one of the two
    alone has, and of the stores of joins what may be older than their retention. Their records are numbered, by each
    in its own way.
    """
    answers["changelogs"] = {
        name: rows for name, rows in answers["changelogs"].items() if not any(part in name for part in _UNLIKE)
    }
    found = {kind: {name: rows for name, rows in given.items() if rows} for kind, given in answers.items()}
    newest = max((row[3] for row in case["records"] if row[0] is not None), default=0)
    topology = build(case["steps"]).topology
    for spec in (spec for node in topology.nodes for spec in node.stores if isinstance(spec.window_keys, RecordKeys)):
        name, oldest = topology.changelog(spec.name), newest - (spec.retention_ms or 0) + 1
        rows = [[key[:-4], value, time] for key, value, time in found["changelogs"].pop(name, ()) if time >= oldest]
        if rows:
            found["changelogs"][name] = sorted(rows)
    return found


class _Recording(Driver):
    """Keeps the newest record of each key of the changelogs."""

    def __init__(self, *given: Any, start_ms: int = 0) -> None:
        super().__init__(*given, start_ms=start_ms)
        self.changelogs: dict[str, dict[str, list[Any]]] = {}
        #: Where the records of dead letters were read.
        self.places: list[list[Any]] = []

    def _commit(self) -> None:
        for name, store in self._stores.items():
            rows = self.changelogs.setdefault(self._topology.changelog(name), {})
            for row in store.changes().to_pylist():
                time = round(row["timestamp"].timestamp() * 1000)
                rows[text(row["key"]) or ""] = [text(row["key"]), text(row["value"]), time]
        super()._commit()

    def _take(self, topic: str, records: Any) -> None:
        super()._take(topic, records)
        if "-FK-JOIN-" in topic:
            rows = zip(records["key"].to_pylist(), records["value"].to_pylist(), times(records).tolist(), strict=True)
            self._output[topic] += [Record(*row) for row in rows]
        for row in records.to_pylist() if "headers" in records.schema.names else ():
            context = {header["key"]: text(header["value"]) for header in row["headers"]}
            if "__streams.errors.topic" in context:
                self.places.append([context[f"__streams.errors.{name}"] for name in ("topic", "partition", "offset")])

    def pipe_together(self, records: Sequence[Sequence[Any]]) -> None:
        """Send records of several topics: to each task those of its topics at once, as a worker does."""
        batches: dict[Task, list[Any]] = {}
        for topic, *row in records:
            made = self._with_origin(topic, self._batch(topic, [_piped([topic, *row])]))
            batches.setdefault(self._tasks[topic], []).append(made)
        for task, rows in batches.items():
            task.process_by_time(pa.concat_batches(rows))
            self._drain()
        self._commit()

    @property
    def global_topics(self) -> set[str]:
        """The topics of global tables."""
        return set(self._globals)

    @property
    def written(self) -> dict[str, list[Record]]:
        """What sinks have written, by topic."""
        return self._output


def driven(case: Case, cuts: Sequence[int] = (), *, together: bool = False) -> Answers:
    """Return what the test driver answers. Records of one topic go together, as many as ``cuts`` say in turn; with
    ``together`` those of other topics, too.
    """
    app = build(case["steps"], properties={"statestore.cache.max.bytes": 0, **_handlers(case)})
    driver = _Recording(app, start_ms=case.get("clock", 0))
    records = case["records"]
    at = turn = 0
    while at < len(records):
        if records[at][0] is None:
            driver.advance(records[at][3])
            at += 1
            continue
        last, most = at + 1, cuts[turn % len(cuts)] if cuts else 1
        alone = {None, *driver.global_topics}
        while last < min(at + most, len(records)) and (
            records[last][0] == records[at][0] or (together and not {records[at][0], records[last][0]} & alone)
        ):
            last += 1
        if together and records[at][0] not in alone:
            driver.pipe_together(records[at:last])
        else:
            driver.pipe_many(records[at][0], [_piped(row) for row in records[at:last]])
        at, turn = last, turn + 1
    changelogs = {
        name: [row for _, row in sorted(rows.items()) if row[1] is not None] for name, rows in driver.changelogs.items()
    }
    topics = {name: list(map(shown, rows)) for name, rows in driver.written.items()}
    if "clock" in case:
        for name, rows in driver.written.items():
            for row, record in zip(topics[name], rows, strict=True):
                row.append([[key, text(value)] for key, value in record.headers])
    for row, place in zip(topics.get(case.get("letters", ""), ()), driver.places, strict=True):
        row += place
    return _alike(case, {"topics": topics, "changelogs": changelogs})


def _handlers(case: Case) -> dict[str, str]:
    if "letters" not in case:
        return {}
    handlers = ("deserialization.exception.handler", "processing.exception.handler")
    return {"errors.dead.letter.queue.topic.name": case["letters"], **dict.fromkeys(handlers, "continue")}


def _piped(row: Sequence[Any]) -> tuple[Any, Any, Any, Any]:
    """Return key, value, time and headers. A text is no JSON, and stays as it is."""
    headers = [(key, None if value is None else value.encode("latin-1")) for key, value in (row[4] if row[4:] else ())]
    return row[1], row[2].encode() if isinstance(row[2], str) else row[2], row[3], headers


def shown(record: Record) -> list[Any]:
    """Return a record's bytes as texts, and its time."""
    return [text(record.key), text(record.value), record.timestamp]


def text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


def of_inputs_together(case: Case) -> tuple[Answers, Answers] | None:
    """Return what the test driver and what Kafka Streams answers where records of all inputs are there at once.

    None for a topology whose repartition topics meet others: which of their rows is first is not promised. Rows of
    other keys may change places where nodes go key by key, and are sorted then.
    """
    parts = build(case["steps"]).topology.sub_topologies()
    if any(len(part.sources) > 1 and any(source.internal for source in part.sources) for part in parts):
        return None
    answers = driven(case, [7, 25], together=True), judged(case)
    if any(len(part.sources) > 1 and RecordOrder.of(part.nodes).by_key for part in parts):
        for rows in (rows for one in answers for rows in one["topics"].values()):
            rows.sort(key=lambda row: row[0] or "")
    return answers


def differing(cases: Sequence[Case], seeds: range, most: int) -> set[int]:
    """Return the cases that have another answer, with records in batches of up to ``most``."""
    found = set()
    for seed in seeds:
        draw = random.Random(seed)
        if driven(cases[seed], [draw.randint(1, most) for _ in range(8)]) != judged(cases[seed]):
            found.add(seed)
    return found
