"""What was there before an update of a table: Kafka Streams' ``Change``, as a column beside the new value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["OLD", "OldValues", "previous_values", "with_value", "without_old"]

#: The column of the values that were there before.
OLD = "__old"


class OldValues:
    """Says whether the updates of a table carry them. A node after it asks while the topology is built.

    ``before`` are those of the tables that this one is made of.
    """

    def __init__(self, *before: OldValues) -> None:
        self.sent = False
        self._before = before

    def ask(self) -> None:
        """Have the updates carry them."""
        self.sent = True
        for one in self._before:
            one.ask()


def with_value(rows: Any, value: Any) -> Any:
    """Return rows with this column of values, and without old ones."""
    rows = without_old(rows)
    return rows.set_column(rows.schema.get_field_index("value"), "value", value)


def without_old(rows: Any) -> Any:
    """Return rows without the column of old values."""
    return rows.drop_columns([OLD]) if OLD in rows.schema.names else rows


def previous_values(keys: Any, values: Any, stored: Any) -> Any:
    """Return for each row the value of the last row before it with its key, or what was ``stored`` before all rows.

    ``keys`` is a dictionary array, and ``stored`` has a value for each entry of its dictionary.
    """
    groups = keys.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(groups, kind="stable")
    first = np.append(True, groups[order][1:] != groups[order][:-1]) if len(order) else np.zeros(0, bool)
    taken = np.empty(len(order), np.int64)
    taken[order] = np.where(first, len(values) + groups[order], np.append(0, order[:-1]))
    return pa.concat_arrays([values, stored.cast(values.type)]).take(pa.array(taken))
