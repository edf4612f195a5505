"""The state of an aggregation, and how new rows change it: :class:`Count`, :class:`Columns`, :class:`Python`.

Count and Columns work on whole batches: Arrow groups the rows, and numpy adds what it found to what was there. Their
entries have a fixed size, so that those of all groups of a batch are one array. Python calls a function for each
record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from semel.errors import ConfigError
from semel.serdes.serde import Serde, decode, encode, to_python
from semel.streams.cells import EMPTY, FLOAT, INTEGER, cell_fields, cell_numbers, items, read_cells
from semel.streams.rows import Record, calling, place, records, returned
from semel.streams.state.state_store import number

__all__ = ["Columns", "Count", "Fold", "Groups", "Python"]

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


class Python:
    """A function of the key, the record's value, and what was there; ``initial`` makes the first one, or the first
    value is it.
    """

    needs: tuple[str, ...] = ("value",)

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        initial: Callable[[], Any] | None,
        given: tuple[Serde, Serde],
        made: Serde,
    ) -> None:
        self._name, self._function, self._initial, self._given, self._made = name, function, initial, given, made
        self.holds = f"what a function made ({made or 'bytes'})"

    def add(self, groups: Groups, before: Entries) -> tuple[Sequence[bytes | None], np.ndarray[Any, Any]]:
        """Call the function for each record, in their order. After a deletion the next record begins again."""
        states = to_python(self.columns(before)["value"], self._made)
        times = [-1 if entry is None else number(entry) for entry in before]
        for record, group in zip(records(groups.rows, *self._given), groups.of_row.tolist(), strict=True):
            there = states[group] is not None
            times[group] = max(times[group], record.timestamp) if there else record.timestamp
            states[group] = self._next(record, states[group])
        latest = np.array(times, np.int64)
        made = returned(states, self._made, self._name, lambda at: place(groups.rows, groups.last_row(at)))
        values = encode(made, self._made).to_pylist()
        stamps = items(latest.astype(">i8"))
        return [None if value is None else stamps[at] + value for at, value in enumerate(values)], latest

    def _next(self, record: Record, state: Any) -> Any:
        if state is None:
            if self._initial is None:
                return record.value
            state = calling(self._initial, self._name, record)
        return calling(self._step, self._name, record, record, state)

    def _step(self, record: Record, state: Any) -> Any:
        if self._initial is None:
            return self._function(state, record.value)
        return self._function(record.key, record.value, state)

    def columns(self, entries: Entries) -> dict[str, Any]:
        """Return the column ``value``."""
        raw = pa.array([None if entry is None else entry[_WORD:] for entry in entries], pa.binary())
        return {"value": decode(raw, self._made)}


def _check_fits(groups: Groups, column: Any, before: tuple[Any, Any], sums: Any, name: str) -> None:
    """Check that no sum has left 64 bits: what has wrapped is a multiple of 2**64 away from the sum of floats, whose
    error is far smaller.
    """
    bits, kinds = before
    values = column.fill_null(0).to_numpy().astype(np.float64)
    about = bits.astype(np.float64) + np.bincount(groups.of_row, values, minlength=groups.count)
    wrong = np.flatnonzero((np.abs(about - sums.astype(np.float64)) > 2.0**62) & (kinds != FLOAT))
    if len(wrong):
        key, sum_of = groups.rows["key"][groups.last_row(wrong[0])], about[wrong[0]]
        raise ConfigError(
            f"the sum {name!r} of key {key} leaves 64 bits: it comes to about {sum_of:.4g}. Nothing of this"
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
