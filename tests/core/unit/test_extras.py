"""A package that is missing is named with the way to install it."""

from __future__ import annotations

import importlib

import pytest

from semel.errors import ConfigError
from semel.extras import needs_extras


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ConfigError) as raised, needs_extras("the mirror", "spark,streams", "Nothing was copied."):
        importlib.import_module("no_such_package")
    assert raised.value.tag == "MISSING_EXTRA"
    assert raised.value.message == (
        "the mirror needs no_such_package, which is not installed. Nothing was copied. Run, in semel's checkout: pip"
        " install '.[spark,streams]'"
    )
