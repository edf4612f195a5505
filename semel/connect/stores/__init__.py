"""The state of a worker in Kafka, in Kafka Connect's own formats.

===================  =================================================================================================
``offsets``          one offset for each source partition, read by a claim, in the form of ``serdes.connect_offsets``
``own_offsets``      a connector's own offsets topic, beside the worker's
``configs``          connectors, tasks and what they are wanted to be, written by the leader alone; ``config_format``
``statuses``         the state of each connector and task
``internal_topics``  makes and checks the topics
===================  =================================================================================================
"""
