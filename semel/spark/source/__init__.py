"""The source: ``format("semel")``, batch and streaming.

================  ====================================================================================================
``readers``       what Spark calls: readers, partitions, offsets
``options``       its options: those of Spark's ``kafka`` source
``selection``     which topics and partitions are asked for
``stream``        where the batches of a streaming query start and end
``batch_ranges``  the arithmetic of batches: positions, limits, ranges
``topics``        what the cluster has of the topics that are read
``unsubscribed``  what was read, and the options no longer include: refused, or dropped
================  ====================================================================================================
"""
