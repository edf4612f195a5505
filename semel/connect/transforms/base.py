"""The base of transformations, and functions that take structs apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa

from semel.connect.api import Setting
from semel.errors import ConfigError

__all__ = ["Transform", "parted", "refused", "struct_of", "whole"]


class Transform:
    """Takes a table of one topic, and gives the topic and the table that come of it.

    ``side`` is ``key`` or ``value`` where the class has both.
    """

    options: ClassVar[Mapping[str, Setting]] = {}
    sided: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        self.given, self.side = options, side

    def apply(self, topic: str, table: pa.Table) -> tuple[str, pa.Table]:
        """Change it. What has no column of this side, or nulls there, passes as it is."""
        if self.side not in table.schema.names:
            return topic, table
        column = whole(table.column(self.side))
        if column.null_count == len(column):
            return topic, table
        return topic, put(table, self.side, self.changed(column, topic, table))

    def changed(self, column: Any, topic: str, table: pa.Table) -> Any:
        """Return the changed column."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Its name in messages."""
        return type(self).__name__


def whole(column: Any) -> Any:
    """Return a column as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def put(table: pa.Table, name: str, column: Any) -> pa.Table:
    """Return the table with this column, in the place of its namesake or as the last."""
    if name in table.schema.names:
        return table.set_column(table.schema.get_field_index(name), name, column)
    return table.append_column(name, column)


def parted(column: Any, transform: str) -> dict[str, Any]:
    """Return the fields of a struct. Raise :class:`ConfigError` for any other column."""
    if not pa.types.is_struct(column.type):
        raise refused(transform, f"only structs have fields, and it found {column.type}")
    return {field.name: values for field, values in zip(column.type, column.flatten(), strict=True)}


def struct_of(fields: Mapping[str, Any], like: Any) -> Any:
    """Return a struct of these fields, null where ``like`` is null."""
    return pa.StructArray.from_arrays(list(fields.values()), list(fields), mask=like.is_null())


def refused(transform: str, why: str) -> ConfigError:
    """Return the error for a record that a transformation cannot change."""
    return ConfigError(
        f"{transform} cannot change a record: {why}. Nothing of this poll is visible. Correct its settings, give it a"
        " predicate, or set errors.tolerance=all.",
        tag="TRANSFORM",
    )
