"""Protobuf with a schema in a registry, as Confluent's ``ProtobufConverter`` writes Kafka Connect's data.

============  =========================================================================================================
``schema``    the message of Protobuf for a struct of Kafka Connect
``text``      a message as the text of a ``.proto`` file
``value``     a struct as a message
``compiled``  the messages of a schema of a registry
``reader``    a message as a struct of Kafka Connect
``writer``    a schema and its writers, for a converter or a serde
============  =========================================================================================================
"""
