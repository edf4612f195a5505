"""Filters of a table, and functions of its values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semel.serdes.serde import Serde
from semel.streams.nodes.stateless import matching
from semel.streams.nodes.tables.old_values import OLD, OldValues, with_value, without_old
from semel.streams.rows import Record, calling, place, records, returned
from semel.streams.state.state_store import StateStore
from semel.streams.topology.node import Operator

__all__ = ["TableValues", "dropping_old_values", "filtering_table_values", "mapping_table_values"]


@dataclass(frozen=True)
class TableValues:
    """Gives each update other values: the new one and, if they are asked for, the old one.

    With ``skips`` updates are dropped that have neither: the key was not in this table, and is not now.
    """

    of_values: Operator
    old: OldValues
    skips: bool

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return the updates with their new values."""
        made = self.of_values(without_old(rows), stores)
        if not self.old.sent:
            return made
        before = rows[OLD] if OLD in rows.schema.names else pa.nulls(rows.num_rows, rows["value"].type)
        before = self.of_values(with_value(rows, before), stores)["value"]
        made = made.append_column(OLD, before)
        return made.filter(pc.or_(made["value"].is_valid(), before.is_valid())) if self.skips else made


def mapping_table_values(
    function: Callable[[Record], Any], name: str, given: tuple[Serde, Serde], made: Serde
) -> Operator:
    """Return an operator that gives each update a new value. Deletions stay."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        given_records = records(rows, *given)
        values = [None if one.value is None else calling(function, name, one, one) for one in given_records]
        return with_value(rows, returned(values, made, name, partial(place, rows)))

    return operate


def filtering_table_values(condition: Any, name: str, given: tuple[Serde, Serde], *, negated: bool) -> Operator:
    """Return an operator that makes deletions of the updates that a condition is not true for."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        there = rows["value"].is_valid()
        kept = there.to_numpy(zero_copy_only=False).copy()
        kept[kept] = matching(condition, rows.filter(there), name, *given, negated=negated)
        return with_value(rows, pc.if_else(pa.array(kept, pa.bool_()), rows["value"], None))

    return operate


def dropping_old_values(rows: Any, _: Mapping[str, StateStore]) -> Any:
    """Hand on the updates of a table as records of a stream."""
    return without_old(rows)
