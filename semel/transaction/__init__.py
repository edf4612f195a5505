"""Transactions that several processes write: one owner, any number of participants (DESIGN section 1).

====================  ================================================================================================
``producer``          the owner of a transactional id; start here
``transaction``       one transaction: what is added, who may write, what came back
``participant``       a writer with a ticket, in any process
``partitions``        the partitions of a transaction: checked, and added by the owner or by a writer
``local_writer``      rows that the owner writes itself: only partitions with rows are added
``ticket``            what travels between the two; which tickets are out, and what came back
``validation``        checks of the partitions and offsets that a caller gives
``output_topics``     id, partitions and max.message.bytes of the topics that are written
``data_loss``         a check before the commit: the rows of the transaction are still there
``routing``           the partition of each row
``takeover``          fence, read progress, wait for markers: before the first transaction
``end_txn``           EndTxn, and what each answer means
``late_markers``      before 4.2: the epoch that is skipped, so that a late marker ends nothing
``enlisted``          prepared transactions for which a transaction decides
``clusters``          the clusters of one decision: the owner's, and others with prepared transactions
``hand_over``         an owner's identity, handed to the process that commits
``positions``         where positions live: progress records, or a group's offsets
``group_offsets``     offsets of the consumer group: reserved, settled, and as progress says
``ownership``         what the owner holds between requests, and its lock
``states``            the states of an owner, and the one table of moves
``transactional_id``  transactional ids, parsed from the right
``connect_tasks``     the ids of Kafka Connect's source tasks
``markers``           the end of a transaction on each partition: waited for, and written where brokers lost it
``progress``          the record that says what a transaction did, and the topic that keeps it
``two_phase``         prepared transactions: rows first, then a decision of the caller's, then the end
``session``           a member of a consumer group, whose transactions keep no progress
====================  ================================================================================================
"""
