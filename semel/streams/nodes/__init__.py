"""The work of a topology's nodes: Arrow batches in, Arrow batches out.

- ``sources``: the types and the timestamps of what is read.
- ``stateless``: functions, filters, keys, branches, and what a sink writes.
- ``stateful``: aggregations, tables, joins of a stream with a table.
- ``stream_time``: the stream time at each row, by which windows tell late rows.
- ``stream_join``: joins of two streams; ``waiting``: their records without a partner.
- ``versioned``: versioned tables; ``global_join``: joins of a stream with a global table.
- ``keyed_windows``: aggregations in sessions and sliding windows; ``closing``: which ones have closed.
- ``tables``: tables that are made of other tables.
- ``suppress``: updates of a table that wait.
- ``folds``: what an aggregation keeps, and how rows change it; ``function_fold``: by a function;
  ``cogroup``: by the functions of several streams.
- ``packing``: the values of repartition topics before an aggregation.
"""
