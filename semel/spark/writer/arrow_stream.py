"""The writer of a stream whose tasks are handed Arrow batches: Spark 4.1 and newer."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from semel.spark.version_guard import Sealed
from semel.spark.writer.data_source_writer import PartMessage, StreamWriter
from semel.spark.writer.task import write_part

__all__ = ["ArrowStreamWriter"]


class SealedArrowStreamWriter(Sealed, DataSourceStreamArrowWriter):
    """The writer in a task."""

    what = "the plan of this sink"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartMessage:
        """Write the rows of one task."""
        return PartMessage.of(write_part(self.unpack(), iterator))


class ArrowStreamWriter(StreamWriter, DataSourceStreamArrowWriter):
    """The writer in the driver's processes."""

    def __reduce__(self) -> tuple[object, ...]:
        return SealedArrowStreamWriter, self.sealed()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Never called: tasks get the sealed writer."""
        raise NotImplementedError
