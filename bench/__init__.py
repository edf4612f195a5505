"""semel beside what Spark and Kafka bring themselves, on one machine, in one run: ``make bench`` (DESIGN section 7).

``__main__``
    the command: what is measured, in which order, and what becomes of the figures
``rig``
    one broker and one Spark with the flags of production, fresh topics, and the count of what arrived in them
``rounds``
    runs contenders in turn, A B, B A, A B, after one uncounted round
``figures``
    a comparison: the ratio of each pair, its median and range, target and aim
``sinks``, ``sources``, ``micro_batches``, ``whole_batches``, ``recovery``, ``outbox``, ``streams``,
``streams_latency``, ``mirror``, ``connect``
    the workloads
``streams_apps``
    the count that streams and Kafka Streams run; that of Kafka Streams is ``Count.java``
``latency``
    records at a steady rate, how long they take, and the comparison of two
``pipeline``
    the driver program that ``recovery`` kills
``programs``
    what runs beside a measurement: a program, or a thread
``perf_tool``
    Kafka's own producer performance tool
``connector``
    fetches Spark's Kafka connector for the JVM, which semel itself never needs
``timeline``, ``trace``, ``spark_events``, ``processes``, ``timeline_picture``
    ``make timeline``: where the time of a micro-batch and of a write goes, stage by stage
``machine``, ``report``, ``plot``
    where it was measured, and the tables and the picture in ``docs/benchmarks.md``

Nothing here asserts a time. A run whose rows did not all arrive raises.
"""
