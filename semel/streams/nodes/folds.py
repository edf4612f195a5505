"""The state of an aggregation, and how new rows change it: :class:`Count`, :class:`Columns`.

Count and Columns work on whole batches: Arrow groups the rows, and numpy adds what it found to what was there. Their
entries have a fixed size, so that those of all groups of a batch are one array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from semel.errors import ConfigError
from semel.streams.cells import EMPTY, FLOAT, INTEGER, cell_fields, cell_numbers, items, read_cells

__all__ = ["Columns", "Count", "Entries", "Fold", "FoldSteps", "Groups"]

_WORD = 8
_OPERATIONS = ("sum", "min", "max", "count")
Entries = list[bytes | None]


@dataclass(frozen=True)
class Groups:
    """The rows of a batch, by key and window. ``of_row`` is the group of each of ``rows``."""

    rows: Any
    of_row: Any
    count: int
    latest: np.ndarray[Any, np.dtype[np.int64]]

    def last_row(self, group: int) -> int:
        """Return the number of the last row of a group."""
        return int(np.flatnonzero(self.of_row == group)[-1])


class Fold(Protocol):
    """The work of one aggregation."""

    #: Columns of the rows that it needs.
    needs: tuple[str, ...]
    #: What its entries are, in words.
    holds: str

    def add(self, groups: Groups, before: Entries) -> tuple[Sequence[bytes | None], np.ndarray[Any, Any]]:
        """Return the new entry of each group (None deletes it), and its time."""

    def columns(self, entries: Entries) -> dict[str, Any]:
        """Return the entries as columns."""

    def steps(self, rows: Any) -> FoldSteps:
        """Return its work on single rows."""

    def states(self, entries: Entries) -> list[Any]:
        """Return the aggregates of entries, for :meth:`steps`."""

    def entries(self, states: list[Any], times: list[int]) -> Entries:
        """Return the entries of aggregates."""


class FoldSteps(Protocol):
    """The work of an aggregation on the row ``at``."""

    at: int

    def initial(self) -> Any:
        """Return the first aggregate."""

    def add(self, state: Any) -> Any:
        """Return the aggregate with the row."""

    def merge(self, one: Any, other: Any) -> Any:
        """Return the aggregate of two windows that have become one."""


class Count:
    """The number of rows. An entry's value is Kafka's Long."""

    needs: tuple[str, ...] = ()
    holds = "a count"
    _form = np.dtype([("time", ">i8"), ("count", ">i8")])

    def add(self, groups: Groups, before: Entries) -> tuple[Sequence[bytes | None], np.ndarray[Any, Any]]:
        """Add the rows of each group."""
        found = _read(self._form, before)
        found["count"] += np.bincount(groups.of_row, minlength=groups.count)
        found["time"] = np.maximum(found["time"], groups.latest)
        return items(found), found["time"].astype(np.int64)

    def columns(self, entries: Entries) -> dict[str, Any]:
        """Return the column ``value``."""
        return {"value": pa.array(_read(self._form, entries)["count"].astype(np.int64), mask=_missing(entries))}

    def steps(self, rows: Any) -> FoldSteps:
        """Count single rows."""
        return _CountSteps()

    def states(self, entries: Entries) -> list[Any]:
        """Return the counts."""
        return [None if entry is None else int.from_bytes(entry[_WORD:], "big", signed=True) for entry in entries]

    def entries(self, states: list[Any], times: list[int]) -> Entries:
        """Return the entries of counts. A count of a table may fall below 0, as in Kafka Streams."""
        return [
            None if one is None else time.to_bytes(_WORD, "big") + one.to_bytes(_WORD, "big", signed=True)
            for one, time in zip(states, times, strict=True)
        ]


class _CountSteps:
    at = 0

    def initial(self) -> int:
        return 0

    def add(self, state: int) -> int:
        return state + 1

    def merge(self, one: int, other: int) -> int:
        return one + other


class Columns:
    """Sums, minima, maxima and counts of columns, each under a name: ``{"total": ("sum", "amount")}``.

    An entry has 9 bytes for each: a kind (nothing, whole number, float) and the number.
    """

    def __init__(self, asked: Mapping[str, tuple[str, str]]) -> None:
        for name, given in asked.items():
            if not isinstance(given, tuple) or len(given) != 2 or given[0] not in _OPERATIONS:
                raise ConfigError(
                    f'aggregate({name}={given!r}) is no aggregation. Nothing was read. Give ("sum", "column"), with'
                    f" one of {', '.join(_OPERATIONS)}.",
                    tag="TOPOLOGY",
                )
        self._asked = dict(asked)
        self.needs = tuple(sorted({column for _, column in asked.values()}))
        # without the names: they are not in the bytes
        self.holds = ", ".join(f"{operation} of {column}" for operation, column in asked.values())
        self._form = np.dtype([("time", ">i8"), *cell_fields(asked)])

    def add(self, groups: Groups, before: Entries) -> tuple[Sequence[bytes | None], np.ndarray[Any, Any]]:
        """Add what each group's rows come to."""
        found = _read(self._form, before)
        table = pa.table({"group": groups.of_row, **{name: self._numbers(groups.rows, name) for name in self.needs}})
        summed = table.group_by("group", use_threads=False).aggregate(
            [(column, operation) for operation, column in dict.fromkeys(self._asked.values())]
        )
        order = np.argsort(summed["group"].to_numpy())
        for name, (operation, column) in self._asked.items():
            old = found[name].copy(), found[f"{name} kind"].copy()
            self._merge(found, name, operation, summed[f"{column}_{operation}"].take(pa.array(order)))
            if operation == "sum" and pa.types.is_integer(table[column].type):
                _check_fits(groups, table[column], old, found[name], name)
        found["time"] = np.maximum(found["time"], groups.latest)
        return items(found), found["time"].astype(np.int64)

    @staticmethod
    def _numbers(rows: Any, column: str) -> Any:
        """Return a column of numbers; whole ones in 64 bits with a sign, in which they are kept."""
        values = rows[column]
        if not pa.types.is_integer(values.type) and not pa.types.is_boolean(values.type):
            return values
        try:
            return values.cast(pa.int64())
        except pa.ArrowInvalid as error:
            raise ConfigError(
                f"the column {column!r} does not fit into 64 bits: {error}. Nothing of this transaction is visible."
                " Cast it to float64 in map_batches, or aggregate with a function.",
                tag="COLUMN_TYPE",
            ) from None

    def _merge(self, found: Any, name: str, operation: str, new: Any) -> None:
        whole = pa.types.is_integer(new.type) or pa.types.is_boolean(new.type)
        if not whole and not pa.types.is_floating(new.type):
            raise ConfigError(
                f"the column of aggregation {name!r} has the type {new.type}, and only numbers can be added up. Nothing"
                " of this transaction is visible. Cast it in map_batches.",
                tag="COLUMN_TYPE",
            )
        there = new.is_valid().to_numpy()
        kinds = found[f"{name} kind"].copy()
        combine = {"min": np.minimum, "max": np.maximum}.get(operation, np.add)
        values = new.fill_null(0).to_numpy()
        # group by group: a float of one must not make floats of the others
        floats = kinds == FLOAT if whole else np.ones(len(kinds), bool)
        for kind, form, mine in ((INTEGER, ">i8", there & ~floats), (FLOAT, ">f8", there & floats)):
            at = np.flatnonzero(mine)
            old = cell_numbers(found[name][at], kinds[at], floats=kind == FLOAT)
            merged = np.where(kinds[at] == EMPTY, values[at], combine(old, values[at]))
            found[name][at] = merged.astype(form).view(">i8")
            found[f"{name} kind"][at] = kind

    def columns(self, entries: Entries) -> dict[str, Any]:
        """Return a column for each name."""
        found, missing = _read(self._form, entries), _missing(entries)
        return {name: read_cells(found, name, missing) for name in self._asked}

    def steps(self, rows: Any) -> FoldSteps:
        """Work on single rows."""
        columns = {name: self._numbers(rows, name) for name in self.needs}
        return _ColumnSteps(self._asked, {name: column.to_pylist() for name, column in columns.items()}, rows["key"])

    def states(self, entries: Entries) -> list[Any]:
        """Return a list of numbers for each entry, None where there is none yet."""
        there = [entry for entry in entries if entry is not None]
        cells = np.frombuffer(b"".join(there), self._form)
        columns = [_cell_list(cells, name) for name in self._asked]
        rows = iter([list(row) for row in zip(*columns, strict=True)])
        return [None if entry is None else next(rows) for entry in entries]

    def entries(self, states: list[Any], times: list[int]) -> Entries:
        """Return the entries of lists of numbers."""
        made = np.zeros(len(states), self._form)
        made["time"] = times
        for at, name in enumerate(self._asked):
            numbers = [None if state is None else state[at] for state in states]
            kinds = [EMPTY if one is None else FLOAT if isinstance(one, float) else INTEGER for one in numbers]
            made[f"{name} kind"] = kinds
            floats = np.array(kinds) == FLOAT
            made[name][floats] = np.array([one for one in numbers if isinstance(one, float)], ">f8").view(">i8")
            made[name][~floats] = [one or 0 for one in numbers if not isinstance(one, float)]
        return [None if state is None else one for state, one in zip(states, items(made), strict=True)]


