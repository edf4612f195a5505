"""The sink: each micro-batch, or one batch job, in one Kafka transaction (batch scope).

=====================  ===============================================================================================
``kafka_sink``         ``KafkaSink``: what ``foreachBatch`` calls
``options``            its options
``micro_batch``        the query and the batch behind a call
``prefix_registry``    the prefixes that live queries of this application use
``reconcile``          checkpoint against progress: run, skip, rebuild or refuse (PROTOCOL 6)
``planned_batch``      the batch in positions of its sources
``differences``        what keeps it from going on from the progress
``query_checks``       what is refused in a query before its first batch
``output_ids``         output topics that were created again since the batch before
``rebuild``            the state of a batch that is committed
``progress_mismatch``  what such a refusal says, and the ways out
``batch_writer``       one DataFrame in one transaction
``schema``             which columns are written
``placement``          which task writes which output partition
``encode_stage``       rows to record batches, before the shuffle
``shuffled_batches``   record batches as rows of Spark, on their way to the task that writes them
``write_stage``        tickets over a job, and receipts back
``stage_retries``      the proof that each row was computed once and written once
``job_timeout``        a job that outlives its transaction is cancelled
=====================  ===============================================================================================
"""
