"""Markers: the end of a transaction on each partition (PROTOCOL 5).

===========  =========================================================================================================
``wait``     wait until they are seen, before the transactional id is used again
``heal``     write those that brokers have lost
``outcome``  commit or abort: how a transaction ended whose marker was lost
===========  =========================================================================================================

Only Kafka 4.3.0 to 4.4.0 lose markers (KAFKA-20734). ``heal`` and ``outcome`` can go when these releases are no longer
supported.
"""
