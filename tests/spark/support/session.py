"""One Spark in the test process, for tests that kill no driver: the fixture ``spark``, and ``setting`` for its
settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from semel.testing.spark import fork_server
from semel.testing.spark.spark_cluster import LOCAL, conf
from semel.testing.spark.spark_home import spark_home

#: Of stages Spark keeps a thousand by default, and fewer here: tests that have it forget some need not run as many.
KEPT_STAGES = 200

if TYPE_CHECKING:  # tests without Spark need not wait for its import
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def _application() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_HOME", str(spark_home()))
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", fork_server.python())
        builder = SparkSession.builder.master(LOCAL).appName("tests")
        for name, value in {**conf(), "spark.ui.retainedStages": str(KEPT_STAGES)}.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="module")
def spark(_application: SparkSession) -> SparkSession:
    """Return a session of this module, with its own settings. The application is shared."""
    return _application.newSession()


@pytest.fixture
def setting(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Yield a function that changes settings of the module's session for one test."""
    names: list[str] = []

    def put(name: str, value: str) -> None:
        names.append(name)
        spark.conf.set(name, value)

    yield put
    for name in names:
        spark.conf.unset(name)
