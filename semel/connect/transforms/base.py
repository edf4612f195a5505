"""The base of transformations, and functions that take structs apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from semel.errors import ConfigError
from semel.serdes.columns import whole
from semel.settings import Setting

__all__ = ["Column", "Transform", "parted", "put", "refused", "struct_of", "whole"]


class Column(NamedTuple):
    """Values, and whether their schema is optional."""

    values: Any
    nullable: bool = True


class Transform:
    """Takes a table of one topic, and gives the topic and the table that come of it.

    ``side`` is ``key`` or ``value`` where the class has both.
    """

    options: ClassVar[Mapping[str, Setting]] = {}
    sided: ClassVar[bool] = True
    #: Whether nulls pass as they are.
    spares_nulls: ClassVar[bool] = True

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        self.given, self.side = options, side

    def apply(self, topic: str, table: pa.Table) -> tuple[str, pa.Table]:
        """Change it. What has no column of this side, or nulls alone there, passes as it is."""
        if self.side not in table.schema.names:
            return topic, table
        column = Column(whole(table.column(self.side)), table.schema.field(self.side).nullable)
        if self.spares_nulls and column.values.null_count == len(column.values):
            return topic, table
        return topic, put(table, self.side, self.changed(column, topic, table))

    def changed(self, column: Column, topic: str, table: pa.Table) -> Column:
        """Return the changed column."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Its name in messages."""
        return type(self).__name__


def put(table: pa.Table, name: str, column: Column) -> pa.Table:
    """Return the table with this column, in the place of its namesake or as the last."""
    field = pa.field(name, column.values.type, nullable=column.nullable)
    if name in table.schema.names:
        return table.set_column(table.schema.get_field_index(name), field, column.values)
    return table.append_column(field, column.values)


def parted(column: Column, transform: str) -> dict[str, Column]:
    """Return the fields of a struct. Raise :class:`ConfigError` for any other column."""
    values = column.values
    if not pa.types.is_struct(values.type):
        raise refused(transform, f"only structs have fields, and it found {values.type}")
    return {one.name: Column(part, one.nullable) for one, part in zip(values.type, values.flatten(), strict=True)}


def struct_of(fields: Mapping[str, Column], like: Column) -> Column:
    """Return a struct of these fields, null where ``like`` is null."""
    arrays = [one.values for one in fields.values()]
    kinds = [pa.field(name, one.values.type, nullable=one.nullable) for name, one in fields.items()]
    made = pa.StructArray.from_arrays(arrays, fields=kinds, mask=like.values.is_null())
    return Column(made, like.nullable)


def refused(transform: str, why: str) -> ConfigError:
    """Return the error for a record that a transformation cannot change."""
    return ConfigError(
        f"{transform} cannot change a record: {why}. Nothing of this poll is visible. Correct its settings, give it a"
        " predicate, or set errors.tolerance=all.",
        tag="TRANSFORM",
    )
