"""Predicates: the records to which a transformation applies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from semel.connect.transforms.record import Record
from semel.errors import ConfigError
from semel.serdes.columns import whole
from semel.settings import Setting

__all__ = ["HasHeaderKey", "Predicate", "RecordIsTombstone", "TopicNameMatches"]


class Predicate:
    """Says which records are chosen: of a table all, none, or an array of booleans.

    A class overrides :meth:`chooses`, and :meth:`chosen` if it can answer for a table at once.
    """

    options: ClassVar[Mapping[str, Setting]] = {}

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.given = options

    @classmethod
    def takes_tables(cls) -> bool:
        """Return whether it can answer for a table at once."""
        return cls.chosen is not Predicate.chosen

    def chosen(self, topic: str, table: pa.Table) -> Any:
        """Return a mask of the chosen rows."""
        raise NotImplementedError

    def chooses(self, record: Record) -> bool:
        """Return whether a record is chosen."""
        raise NotImplementedError


class TopicNameMatches(Predicate):
    """Records whose topic an expression matches as a whole."""

    options: ClassVar[Mapping[str, Setting]] = {"pattern": Setting(str)}

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(options)
        try:
            self._pattern = re.compile(options["pattern"])
        except re.error as error:
            raise ConfigError(f"Invalid pattern: {error}.", tag="TRANSFORM") from None

    def chosen(self, topic: str, table: pa.Table) -> Any:
        """All or none."""
        return self._pattern.fullmatch(topic) is not None

    def chooses(self, record: Record) -> bool:
        """Return whether its topic matches."""
        return self._pattern.fullmatch(record.topic) is not None


class RecordIsTombstone(Predicate):
    """Records without a value."""

    def chosen(self, topic: str, table: pa.Table) -> Any:
        """Return a mask of the rows with a null value."""
        return whole(table.column("value")).is_null()

    def chooses(self, record: Record) -> bool:
        """Return whether it has no value."""
        return record.value.is_null


class HasHeaderKey(Predicate):
    """Records with a header of that name."""

    options: ClassVar[Mapping[str, Setting]] = {"name": Setting(str)}

    def chosen(self, topic: str, table: pa.Table) -> Any:
        """Return a mask of the rows with such a header."""
        if "headers" not in table.schema.names:
            return False
        headers = whole(table.column("headers"))
        found = pc.equal(pc.struct_field(headers.flatten(), "key"), self.given["name"])
        rows = pc.list_parent_indices(headers).filter(pc.fill_null(found, False))
        return pc.is_in(pa.array(range(len(headers)), pa.int64()), value_set=rows.cast(pa.int64()))

    def chooses(self, record: Record) -> bool:
        """Return whether it has such a header."""
        return any(name == self.given["name"] for name, _ in record.headers)
