"""A schema registry that speaks Confluent's API: where schemas of records live, and the ids that records carry.

============  =========================================================================================================
``settings``  what is said of a registry and of its schemas, by Confluent's names
``client``    the registry: a schema's id, an id's schema, the newest schema of a subject
``subjects``  the subject that a schema is registered under
``framing``   the bytes before a value: a zero, the id of its schema, and Protobuf's path of a message
``errors``    what the registry or its client raised, in a sentence
============  =========================================================================================================
"""
