"""JSON with a schema in a registry, as Confluent's ``JsonSchemaConverter`` writes Kafka Connect's data.

==========  ===========================================================================================================
``schema``  the JSON Schema for one of Kafka Connect
``reader``  the schema of Kafka Connect for a JSON Schema, and its values
``writer``  a schema and its writers, for a converter or a serde
==========  ===========================================================================================================
"""
