"""Progress: what the transactions of a prefix have done, committed with their rows (PROTOCOL 1).

============  ========================================================================================================
``record``    the form of a record
``log``       which records of a log count, as markers say
``settings``  what the topic must be set to
``topic``     the topic that keeps it: created, checked, read, written
``reader``    what others see: the committed progress of an id, and which topics keep progress
============  ========================================================================================================
"""