class _ColumnSteps:
    at = 0

    def __init__(self, asked: Mapping[str, tuple[str, str]], columns: Mapping[str, list[Any]], keys: Any) -> None:
        self._asked, self._columns, self._keys = asked, columns, keys

    def initial(self) -> list[Any]:
        return [None] * len(self._asked)

    def add(self, state: list[Any]) -> list[Any]:
        numbers = [self._columns[column][self.at] for _, column in self._asked.values()]
        counted = [
            int(number is not None) if operation == "count" else number
            for number, (operation, _) in zip(numbers, self._asked.values(), strict=True)
        ]
        return self.merge(state, counted)

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        pairs = zip(self._asked.items(), one, other, strict=True)
        return [self._combined(name, operation, *pair) for (name, (operation, _)), *pair in pairs]

    def _combined(self, name: str, operation: str, one: Any, other: Any) -> Any:
        if one is None or other is None:
            return other if one is None else one
        found = {"min": min, "max": max}.get(operation, lambda a, b: a + b)(one, other)
        if isinstance(found, int) and not -(2**63) <= found < 2**63:
            raise _too_large(name, self._keys[self.at], found)
        return found


def _cell_list(cells: Any, name: str) -> list[Any]:
    """Return the numbers of a cell, each as it is kept."""
    kinds = cells[f"{name} kind"]
    whole, floats = (cell_numbers(cells[name], kinds, floats=one).tolist() for one in (False, True))
    return [
        None if kind == EMPTY else floats[at] if kind == FLOAT else whole[at] for at, kind in enumerate(kinds.tolist())
    ]


