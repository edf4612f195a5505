"""Functions of a table's values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from semel.serdes.serde import Serde
from semel.streams.rows import Record, calling, place, records, returned
from semel.streams.state.state_store import StateStore
from semel.streams.topology.topology import Operator

__all__ = ["mapping_table_values"]


def mapping_table_values(
    function: Callable[[Record], Any], name: str, given: tuple[Serde, Serde], made: Serde
) -> Operator:
    """Return an operator that gives each update a new value. Deletions stay."""

    def operate(rows: Any, _: Mapping[str, StateStore]) -> Any:
        given_records = records(rows, *given)
        values = [None if one.value is None else calling(function, name, one, one) for one in given_records]
        column = returned(values, made, name, partial(place, rows))
        return rows.set_column(rows.schema.get_field_index("value"), "value", column)

    return operate
