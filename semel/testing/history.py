"""The history checker: the view of a read_committed reader, compared with the expected records (DESIGN section 5).

    history = check(servers, "out", source="in", id="json:$.order", batch="header:batch")
    print(history)                    # a table; it names what could not be checked
    assert history.exact

- *lost*: expected records that are missing;
- *duplicated*: records too many of an id, beyond the first (beyond as many as the source has);
- *unexpected*: records with an id that is not expected;
- *reordered*: first records of their id that come after one that is later in the source, for each pair of source
  partition and output partition: the promised order (DESIGN rule 11);
- *torn*: batches (records with the same number of a batch or transaction) of which only a part is there.

Ids are compared as text. The comparison is a few passes over arrays. A million records take seconds, most of them for
reading.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from semel.errors import ConfigError
from semel.testing.records import read

__all__ = ["History", "assert_exactly_once", "check", "compare", "expect"]

_EXAMPLES = 5
_MEANING = {
    "lost": "to be there, and not there",
    "duplicated": "there more than once",
    "unexpected": "no program wrote that id",
    "reordered": "after one that comes later in the source",
    "torn": "batches of which only a part is there",
}

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class History:
    """The result of a check. A number is None if there was nothing to compare with: that was not checked."""

    written: int
    lost: int | None
    duplicated: int
    unexpected: int | None
    reordered: int | None
    torn: int | None
    examples: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def exact(self) -> bool:
        """True if every checked number is 0, and losses were checked."""
        return self.lost is not None and not any(getattr(self, kind) for kind in _MEANING)

    def table(self) -> Table:
        """Return a table for people."""
        table = Table(title=f"{self.written:,} records seen by a read_committed reader", title_justify="left")
        table.add_column("damage")
        table.add_column("records", justify="right")
        table.add_column("means")
        table.add_column("for example")
        for kind, meaning in _MEANING.items():
            number = getattr(self, kind)
            shown = "not checked" if number is None else f"{number:,}"
            style = "bold red" if number else ("dim" if number is None else "green")
            table.add_row(kind, shown, meaning, ", ".join(self.examples.get(kind, ())), style=style)
        return table

    def __str__(self) -> str:
        console = Console(file=io.StringIO(), width=140, color_system=None)
        with console.capture() as captured:
            console.print(self.table())
        return captured.get()


def check(
    cluster: str | Mapping[str, str],
    topics: str | Sequence[str],
    *,
    id: str = "key",
    expected: pa.Table | Iterable[object] | Mapping[object, Iterable[object]] | None = None,
    source: str | Sequence[str] | None = None,
    source_id: str | None = None,
    batch: str | None = None,
    batch_size: str | None = None,
    source_cluster: str | Mapping[str, str] | None = None,
    timeout: float = 60,
) -> History:
    """Read ``topics`` and return their faults.

    ``cluster`` is bootstrap servers or properties for confluent-kafka. ``id``, ``batch``, … name a place in a record
    (``key``, ``value``, ``header:NAME``, ``json:$.field``). The expected records, each once, are given by:

    - ``source``: the ids of these topics (``source_id``, if their place differs there); then the order is checked
      too, and with ``batch``, records with the same one in the source are a batch;
    - ``expected``: ids; or batches of ids, ``{batch: [id, …]}``; or a table of :func:`expect`;
    - neither: losses are not checked.

    Without either, batches can still be checked if every record carries the number of ids of its ``batch``, in
    ``batch_size``.
    """
    if expected is not None and source is not None:
        raise ConfigError("expected and source were both given: only one can be what must be there. Nothing was read.")
    if batch_size is not None and batch is None:
        raise ConfigError(
            "batch_size was given without batch: nothing says which records belong together. Nothing was read."
        )
    fields = {name: place for name, place in (("id", id), ("batch", batch), ("size", batch_size)) if place is not None}
    if source is not None:
        there = {"id": source_id or id} | ({} if batch is None or batch_size else {"batch": batch})
        expected = _in_order(read(source_cluster or cluster, _names(source), there, timeout=timeout))
        if "batch" in there:
            fields.pop("batch")
    elif expected is not None and not isinstance(expected, pa.Table):
        expected = expect(expected)
    return compare(read(cluster, _names(topics), fields, timeout=timeout), expected)


def assert_exactly_once(cluster: str | Mapping[str, str], topics: str | Sequence[str], **how: Any) -> History:
    """Check as :func:`check`, and raise :class:`AssertionError` with the table unless the history is exact.

    Losses must be checkable.
    """
    if how.get("expected") is None and how.get("source") is None:
        raise ConfigError(
            "without expected or source, losses cannot be checked, and exactly-once cannot be asserted. Nothing was"
            " read."
        )
    history = check(cluster, topics, **how)
    if not history.exact:
        raise AssertionError(f"not exactly once\n{history}")
    return history


def expect(ids: Iterable[object] | Mapping[object, Iterable[object]]) -> pa.Table:
    """Return the expected records, from ids or from batches of ids."""
    if not isinstance(ids, Mapping):
        return pa.table({"id": pa.array(map(_text, ids), pa.string())})
    pairs = [(_text(batch), _text(each)) for batch, members in ids.items() for each in members]
    return pa.table(
        {
            "id": pa.array([each for _, each in pairs], pa.string()),
            "batch": pa.array([batch for batch, _ in pairs], pa.string()),
        }
    )


def compare(seen: pa.Table, expected: pa.Table | None) -> History:
    """Compare records that were read with the expected ones. The tables are those of :func:`semel.testing.records.read`
    and :func:`expect`.
    """
    names, codes, wanted = _coded(seen["id"], None if expected is None else expected["id"])
    counts = np.bincount(codes, minlength=len(names))
    due = np.bincount(wanted, minlength=len(names)) if wanted is not None else np.ones(len(names), np.int64)
    examples: dict[str, Sequence[str]] = {}

    def count_of(kind: str, surplus: _Ints, labels: pa.Array = names) -> int:
        examples[kind] = labels.take(np.flatnonzero(surplus > 0)[:_EXAMPLES]).to_pylist()
        return int(surplus.sum())

    duplicated = count_of("duplicated", np.where(due > 0, np.maximum(counts - due, 0), 0))
    lost = unexpected = reordered = torn = None
    if expected is not None and wanted is not None:
        lost = count_of("lost", np.maximum(due - counts, 0))
        unexpected = count_of("unexpected", np.where(due == 0, counts, 0))
        if "offset" in expected.column_names:
            reordered = count_of("reordered", _reordered(seen, codes, expected, wanted, len(names)))
        if "batch" in expected.column_names:
            torn = count_of("torn", *_torn(expected["batch"], wanted, counts > 0))
    if "size" in seen.column_names:
        torn = count_of("torn", *_torn_by_size(seen, codes))
    return History(seen.num_rows, lost, duplicated, unexpected, reordered, torn, examples)


def _coded(seen: pa.ChunkedArray, expected: pa.ChunkedArray | None) -> tuple[pa.Array, _Ints, _Ints | None]:
    """Return the distinct ids, and each column as numbers of them."""
    both = pa.chunked_array([*seen.chunks, *(expected.chunks if expected is not None else ())], pa.string())
    names, codes = _encoded(both)
    if expected is None:
        return names, codes, None
    return names, codes[: len(seen)], codes[len(seen) :]


def _encoded(column: pa.ChunkedArray) -> tuple[pa.Array, _Ints]:
    encoded = column.combine_chunks().dictionary_encode()
    return encoded.dictionary, np.asarray(encoded.indices).astype(np.int64)


def _reordered(seen: pa.Table, codes: _Ints, expected: pa.Table, wanted: _Ints, size: int) -> _Ints:
    """Return, for each id, the number of its records that are out of order.

    Only first records of ids that occur once in the source count: the order of others proves nothing.
    """
    once = np.bincount(wanted, minlength=size) == 1
    position = np.full(size, -1, np.int64)
    position[wanted] = _numbers(expected["offset"])
    origin = np.zeros(size, np.int64)
    origin[wanted] = _places(expected)
    target, offset = _places(seen), _numbers(seen["offset"])
    by_offset = np.lexsort((offset, target))
    _, first = np.unique(codes[by_offset], return_index=True)
    rows = by_offset[first]
    rows = rows[once[codes[rows]]]
    code = codes[rows]
    rows_in_pairs = np.lexsort((offset[rows], origin[code], target[rows]))
    rows, code = rows[rows_in_pairs], code[rows_in_pairs]
    # each pair gets numbers above those of the pair before it, so one running maximum serves all
    pair = np.cumsum(np.diff(origin[code], prepend=-1).astype(bool) | np.diff(target[rows], prepend=-1).astype(bool))
    height = pair * (int(position.max(initial=0)) + 1) + position[code]
    behind = height < np.maximum.accumulate(height) if len(height) else np.zeros(0, bool)
    return np.bincount(code[behind], minlength=size)


def _torn(batches: pa.ChunkedArray, members: _Ints, there: npt.NDArray[np.bool_]) -> tuple[_Ints, pa.Array]:
    names, batch = _encoded(batches)
    size = np.bincount(batch, minlength=len(names))
    present = np.bincount(batch, weights=there[members], minlength=len(names))
    return ((present > 0) & (present < size)).astype(np.int64), names


def _torn_by_size(seen: pa.Table, codes: _Ints) -> tuple[_Ints, pa.Array]:
    names, batch = _encoded(seen["batch"])
    size = np.zeros(len(names), np.int64)
    np.maximum.at(size, batch, _numbers(seen["size"]))
    pairs = np.unique(np.stack([batch, codes]), axis=1)
    present = np.bincount(pairs[0], minlength=len(names))
    return (present < size).astype(np.int64), names


def _places(table: pa.Table) -> _Ints:
    """Return a number for each topic and partition."""
    _, topic = _encoded(table["topic"])
    return topic * (1 << 32) + _numbers(table["partition"])


def _numbers(column: pa.ChunkedArray) -> _Ints:
    return np.asarray(column.cast(pa.int64())).astype(np.int64)


def _in_order(table: pa.Table) -> pa.Table:
    return table.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")])


def _names(topics: str | Sequence[str]) -> list[str]:
    return [topics] if isinstance(topics, str) else list(topics)


def _text(value: object) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
