"""The base of transformations: written once, for a column of a table and for one record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol, Self, TypeVar

import pyarrow as pa

from semel.connect.transforms.columns import TableRow, column_of, put
from semel.connect.transforms.record import Data, Record
from semel.errors import ConfigError
from semel.serdes.schemas import Schema
from semel.serdes.unfit import Mismatch
from semel.settings import Setting

__all__ = ["Row", "Side", "Transform", "refused"]


class Row(Protocol):
    """The rest of a record, or of a table's records, where these are columns."""

    @property
    def topic(self) -> str:
        """The topic."""

    @property
    def partition(self) -> Any:
        """The partition, or None."""

    @property
    def timestamp(self) -> Any:
        """The timestamp in milliseconds, or None."""

    @property
    def offset(self) -> Any:
        """The offset where a sink's record was read, or None."""


class Side(Protocol):
    """The key or the value: of a table as a column, or of one record."""

    @property
    def is_null(self) -> bool:
        """True if there is no value in it."""

    @property
    def is_tombstone(self) -> bool:
        """True if there is no value, and no schema says what it would be."""

    @property
    def is_optional(self) -> bool:
        """True if a schema says that it may be null."""

    @property
    def is_map(self) -> bool:
        """True if a schema says that it is a map."""

    def parts(self) -> dict[str, Self] | None:
        """Return the fields, or None if it has none."""

    def null(self) -> Self | None:
        """Return what a field is that is not there; None where each field has a schema."""

    def constant(self, schema: Schema, value: Any) -> Self | None:
        """Return a new field with this value; None for a null that is not put into a value without a schema."""

    def with_parts(self, parts: Mapping[str, Self]) -> Self:
        """Return the structure with these fields, not optional."""

    def with_same_parts(self, parts: Mapping[str, Self]) -> Self:
        """Return the structure with new values of its fields, optional as it was."""

    def new(self, parts: Mapping[str, Self]) -> Self:
        """Return a structure of these fields alone; null where this one is."""

    def hoisted(self, name: str) -> Self:
        """Return a structure whose one field is this, also where this is null."""

    def masked(self, replacement: str | None) -> Self | None:
        """Return zeros, empty text, or the replacement; None for a type that has neither. Nulls stay."""

    def optional(self) -> Self:
        """Return the same, and let it be null."""

    def renamed(self, new: Callable[[Schema], Schema]) -> Self | None:
        """Return the same values with another schema of their type; None for values without a schema."""

    def mapped(
        self, new: Callable[[Schema], Schema], convert: Callable[[Schema | None, Any], Any], quick: Any = None
    ) -> Self:
        """Return other values with another schema, made one by one. Nulls stay.

        ``quick`` may make a whole column of Arrow at once, or return None.
        """

    def retyped(self, convert: Any, kind: Any) -> Self:
        """Return the values as ``convert`` makes them of a column of Arrow, of the type ``kind``."""


S = TypeVar("S", bound=Side)


class Transform:
    """Changes the key or the value, which ``side`` says, of tables and of records.

    A class overrides :meth:`changed`; or :meth:`change`, and :meth:`apply` if it can take a table at once. Where a
    chain has one that cannot, the records of its tables are taken one by one.
    """

    options: ClassVar[Mapping[str, Setting]] = {}
    sided: ClassVar[bool] = True
    #: What stands before its name in ``type``.
    package: ClassVar[str] = "org.apache.kafka.connect.transforms."

    def __init__(self, options: Mapping[str, Any], side: str) -> None:
        self.given, self.side = options, side

    @classmethod
    def takes_tables(cls) -> bool:
        """Return whether it can change a table at once."""
        return cls.apply is not Transform.apply or cls.changed is not Transform.changed

    def apply(self, topic: str, table: pa.Table) -> tuple[str, pa.Table]:
        """Change a table of one topic. Return its topic and the table."""
        if self.side not in table.schema.names:
            return topic, table
        column = column_of(table, self.side)
        if self.spares(column):
            return topic, table
        return topic, put(table, self.side, self.changed(column, TableRow(topic, table)))

    def change(self, record: Record) -> Record | None:
        """Change one record. Return it, or None if it is left out."""
        data: Data = getattr(record, self.side)
        if not self.spares(data):
            try:
                setattr(record, self.side, self.changed(data, record))
            except Mismatch as error:
                raise refused(self.name, f"a value {error.what}") from None
        return record

    def spares(self, side: Side) -> bool:
        """Return whether this side passes as it is: nulls do."""
        return side.is_null

    def changed(self, side: S, row: Row) -> S:
        """Return the changed side."""
        raise NotImplementedError

    def parts(self, side: S) -> dict[str, S]:
        """Return the fields of a side. Raise :class:`ConfigError` for one without fields, and for a null."""
        parts = None if side.is_null else side.parts()
        if parts is None:
            raise refused(self.name, f"only structs and dictionaries have fields, and it found {side}")
        return parts

    def check_new(self, side: Side, name: str, there: Mapping[str, Any]) -> None:
        """Refuse a field that a schema would have twice. A value without a schema has the last one, as in Kafka."""
        if name in there and side.null() is None:
            raise refused(self.name, f"it would have the field {name:.100} twice")

    @property
    def name(self) -> str:
        """Its name in messages."""
        return type(self).__name__


def refused(transform: str, why: str) -> ConfigError:
    """Return the error for a record that a transformation cannot change."""
    return ConfigError(
        f"{transform} cannot change a record: {why}. Nothing of this poll is visible. Correct its settings, give it a"
        " predicate, or set errors.tolerance=all.",
        tag="TRANSFORM",
    )
