"""A Spark that starts quickly, with executors in processes of their own.

=================  ===================================================================================================
``spark_cluster``  ``SparkCluster``: driver programs under a crash plan
``spark_home``     Spark's classes, parsed once
``warm_up``        the query whose classes these are
``fork_server``    Python processes that are forked with their imports done
``fork_client``    the Python that requests such a fork
``daemon``         PySpark's daemon of workers, with their imports done
=================  ===================================================================================================
"""