def _check_fits(groups: Groups, column: Any, before: tuple[Any, Any], sums: Any, name: str) -> None:
    """Check that no sum has left 64 bits: what has wrapped is a multiple of 2**64 away from the sum of floats, whose
    error is far smaller.
    """
    bits, kinds = before
    values = column.fill_null(0).to_numpy().astype(np.float64)
    about = bits.astype(np.float64) + np.bincount(groups.of_row, values, minlength=groups.count)
    wrong = np.flatnonzero((np.abs(about - sums.astype(np.float64)) > 2.0**62) & (kinds != FLOAT))
    if len(wrong):
        raise _too_large(name, groups.rows["key"][groups.last_row(wrong[0])], about[wrong[0]])


def _too_large(name: str, key: Any, number: float) -> ConfigError:
    return ConfigError(
        f"the sum {name!r} of key {key} leaves 64 bits: it comes to about {number:.4g}. Nothing of this"
        " transaction is visible. Cast the column to float64 in map_batches, or aggregate with a function.",
        tag="COLUMN_TYPE",
    )


def _read(form: Any, entries: Entries) -> Any:
    """Entries of one size, as an array; -1 is the time of those that are not there."""
    if entries.count(None) == len(entries):
        found = np.zeros(len(entries), form)
        found["time"] = -1
        return found
    nothing = b"\xff" * _WORD + b"\0" * (form.itemsize - _WORD)
    return np.frombuffer(b"".join(nothing if entry is None else entry for entry in entries), form).copy()


def _missing(entries: Entries) -> Any:
    return np.array([entry is None for entry in entries], bool)
