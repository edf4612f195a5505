"""Progress: what the transactions of a prefix have done, committed with their rows (PROTOCOL 1).

==========  ==========================================================================================================
``record``  the record, and how a log of records is settled by markers
``topic``   the topic that keeps it: created, checked, read, written
``reader``  the committed progress of an id that the reader does not own
==========  ==========================================================================================================
"""
