"""``format("semel")``: Kafka topics as DataFrames, to read and to write, with the columns and options of Spark's
``kafka`` format (DESIGN section 3).

::

    source = spark.readStream.format("semel").option("kafka.bootstrap.servers", servers)
    orders = source.option("subscribe", "in").load()
    sink = orders.writeStream.format("semel").option("kafka.bootstrap.servers", servers).option("topic", "out")
    sink.option("transactionalIdPrefix", "orders-out").option("checkpointLocation", path).start()

Spark finds the format by :mod:`pyspark_semel`, and asks this class for what reads (:mod:`semel.spark.source`) and what
writes (:mod:`semel.spark.writer`). A process that reads does not import what writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as t
from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from semel.errors import ConfigError
from semel.spark.jvm import versions
from semel.spark.source.options import SourceOptions
from semel.spark.source.readers import BatchReader, StreamPlanner, columns

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter

__all__ = ["SemelDataSource"]


class SemelDataSource(DataSource):
    """The format, with the options that the user gave."""

    @classmethod
    def name(cls) -> str:
        """Return the name that ``format`` is given."""
        return "semel"

    def schema(self) -> t.StructType:
        """Return the columns of Spark's ``kafka`` source.

        All options are checked here, when the DataFrame is made, as far as that needs no cluster.
        """
        return columns(SourceOptions.parse(self.options, warn=True))

    def reader(self, schema: t.StructType) -> BatchReader:
        """Return the reader of a batch query."""
        return BatchReader(self._checked(schema))

    def streamReader(self, schema: t.StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        return versions.current().stream_reader(StreamPlanner(self._checked(schema)))

    def writer(self, schema: t.StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch job. Raises :class:`ConfigError` for wrong options or columns."""
        from semel.spark.writer.factory import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: t.StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a streaming query. Raises as :meth:`writer` does."""
        from semel.spark.writer.factory import stream_writer

        return stream_writer(self.options, schema)

    def _checked(self, schema: t.StructType) -> SourceOptions:
        options = SourceOptions.parse(self.options)
        if [(f.name, f.dataType) for f in schema] != [(f.name, f.dataType) for f in columns(options)]:
            raise ConfigError(
                "the columns of a Kafka source are fixed, and others were given with schema(). Nothing was read."
                " Remove it, and parse value in the DataFrame (from_json, from_avro).",
                tag="SCHEMA_GIVEN",
            )
        return options
