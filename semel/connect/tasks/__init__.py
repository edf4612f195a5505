"""A source task on its executor, from a poll to a transaction.

============  ========================================================================================================
``loop``      the life of a task: take over, read offsets, start, poll, write
``rows``      what a poll gave, as tables of bytes and as offsets
``writers``   exactly once: records and offsets in one transaction; at least once: offsets now and then
============  ========================================================================================================
"""
