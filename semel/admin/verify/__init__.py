"""Checks of ``semel verify``: each id is in a topic once, and all ids of its source are there.

=============  =======================================================================================================
``compare``    count the ids of both topics, and report what differs
``record_id``  the id of a record: its key, a header, or a field of its JSON value
``spill``      ids on disk, by their hash, so that memory stays bounded
=============  =======================================================================================================
"""
