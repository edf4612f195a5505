"""The tables and columns that a connector captures, by Debezium's lists of regular expressions.

An expression matches the whole name (``schema``, ``schema.table``, ``schema.table.column``), in any case of letters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from semel.errors import ConfigError
from semel.settings import NOTHING

__all__ = ["Selection"]

_SYSTEM = ("pg_catalog", "information_schema")


class Selection:
    """What is captured."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config
        for kind in ("schema", "table", "column"):
            include, exclude = f"{kind}.include.list", f"{kind}.exclude.list"
            if config[include] and config[exclude]:
                raise ConfigError(
                    f"{include} and {exclude} are both given. {NOTHING} Remove one of them.", tag="WRONG_VALUE"
                )
        names = [f"{kind}.{side}.list" for kind in ("schema", "table", "column") for side in ("include", "exclude")]
        self._lists = {name: _compiled(name, config[name]) for name in (*names, "snapshot.include.collection.list")}
        self._keys = _message_keys(config["message.key.columns"])

    def has_table(self, schema: str, name: str) -> bool:
        """Return whether a table is captured."""
        if schema in _SYSTEM:
            return False
        return self._chosen("schema", schema) and self._chosen("table", f"{schema}.{name}")

    def has_snapshot(self, schema: str, name: str) -> bool:
        """Return whether the rows of a captured table are read by a snapshot."""
        return _in(self._lists["snapshot.include.collection.list"], f"{schema}.{name}", default=True)

    def has_column(self, table: str, name: str) -> bool:
        """Return whether the value of a record has a column. Its key has its columns anyway."""
        return self._chosen("column", f"{table}.{name}")

    def message_key(self, schema: str, table: str) -> list[str]:
        """Return the columns that ``message.key.columns`` makes the key of a table; none without it."""
        for pattern, columns in self._keys:
            if pattern.fullmatch(f"{schema}.{table}"):
                return columns
        return []

    def _chosen(self, kind: str, name: str) -> bool:
        if self._lists[f"{kind}.include.list"]:
            return _in(self._lists[f"{kind}.include.list"], name, default=True)
        return not _in(self._lists[f"{kind}.exclude.list"], name, default=False)


def _in(patterns: Sequence[re.Pattern[str]], name: str, *, default: bool) -> bool:
    return any(one.fullmatch(name) for one in patterns) if patterns else default


def _compiled(setting: str, texts: Sequence[str]) -> list[re.Pattern[str]]:
    try:
        return [re.compile(text, re.IGNORECASE) for text in texts]
    except re.error as error:
        raise ConfigError(
            f"{setting} is no list of regular expressions: {error}. {NOTHING} Correct it.", tag="WRONG_VALUE"
        ) from None


def _message_keys(text: str) -> list[tuple[re.Pattern[str], list[str]]]:
    """Return the keys of ``schema.table:column,column;…``."""
    made = []
    for part in filter(None, (one.strip() for one in text.split(";"))):
        table, _, columns = part.rpartition(":")
        if not table or not columns:
            raise ConfigError(
                f"message.key.columns={text:.200} is not of the form schema.table:column,column. {NOTHING} Correct it.",
                tag="WRONG_VALUE",
            )
        pattern = table if "\\." in table or ".*" in table else table.replace(".", r"\.")
        made.append((_compiled("message.key.columns", [pattern])[0], [one.strip() for one in columns.split(",")]))
    return made
