"""Avro, as Confluent's ``AvroConverter`` writes and reads Kafka Connect's data.

==================  ===================================================================================================
``options``         the options of Confluent's ``AvroData``
``names``           names as Avro takes them
``nodes``           a schema of Avro as a tree, and its text as Avro's Java library writes it
``schema``          the schema of Avro for one of Kafka Connect
``defaults``        defaults of Kafka Connect's schemas in Avro's JSON
``value``           one value as Avro's, which fastavro writes
``column``          a column of values as Avro's bytes
``writer``          a schema and its writers, for a converter or a serde
``reader``          bytes as Python's values, by the schema that wrote them
``connect_reader``  bytes as Kafka Connect's values and schemas
==================  ===================================================================================================
"""
