"""Comparison of ids: each is in a topic once, and they are those of its source, no more and no fewer (DESIGN section 3,
``semel verify``).

It reads as a read_committed reader, up to the last stable offsets at the start. Ids are spilled to disk and judged a
file at a time (:mod:`semel.admin.verify.spill`), so ``limit`` and the kept examples bound memory.

Not promised: anything about rows without an id (they are counted), rows after the last stable offset, or rows that
retention or compaction has removed. A loss among records that share one id cannot be seen; if ids repeat in the source,
they are counted.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.admin.verify.record_id import IdPlace
from semel.admin.verify.spill import LEVELS, SCHEMA, Spill, rows_of
from semel.errors import ConfigError
from semel.read.data_loss import check_ranges
from semel.read.ranges import Range
from semel.read.reader import Reader
from semel.read.start_offsets import EndSpec, StartSpec, topic_ranges
from semel.wire.api.offsets import LATEST, list_offsets
from semel.wire.client import Client

__all__ = ["LIMIT", "Example", "Of", "Read", "Verified", "verify"]

#: Bytes of ids in memory at once. With the tables made of them, some hundred megabytes in all.
LIMIT = 32 << 20
_PLACES = 3

OnProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Of:
    """The input of one side: a topic, the place of its ids, its start and end.

    ``end`` is usually the last stable offset.
    """

    topic: str
    place: IdPlace
    start: StartSpec
    end: EndSpec


@dataclass(slots=True)
class Read:
    """The result of reading a topic. ``hidden`` offsets are after the last stable ones, in or after open
    transactions.
    """

    topic: str
    ranges: Sequence[Range]
    hidden: int
    records: int = 0
    without_id: int = 0
    places_without_id: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Example:
    """An id, its count in the topic and in the source, and its first positions (partition, offset): in the topic, or
    for a loss in the source.
    """

    id: bytes
    times: int
    in_source: int | None
    places: Sequence[tuple[int, int]]


@dataclass(slots=True)
class Verified:
    """The result of a comparison. Numbers count ids; ``surplus`` counts records. ``lost`` and ``strangers`` are None
    without a source: they were not checked.

    ``repeated`` ids are in the source at least as often as in the topic, so they are no duplicates. ``fewer`` ids are
    in the source more often than in the topic: this id cannot show whether rows are missing.
    """

    topic: Read
    source: Read | None
    ids: int = 0
    duplicated: int = 0
    surplus: int = 0
    lost: int | None = None
    strangers: int | None = None
    repeated: int = 0
    fewer: int = 0
    examples: dict[str, list[Example]] = field(default_factory=lambda: {"duplicated": [], "lost": [], "strangers": []})

    @property
    def clean(self) -> bool:
        """True if no fault was found and every record had an id."""
        without = self.topic.without_id + (self.source.without_id if self.source is not None else 0)
        return not (self.duplicated or self.lost or self.strangers or without)


def verify(
    client: Client,
    topic: Of,
    source: Of | None = None,
    *,
    limit: int = LIMIT,
    examples: int = 20,
    directory: Path | None = None,
    on_progress: OnProgress = lambda done, of: None,
) -> Verified:
    """Read ``topic``, and ``source`` if given, and compare ids.

    ``limit`` bounds memory, ``examples`` the number of kept examples of each kind. ``directory`` holds the spilled ids
    (default: the system's temporary folder). ``on_progress`` is called with the number of offsets read and their total.
    Raise :class:`ConfigError` for topics and positions that do not exist, and for a full folder. Raise
    :class:`~semel.errors.DataLoss` for rows that are removed while they are read, :class:`~semel.errors.Retriable` if
    no more rows come.
    """
    wanted = [topic] if source is None else [topic, source]
    # the topic's end first: its ids are then in the source that is read, and later ids of the source do not count as
    # strangers
    reads = [_look(client, of) for of in wanted]
    result = Verified(reads[0], reads[1] if source is not None else None)
    if source is not None:
        result.lost = result.strangers = 0
    total = sum(one.size for read in reads for one in read.ranges)
    try:
        with tempfile.TemporaryDirectory(prefix="semel-verify-", dir=directory) as folder:
            files: list[Mapping[int, Path]] = []
            for of, read in zip(wanted, reads, strict=True):
                before = sum(one.size for earlier in reads[: len(files)] for one in earlier.ranges)
                spill = Spill(Path(folder) / str(len(files)), limit)
                _read(client, of, read, spill, partial(_tell, on_progress, before, total))
                files.append(spill.close())
            _judge_each(result, files, limit, examples, 1)
    except OSError as error:  # unreachable brokers raise semel's own errors
        raise ConfigError(
            f"ids could not be kept on disk in {directory or tempfile.gettempdir()} ({error}). Nothing was found out."
            " Make room there, or name another folder by --temporary-directory: it takes the size of the ids, and 20"
            " bytes a record.",
            tag="SPILL",
        ) from None
    return result


def _tell(on_progress: OnProgress, before: int, total: int, count: int) -> None:
    on_progress(before + count, total)


def _look(client: Client, of: Of) -> Read:
    ranges = topic_ranges(client, of.topic, of.start, of.end, read_committed=True)
    latest = dict.fromkeys((one.topic_partition for one in ranges), LATEST)
    stable, high = (list_offsets(client, latest, read_committed=committed) for committed in (True, False))
    checked = check_ranges(
        client, [one for one in ranges if one.size > 0], fail_on_data_loss=True, deadline=client.deadline()
    )
    hidden = sum(
        high[p].offset - stable[p].offset
        for p in (one.topic_partition for one in ranges if one.end >= stable[one.topic_partition].offset)
    )
    return Read(of.topic, checked.ranges, hidden)


def _read(client: Client, of: Of, read: Read, spill: Spill, on_progress: Callable[[int], None]) -> None:
    starts = sum(one.start for one in read.ranges)
    with Reader(client, read.ranges, headers=of.place.in_headers, timestamp_overflow="null") as reader:
        for rows in reader:
            ids = of.place.of(rows)
            batch = pa.RecordBatch.from_arrays([ids, rows.column("partition"), rows.column("offset")], schema=SCHEMA)
            read.records += len(batch)
            if ids.null_count:
                without = batch.filter(ids.is_null())
                read.without_id += len(without)
                read.places_without_id += _places(without, _PLACES - len(read.places_without_id))
                batch = batch.filter(ids.is_valid())
            spill.add(batch)
            on_progress(sum(reader.positions.values()) - starts)


def _judge_each(result: Verified, files: Sequence[Mapping[int, Path]], limit: int, examples: int, level: int) -> None:
    """Judge each pair of files. Files of one number hold the same ids, and no other files do."""
    for number in sorted(set().union(*files)):
        _judge(result, [of_one.get(number) for of_one in files], limit, examples, level)


def _judge(result: Verified, paths: Sequence[Path | None], limit: int, examples: int, level: int) -> None:
    if level < LEVELS and sum(path.stat().st_size for path in paths if path is not None) > limit:
        _judge_each(result, [_spread(path, limit, level) for path in paths], limit, examples, level + 1)
        return
    counted = [_counted(path, limit) for path in paths]
    table = counted[0].append_column("in_source", pa.nulls(len(counted[0]), pa.int64()))
    if len(counted) > 1:
        table = counted[0].join(counted[1].rename_columns(["id", "in_source"]), "id", join_type="full outer")
    _take(result, table, paths, examples)
    for path in paths:
        if path is not None:
            path.unlink()


def _spread(path: Path | None, limit: int, level: int) -> Mapping[int, Path]:
    if path is None:
        return {}
    spill = Spill(path.with_suffix(""), limit, level)
    for rows in rows_of(path):
        spill.add(rows)
    path.unlink()
    return spill.close()


def _counted(path: Path | None, limit: int) -> Any:
    """Return a table of each id and its count.

    At the last level a file may be large: one id may be everywhere.
    """
    counts = pa.table({"id": pa.array([], pa.binary()), "times": pa.array([], pa.int64())})
    pending: list[Any] = []
    size = 0
    for rows in rows_of(path) if path is not None else ():
        pending.append(rows.select(["id"]))
        size += rows.nbytes
        if size > limit:
            counts, pending, size = _folded(counts, pending), [], 0
    return _folded(counts, pending)


def _folded(counts: Any, pending: Iterable[Any]) -> Any:
    batches = list(pending)
    if not batches:
        return counts
    more = pa.Table.from_batches(batches).group_by("id").aggregate([([], "count_all")]).rename_columns(["id", "times"])
    return pa.concat_tables([counts, more]).group_by("id").aggregate([("times", "sum")]).rename_columns(["id", "times"])


def _take(result: Verified, table: Any, paths: Sequence[Path | None], examples: int) -> None:
    times = pc.fill_null(table["times"], 0)
    source = pc.fill_null(table["in_source"], 0)
    table = table.set_column(table.column_names.index("times"), "times", times)
    result.ids += pc.sum(pc.greater(times, 0)).as_py() or 0
    repeated = pc.greater(times, 1)
    doubled = pc.and_(repeated, pc.greater(times, source))
    kinds = {"duplicated": doubled}
    if result.lost is not None and result.strangers is not None:
        kinds |= {"lost": pc.equal(times, 0), "strangers": pc.equal(source, 0)}
        result.lost += _count(kinds["lost"])
        result.strangers += _count(kinds["strangers"])
        result.fewer += _count(pc.and_(pc.greater(times, 0), pc.less(times, source)))
        result.repeated += _count(pc.and_(repeated, pc.less_equal(times, source)))
    result.duplicated += _count(doubled)
    allowed = pc.max_element_wise(source, 1)
    result.surplus += pc.sum(pc.subtract(times, allowed).filter(doubled)).as_py() or 0
    for kind, chosen in kinds.items():
        room = examples - len(result.examples[kind])
        if room > 0:
            worst = (
                table.filter(chosen).sort_by([("times", "descending"), ("id", "ascending")]).slice(0, room).to_pylist()
            )
            result.examples[kind] += _examples(worst, paths[1 if kind == "lost" else 0])


def _count(flags: Any) -> int:
    return int(pc.sum(flags).as_py() or 0)


def _examples(rows: Sequence[Mapping[str, Any]], path: Path | None) -> Iterator[Example]:
    """Yield the examples with the first positions of each, in the order in which they were read."""
    wanted: dict[bytes, list[tuple[int, int]]] = {row["id"]: [] for row in rows}
    for batch in rows_of(path) if wanted and path is not None else ():
        for one, places in wanted.items():
            if len(places) < _PLACES:
                places += _places(batch.filter(pc.equal(batch.column("id"), one)), _PLACES - len(places))
        if all(len(places) == _PLACES for places in wanted.values()):
            break
    for row in rows:
        yield Example(row["id"], row["times"], row["in_source"], sorted(wanted[row["id"]]))


def _places(rows: Any, count: int) -> list[tuple[int, int]]:
    first = rows.slice(0, max(count, 0))
    return list(zip(first.column("partition").to_pylist(), first.column("offset").to_pylist(), strict=True))
