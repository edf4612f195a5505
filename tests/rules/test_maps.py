"""The docstring of a package is its map: each of its modules is named there."""

from __future__ import annotations

import importlib
import pkgutil
import re

import pytest

import semel

PACKAGES = [found.name for found in pkgutil.walk_packages(semel.__path__, "semel.") if found.ispkg]


def unnamed(modules: list[str], text: str) -> list[str]:
    """The modules that ``text`` does not name, between two backquotes or by ``:mod:``."""
    return [
        name for name in modules if name != "__main__" and not re.search(rf"``{name}``|:mod:`[a-z.]*\.{name}`", text)
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_each_module_is_named(package: str) -> None:
    loaded = importlib.import_module(package)
    assert unnamed([found.name for found in pkgutil.iter_modules(loaded.__path__)], loaded.__doc__ or "") == []


def test_the_packages_are_found() -> None:
    assert {"semel.records", "semel.spark", "semel.testing", "semel.transaction", "semel.wire"} <= set(PACKAGES)


def test_a_module_that_is_missing_is_seen() -> None:
    assert unnamed(["one", "two", "three", "__main__"], "``one`` and :mod:`.three`, and two") == ["two"]
