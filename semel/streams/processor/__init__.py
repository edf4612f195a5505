"""Kafka Streams' Processor API.

- ``processor``: a class of your own that works on single records, and what it is given.
- ``stores``: the stores of processors, as they see them. The stores of tasks are in :mod:`semel.streams.state`.
"""
