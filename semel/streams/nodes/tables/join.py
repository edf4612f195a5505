"""Joins of two tables: an update of one meets what the other one has for its key then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from semel.serdes.serde import Serde, encode
from semel.streams.nodes.tables.old_values import OLD, OldValues, with_value
from semel.streams.nodes.tables.view import View
from semel.streams.rows import calling, place, records, returned, times, timestamps
from semel.streams.state.state_store import StateStore, StoreSpec

__all__ = ["JoinedView", "TableJoin", "TableJoiner"]

#: A function of the values of both tables.
TableJoiner = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class TableJoin:
    """Joins the updates of one side with the other side's values.

    ``alone`` says whether this side's values have a result without a partner, and ``other_alone`` whether the other
    side's do.
    """

    name: str
    other: View
    joiner: TableJoiner
    key: Serde
    #: The serdes of this side's values, of the other side's, and of results.
    serdes: tuple[Serde, Serde, Serde]
    alone: bool
    other_alone: bool
    old: OldValues

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return the updates of the result."""
        keys = encode(rows["key"], self.key).dictionary_encode()
        partners = self.other.look_up(keys.dictionary.to_pylist(), stores).take(keys.indices)
        there = _valid(partners["value"])
        before = rows[OLD] if OLD in rows.schema.names else None
        kept = there
        if self.alone:
            kept = there | _valid(rows["value"]) | (False if before is None else _valid(before))
        if not kept.all():
            mask = pa.array(kept)
            rows, partners, there = rows.filter(mask), partners.filter(mask), there[kept]
            before = None if before is None else before.filter(mask)
        made = with_value(rows, self.joined(rows, partners, there))
        time = timestamps(np.maximum(times(rows), np.where(there, times(partners), -1)))
        made = made.set_column(made.schema.get_field_index("timestamp"), "timestamp", time)
        if not self.old.sent:
            return made
        if before is None:
            before = pa.nulls(rows.num_rows, rows["value"].type)
        return made.append_column(OLD, self.joined(with_value(rows, before), partners, there))

    def joined(self, rows: Any, partners: Any, there: Any) -> Any:
        """Return the results for rows of this side and their partners, or null where there is none."""
        own = _valid(rows["value"])
        wanted = own & (there | self.alone) | (there if self.other_alone else False)
        mine, theirs, made = self.serdes
        results: list[Any] = [
            calling(self.joiner, self.name, record, record.value, partner.value) if asked else None
            for record, partner, asked in zip(
                records(rows, self.key, mine), records(partners, self.key, theirs), wanted.tolist(), strict=True
            )
        ]
        return returned(results, made, self.name, partial(place, rows))


@dataclass(frozen=True)
class JoinedView:
    """The result of a join, for those who look a key up. ``join`` is that of the left side."""

    left: View
    join: TableJoin

    @property
    def specs(self) -> tuple[StoreSpec, ...]:
        """The stores of both sides."""
        return (*self.left.specs, *(one for one in self.join.other.specs if one not in self.left.specs))

    def look_up(self, keys: list[bytes], stores: Mapping[str, StateStore]) -> Any:
        """Join what both sides have."""
        mine, partners = self.left.look_up(keys, stores), self.join.other.look_up(keys, stores)
        value = self.join.joined(mine, partners, _valid(partners["value"]))
        time = np.where(_valid(value), np.maximum(times(mine), times(partners)), -1)
        return pa.RecordBatch.from_pydict({"key": mine["key"], "value": value, "timestamp": timestamps(time)})


def _valid(column: Any) -> Any:
    return column.is_valid().to_numpy(zero_copy_only=False)
