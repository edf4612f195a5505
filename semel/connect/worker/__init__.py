"""A Connect worker on the driver: it joins the group, and leads it or stands by.

============  ========================================================================================================
``worker``    checks the cluster, joins the group, starts a term when it leads
``group``     the workers of one ``group.id``: who should lead
``term``      all that only a leader has: stores, herder, lifecycle and REST put together
``leader``    who may write what is stored of a group
============  ========================================================================================================
"""
