"""Values to bytes and back, a column at a time or one by one: below the products, and the same for all of them.

===================  =================================================================================================
``schemas``          Kafka Connect's data model: schemas, structures, and what they are in Arrow
``registry``         a schema registry: ids of schemas, subjects, and the bytes before a value
``avro``             Avro as Confluent's converter writes it; so does ``json_schema`` JSON, and ``protobuf`` Protobuf
``serde``            serdes by their names, as streams have them
``registry_serde``   serdes with a registry, for single values
``text``             text and bytes
``numbers``          numbers and booleans, the highest byte first
``json``             JSON as Kafka Connect writes it, and its schema; ``json_value`` writes one value
``json_read``        JSON as Kafka Connect reads it, neighbours of one schema as one column
``java_text``        what Java's ``toString`` gives; ``java_value`` gives it for one value
``jackson``          single values as JSON, as Kafka Connect's library writes it
``columns``          lists, columns of several chunks, and what a column's values are
``connect_offsets``  the records of Kafka Connect's offsets topic
``unfit``            errors for values that a serde does not write
===================  =================================================================================================
"""
