"""The writer that ``format("semel")`` hands to Spark: of a batch job, or of a stream by what this Spark calls."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import types as t
from pyspark.sql.datasource import DataSourceStreamWriter

from semel.errors import Unsupported
from semel.spark.jvm import versions
from semel.spark.writer.data_source_writer import BatchWriter
from semel.spark.writer.options import WriterOptions
from semel.spark.writer.plan import plan_job, plan_stream

__all__ = ["batch_writer", "stream_writer"]


def batch_writer(given: Mapping[str, str], schema: t.StructType, *, overwrite: bool) -> BatchWriter:
    """Return the writer of a batch job."""
    if overwrite:
        raise Unsupported(
            'mode("overwrite") cannot replace the records of a topic: Kafka only appends. Nothing was written. Use'
            ' mode("append").',
            tag="OVERWRITE",
        )
    options = WriterOptions.parse(given)
    return BatchWriter(options, schema, plan_job)


def stream_writer(given: Mapping[str, str], schema: t.StructType) -> DataSourceStreamWriter:
    """Return the writer of a stream, of the kind that this version of Spark calls."""
    options = WriterOptions.parse(given)
    options.for_stream()
    if versions.current().streams_arrow:
        from semel.spark.writer.arrow_stream import ArrowStreamWriter

        return ArrowStreamWriter(options, schema, plan_stream)
    from semel.spark.writer.row_stream import RowStreamWriter

    return RowStreamWriter(options, schema, plan_stream)
