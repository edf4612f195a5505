"""Register ``format("semel")`` with Spark, on the driver and on executors.

Spark imports every top-level module whose name starts with ``pyspark_`` and registers its ``DefaultSource``. An import
that fails there makes the data sources of all other packages disappear too, so this one imports nothing of semel: what
is wrong with an installation shows when the format is used, and there with its cause. Without PySpark, or with one that
has no Python data sources, there is no ``DefaultSource`` and no error.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

__all__ = ["DefaultSource"]

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
except Exception:  # a broken PySpark may raise anything, and other packages must not pay for it
    __all__.clear()
else:
    if TYPE_CHECKING:
        from pyspark.sql.types import StructType

        from semel.spark.data_source import SemelDataSource

    class DefaultSource(DataSource):
        """``format("semel")``: see :class:`semel.spark.data_source.SemelDataSource`, which does the work."""

        @classmethod
        def name(cls) -> str:
            """Return the name that ``format`` is given."""
            return "semel"

        def _source(self) -> SemelDataSource:
            try:
                from semel.spark.data_source import SemelDataSource
            except ModuleNotFoundError as missing:
                raise ImportError(
                    f"[SEMEL_WRONG_PYTHON] Spark runs its Python workers with {sys.executable}, which has no"
                    f" {missing.name}. Nothing was read. Activate the environment that semel is installed in, or set"
                    " PYSPARK_PYTHON to its python, before the session starts."
                ) from missing
            return SemelDataSource(self.options)

        def schema(self) -> StructType:
            """Return the columns."""
            return self._source().schema()

        def reader(self, schema: StructType) -> DataSourceReader:
            """Return the reader of a batch query."""
            return self._source().reader(schema)

        def streamReader(self, schema: StructType) -> DataSourceStreamReader:
            """Return the reader of a streaming query."""
            return self._source().streamReader(schema)

        def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
            """Refused, naming what to use instead."""
            return self._source().writer(schema, overwrite)

        def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
            """Refused, naming what to use instead."""
            return self._source().streamWriter(schema, overwrite)
