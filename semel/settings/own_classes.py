"""Classes of one's own: by their Python names (``package.module.Class``), or by the entry points of a package."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from semel.errors import ConfigError

__all__ = ["JAVA", "announced", "imported", "own_class", "path_of"]

T = TypeVar("T")
#: How names of Java's classes begin: no Python module is looked for.
JAVA = ("org.", "com.", "io.", "net.")


@cache
def announced(kind: str) -> dict[str, EntryPoint]:
    """Return what installed packages announce as ``semel.connect.<kind>``, by name."""
    return {one.name: one for one in entry_points(group=f"semel.connect.{kind}")}


def imported(path: str) -> Any:
    """Return what a path of Python names.

    Raises :class:`ImportError`, which says why, for all that goes wrong: a module runs when it is imported.
    """
    module, _, attribute = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as raised:
        raise ImportError(f"{type(raised).__name__}: {raised!s:.200}") from raised


def path_of(name: str, *kinds: str) -> str:
    """Return the path of a class that a package announces, or the name itself."""
    known = next((entry for kind in kinds if (entry := announced(kind).get(name)) is not None), None)
    return (name if known is None else known.value).replace(":", ".")


def own_class(name: str, base: type[T], kind: str) -> type[T] | None:
    """Return a subclass of ``base``; None if no such class can be there: the name has no module, and is not announced.

    Raises :class:`ConfigError` for one that cannot be imported, or is another class.
    """
    path = path_of(name, kind)
    if "." not in path:
        return None
    try:
        found = imported(path)
    except ImportError as error:
        raise ConfigError(
            f"{name:.200} cannot be imported ({error}). Nothing was read or written. Install it on the driver and on"
            " the executors, or send it with --py-files.",
            tag="PLUGIN_MISSING",
        ) from error
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ConfigError(
            f"{name:.200} is no subclass of semel.connect.{base.__name__}. Nothing was read or written. Name one.",
            tag="PLUGIN_MISSING",
        )
    return found
