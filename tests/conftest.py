"""Fixtures for all tests, and the path of Spark's Python workers.

Spark's Java is started by the first test that needs it and stays for the process: what its workers shall find must be on the path before that.
"""

import os
from pathlib import Path

pytest_plugins = ["semel.testing.fixtures", "tests.spark.session"]

_ROOT = Path(__file__).parents[1]
_PATHS = [str(_ROOT), str(_ROOT / "tests" / "spark" / "beside"), os.environ.get("PYTHONPATH", "")]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _PATHS))
