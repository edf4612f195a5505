"""``format("semel")`` as a sink: each task writes in a transaction of its own (DESIGN section 1, "task scope").

=====================  ===============================================================================================
``factory``            the writer of a batch job or a stream, by its options
``data_source_writer`` what Spark calls: the writers of a stream and of a batch job
``arrow_stream``       the writer of a stream whose tasks get Arrow batches
``row_stream``         the writer of a stream whose tasks get rows: Spark 4.0
``options``            its options: those of ``KafkaSink``, and the version of a job
``checkpoint``         the batch at hand, from the files of Spark's checkpoint
``plan``               before the tasks: take the prefix over, end what a predecessor decided, run or skip
``task``               in a task: write the rows, and prepare
``commit``             after the tasks: the decision, which is one commit of the owner, then the end of each part
=====================  ===============================================================================================

It uses nothing but Spark's public data source API, so it works through Spark Connect too. The progress record is
``KafkaSink``'s: a query may change from one to the other.
"""
