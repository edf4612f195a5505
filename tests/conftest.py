"""Fixtures for all tests, the path of Spark's Python workers, and the order of the files.

Spark's Java is started by the first test that needs it and stays for the process: what its workers shall find must be
on the path before that.
"""

import os
from itertools import chain, groupby, zip_longest
from math import ceil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from semel.settings import unused

pytest_plugins = [
    "semel.testing.fixtures",
    "tests.support.broker_fixtures",
    "tests.support.crash_fixtures",
    "tests.spark.support.session",
]

_ROOT = Path(__file__).parents[1]
_PATHS = [str(_ROOT), str(_ROOT / "tests" / "spark" / "beside"), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _PATHS))

# How fast examples are made says how loaded the machine is, and nothing of the product.
settings.register_profile("semel", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("semel")

_ON_SPARK = ("spark", "mirror", "connect", "storm")
_LONGEST = [
    "test_proof",
    "test_proof_of_jobs",
    "test_storm",
    "test_driver_steps",
    "test_kills",
    "test_sink_kills",
    "test_stateful",
    "test_examples",
    "test_precedence_rows",
    "test_executor_steps",
    "test_bench",
]


@pytest.fixture(autouse=True)
def nothing_named_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test hear the warnings that come once in a process."""
    monkeypatch.setattr(unused, "_warned", set())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Spread the files on Spark over the others, the longest first: Spark keeps both cores busy, and most of the others
    wait for a broker.
    """
    files = [list(tests) for _, tests in groupby(items, lambda item: item.path)]
    on_spark = [tests for tests in files if _product(tests) in _ON_SPARK and not _is_unit(tests)]
    spark = sorted(
        on_spark, key=lambda tests: _LONGEST.index(name) if (name := tests[0].path.stem) in _LONGEST else len(_LONGEST)
    )
    objections = [tests for tests in files if _product(tests) == "objections"]
    brokers = [tests for tests in files if tests not in [*spark, *objections] and not _is_unit(tests)]
    others = [tests for tests in chain.from_iterable(zip_longest(objections, brokers)) if tests is not None]
    others += [tests for tests in files if tests not in spark and tests not in others]
    share = ceil(len(others) / len(spark)) if spark else len(others)
    shares = [others[first : first + share] for first in range(0, len(others), share)] if others else []
    turns = zip_longest(spark, shares)
    items[:] = [test for tests, among in turns for file in [tests or [], *(among or [])] for test in file]


def _product(tests: list[pytest.Item]) -> str:
    return tests[0].path.relative_to(_ROOT / "tests").parts[0]


def _is_unit(tests: list[pytest.Item]) -> bool:
    return "unit" in tests[0].path.parts or _product(tests) in ("rules", "fuzz")
