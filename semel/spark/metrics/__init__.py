"""The numbers of the sinks of this process.

================  ====================================================================================================
``meter``         where they are counted, without a dependency
``listener``      beside Spark's own progress of the query
``collector``     for Prometheus, read when it scrapes
``cluster_poll``  what only the cluster knows: lag, and records held back by open transactions
================  ====================================================================================================
"""
