"""``PostgresCdcSource``: changes of PostgreSQL's tables, from its log.

===============  =====================================================================================================
``connector``    the connector and its task: rows first, then the log
``settings``     Debezium's properties, and what is refused of them
``selection``    the tables and columns that are captured
``connection``   connections, and what their errors mean
``server``       what is checked on the server; publication and slot
``catalog``      questions to the catalog: tables, columns, keys, types
``snapshot``     rows of tables by their keys, from one state of the database
``overlap``      changes of the log that a snapshot had seen
``replication``  the stream of a slot
``pgoutput``     its messages
``changes``      changes as records, and the position after them
``position``     a position as an offset
``tables``       topic, key and envelope of a table
``types``        types of columns; ``text_values`` PostgreSQL's texts as values
``records``      envelopes, tombstones, heartbeats, transactions
===============  =====================================================================================================
"""
