"""The sink connectors that semel brings.

- ``file``: ``FileStreamSink``, values as lines of one file, at least once.
"""
