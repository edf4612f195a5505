"""A source task on its executor, from a poll to a transaction.

================  ====================================================================================================
``loop``          the life of a task: take over, read offsets, start, poll, write
``boundaries``    where transactions end: behind a poll, behind an interval, or where the connector says
``rows``          what a poll gave, transformed and converted, and its offsets
``dead_letters``  records that cannot be converted, as text
``outputs``       which partition each record goes to
``writers``       exactly once: records and offsets in one transaction; at least once: offsets now and then
================  ====================================================================================================
"""
