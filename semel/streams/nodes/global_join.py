"""Joins of a stream with a global table, by a key that a function chooses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semel.serdes.serde import Serde, encode, to_python
from semel.streams.dropped import DroppedRecords
from semel.streams.nodes.stateless import check_columns
from semel.streams.nodes.tables.old_values import with_value
from semel.streams.nodes.tables.view import StoreView
from semel.streams.rows import Record, calling, misfit, place, records, returned
from semel.streams.state.state_store import StateStore

__all__ = ["GlobalJoin"]


@dataclass(frozen=True)
class GlobalJoin:
    """Gives each row what ``joiner`` makes of its value and of the table's. ``left``: rows without a partner, too."""

    name: str
    view: StoreView
    key_selector: Callable[[Record], Any]
    joiner: Callable[[Any, Any], Any]
    given: tuple[Serde, Serde]
    of_table: Serde
    made: Serde
    dropped: DroppedRecords
    left: bool

    def __call__(self, rows: Any, stores: Mapping[str, StateStore]) -> Any:
        """Return the joined rows. Those without a value or a chosen key are dropped and counted, as in Kafka Streams:
        a left join keeps those without a key of their own.
        """
        check_columns(rows, ("key", "value"), self.name)
        given = list(records(rows, *self.given))
        chosen = [calling(self.key_selector, self.name, one, one) for one in given]
        keys = encode(returned(chosen, self.view.key, self.name, partial(place, rows)), self.view.key)
        places = keys.dictionary_encode()
        partners = self.view.look_up(places.dictionary.to_pylist(), stores)["value"].take(places.indices)
        kept = keys.is_valid()
        if self.left:
            kept = pc.or_(kept, rows["key"].is_null())
        kept = pc.and_(kept, rows["value"].is_valid())
        self.dropped.count(self.name, rows.num_rows - int(pc.sum(kept).as_py() or 0), "rows without a value or key")
        if not self.left:
            kept = pc.and_(kept, partners.is_valid())
        at = np.flatnonzero(kept.to_numpy(zero_copy_only=False))
        rows, partners = rows.take(pa.array(at)), partners.take(pa.array(at))
        made = [
            calling(self.joiner, self.name, given[row], given[row].value, partner)
            for row, partner in zip(at.tolist(), self._python(rows, partners), strict=True)
        ]
        return with_value(rows, returned(made, self.made, self.name, partial(place, rows)))

    def _python(self, rows: Any, partners: Any) -> list[Any]:
        try:
            return to_python(partners, self.of_table)
        except (ValueError, TypeError):
            what = f"the value in table {self.view.spec.name}"
            raise misfit(rows, partners, self.of_table, what) from None
