"""Another package's data source, which Spark must find beside ours."""

from collections.abc import Iterator

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType


class Reader(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        yield ("here",)


class DefaultSource(DataSource):
    name = classmethod(lambda cls: "other")

    def schema(self) -> str:
        return "word string"

    def reader(self, schema: StructType) -> Reader:
        return Reader()
