"""Fields of dataclasses that are settings: the class itself is the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from semel.settings.reader import NOTHING, read_settings
from semel.settings.table import REQUIRED, Setting

__all__ = ["read_fields", "setting", "table_of"]


def setting(
    kind: type,
    default: Any = REQUIRED,
    at_least: float | None = None,
    *,
    name: str = "",
    one_of: tuple[str, ...] = (),
    at_most: int | None = None,
    also: int | None = None,
) -> Any:
    """Return a field that is read by a :class:`Setting`. Without a ``name`` it is the field's own, with dots."""
    made = Setting(kind, default, at_least, one_of=one_of, at_most=at_most, also=also)
    metadata = {"setting": made, "name": name}
    return field(metadata=metadata) if default is REQUIRED else field(default=default, metadata=metadata)


def _settings(cls: Any) -> list[tuple[str, str, Setting]]:
    """Return the attribute, the name and the setting of each field that is one."""
    return [
        (one.name, one.metadata["name"] or one.name.replace("_", "."), one.metadata["setting"])
        for one in fields(cls)
        if one.metadata
    ]


def table_of(cls: Any) -> dict[str, Setting]:
    """Return the settings of a class, by their names."""
    return {name: made for _, name, made in _settings(cls)}


def read_fields(cls: Any, properties: Mapping[str, object], nothing: str = NOTHING, prefix: str = "") -> dict[str, Any]:
    """Return the value of each field that is a setting, by its attribute. Raises what :func:`read_settings` raises."""
    values = read_settings(table_of(cls), properties, nothing, prefix)
    return {attribute: values[name] for attribute, name, _ in _settings(cls)}
