"""The public names of ``semel.testing``: each is there, and costs nothing until it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from semel import testing

HEAVY = "{'pyspark', 'confluent_kafka', 'pyarrow', 'pytest'}"


def test_each_name_is_there_and_says_what_it_is() -> None:
    for name in testing.__all__:
        found = getattr(testing, name)
        assert isinstance(found, str) or found.__doc__, name


def test_each_name_has_a_home() -> None:
    assert sorted(name for names in testing._HOME.values() for name in names) == sorted(testing.__all__)


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="no attribute 'CrashPlane'"):
        _ = testing.CrashPlane


def test_the_package_alone_imports_nothing() -> None:
    code = f"import sys, semel.testing; print(sorted({HEAVY} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
