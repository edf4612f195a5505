"""A sink's task on its executor, from the records of its group's partitions to the target.

================  ====================================================================================================
``loop``          the life of a task: join the group, open, put, flush, commit the offsets
``reader``        the member of the group: what it reads, from where, and the commit of its offsets
``batches``       records as they were read, converted and transformed, with bad ones left out where that is tolerated
``dead_letters``  records that are left out, as they were read, in the dead-letter topic
================  ====================================================================================================
"""
