"""The connectors that semel brings, a file each: ``file`` is Kafka Connect's FileStreamSource."""
