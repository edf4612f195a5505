"""Protobuf with a schema in a registry, as Confluent's ``ProtobufConverter`` writes Kafka Connect's data.

==========  ===========================================================================================================
``schema``  the message of Protobuf for a struct of Kafka Connect
``text``    a message as the text of a ``.proto`` file
``value``   a struct as a message
``writer``  a schema and its writers, for a converter or a serde
==========  ===========================================================================================================
"""
