"""The words that a topology is built of, with Kafka Streams' names: each adds nodes and returns what comes out of them.

- ``stream``: a stream; ``stateless_words``: its words that need no state; ``grouped``: its groups, to be
  aggregated; ``cogrouped``: groups of several streams; ``aggregated``: what both come to; ``table``: a table.
- ``grouped_table``: groups of a table's values; ``table_joins``: joins of two tables; ``foreign_join``: by a
  foreign key.
- ``suppressed``: how long updates wait.
- ``global_table``: a table that each worker has whole.
- ``joins``: a stream joined with a table, or with another stream.
- ``refused``: words that are not there yet.
"""
