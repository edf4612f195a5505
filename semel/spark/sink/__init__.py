"""The sink: each micro-batch, or one batch job, in one Kafka transaction (batch scope).

=====================  ===============================================================================================
``kafka_sink``         ``KafkaSink``: what ``foreachBatch`` calls, and batch jobs
``foreach_batch``      the life cycle of such a call, for every sink
``micro_batch``        the query and the batch behind a call, in positions of its sources
``reconcile``          checkpoint against progress: run, skip, rebuild or refuse (PROTOCOL 6)
``differences``        what keeps it from continuing from the progress
``progress_mismatch``  what a refusal says, and the ways out
``batch_writer``       one DataFrame in one transaction
``columns``            the columns that are written
``job_version``        the version of a batch job: due, done before, or too low
``encode_stage``       rows to record batches, before the shuffle
``write_stage``        the tasks that write with tickets
``options``            its options
=====================  ===============================================================================================
"""
