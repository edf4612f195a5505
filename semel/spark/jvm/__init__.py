"""The only modules that touch Spark's JVM: every use of what Spark does not promise, pinned by one test.

===================  =================================================================================================
``streaming_query``  the query behind a callback: its plan, its offset log, its settings
``status_store``     jobs and stages, as Spark's status store keeps them
``application``      the Java objects that live as long as the application, each asked for once
``offset_log``       the text of an entry of Spark's offset log
``context``          the SparkContext of this process, and its Java
``lineage``          the RDDs and columns that a DataFrame is made of
``plan_size``        how much a plan may give, by what Spark knows without running it
``python_stage``     ``mapInArrow`` in few calls of Java
``values``           what they return, as plain values
``versions``         what differs between Spark's minor versions
===================  =================================================================================================
"""
