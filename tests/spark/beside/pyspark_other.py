"""Another package's data source, which Spark must find beside ours."""

from pyspark.sql.datasource import DataSource, DataSourceReader


class Reader(DataSourceReader):
    def read(self, partition):
        yield ("here",)


class DefaultSource(DataSource):
    name = classmethod(lambda cls: "other")

    def schema(self):
        return "word string"

    def reader(self, schema):
        return Reader()
