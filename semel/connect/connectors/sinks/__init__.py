"""The sink connectors that semel brings.

- ``file``: ``FileStreamSink``, values as lines of one file, at least once.
- ``sql``: ``SqlSink``, rows of a database, exactly once. ``sql_offsets`` keeps its offsets and claims in the database,
  ``sql_table`` finds, makes and extends tables, ``sql_columns`` makes columns of records.
- ``buffered``: what the next ones have in common: records are kept until there are enough.
- ``files``: ``FileSink``, files of JSON lines, CSV or Parquet, exactly once. ``file_formats`` makes a file's bytes.
  ``places`` says where files are and who may write them: ``folder`` on a file system, ``bucket`` on S3, by
  ``objects``.
- ``delta``: ``DeltaSink``, rows of tables of Delta Lake, exactly once.
- ``iceberg``: ``IcebergSink``, rows of tables of Iceberg, exactly once. ``iceberg_offsets`` are the offsets in its
  snapshots, ``iceberg_catalog`` is the catalog of the tables.
- ``tables``: what these two have in common; ``table_rows`` makes rows of records.
- ``refused_records``: which record was refused.
"""
