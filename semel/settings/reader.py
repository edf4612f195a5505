"""The reader of settings. Every error is a :class:`ConfigError` in one wording."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from semel.errors import ConfigError, Unsupported
from semel.settings.table import REQUIRED, Setting, WrongValue

__all__ = ["NOTHING", "missing", "nearest", "not_yet", "read_settings", "read_value", "unknown"]

#: What an error means for the data, unless a product says something else.
NOTHING = "Nothing was read or written."
#: Of a name that is looked for among the known ones.
_LONGEST_NAME = 100


def read_settings(
    table: Mapping[str, Setting], properties: Mapping[str, object], nothing: str = NOTHING, prefix: str = ""
) -> dict[str, Any]:
    """Return the value of each setting of the table, or its default. Other names are passed over.

    ``prefix`` is what the user writes before each name. Raises :class:`ConfigError` for what is missing or wrong.
    """
    values = {}
    for name, setting in table.items():
        value = properties.get(name)
        if setting.default is REQUIRED and not str(value or "").strip():
            raise missing(f"{prefix}{name}", nothing)
        values[name] = setting.default if value is None else read_value(prefix + name, str(value), setting, nothing)
    return values


def read_value(name: str, text: str, setting: Setting, nothing: str = NOTHING) -> Any:
    """Return the value of a text. Raise :class:`ConfigError` for what the setting does not take."""
    try:
        return setting.parse(text)
    except WrongValue as wrong:
        shown = "[hidden]" if setting.secret else text
        raise ConfigError(f"{name}={shown:.200} is not {wrong}. {nothing} Correct it.", tag="WRONG_VALUE") from None


def missing(name: str, nothing: str = NOTHING, remedy: str = "Give it.") -> ConfigError:
    """Return the error for a setting that must be given."""
    return ConfigError(f"{name} is missing. {nothing} {remedy}", tag="MISSING_OPTION")


def unknown(
    name: str, names: Iterable[str], nothing: str = NOTHING, *, what: str = "property", hint: str = ""
) -> ConfigError:
    """Return the error for a name that no table has, with the nearest known one, or another ``hint``."""
    hint = hint or nearest(name, names) or "."
    return ConfigError(f"{name:.200} is not a known {what}{hint} {nothing} Correct or remove it.", tag="UNKNOWN_OPTION")


def not_yet(what: str, remedy: str, nothing: str = NOTHING) -> Unsupported:
    """Return the error for a setting, or a value of one, that is known and not there yet."""
    return Unsupported(f"{what} is not there yet. {nothing} {remedy}", tag="NOT_YET")


def nearest(name: str, names: Iterable[str], prefix: str = "", *, likeness: float = 0.6) -> str:
    """Return the words that point to the nearest known name, with its prefix, or an empty text."""
    if len(name) > _LONGEST_NAME:  # comparing takes the square of its length
        return ""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=likeness)
    return f"; did you mean {prefix}{close[0]}?" if close else ""
