"""Fixtures for all tests, the path of Spark's Python workers, and the order of the files.

Spark's Java is started by the first test that needs it and stays for the process: what its workers shall find must be on the path before that.
"""

import os
from itertools import chain, groupby, zip_longest
from pathlib import Path

import pytest

pytest_plugins = ["semel.testing.fixtures", "tests.spark.session"]

_ROOT = Path(__file__).parents[1]
_PATHS = [str(_ROOT), str(_ROOT / "tests" / "spark" / "beside"), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _PATHS))

#: Folders whose tests wait for a broker more than they compute, unlike those on Spark.
_WAITING = {"crash", "kafka"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let files that wait take turns with the others, from the first one on: while one process waits, another has both cores."""
    files = [list(tests) for _, tests in groupby(items, lambda item: item.path)]
    waiting = [tests for tests in files if tests[0].path.parent.name in _WAITING]
    others = [tests for tests in files if tests[0].path.parent.name not in _WAITING]
    items[:] = chain.from_iterable(chain.from_iterable(zip_longest(others, waiting, fillvalue=[])))
