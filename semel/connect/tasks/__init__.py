"""A source task on its executor, from a poll to a transaction.

==================  ==================================================================================================
``loop``            the life of a task: take over, read offsets, start, poll, write
``boundaries``      where transactions end: after a poll, after an interval, or where the connector says
``rows``            what a poll gave, transformed and converted, and its offsets
``records``         records that came one by one: each is transformed and converted by itself
``dead_letters``    records that cannot be converted, as text
``outputs``         the topics that it writes to
``topic_creation``  topics that are made where they are missing (KIP-158)
``writers``         exactly once: records and offsets in one transaction; at least once: offsets now and then
==================  ==================================================================================================
"""
