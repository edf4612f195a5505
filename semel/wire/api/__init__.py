"""Families of requests, a file for each.

=========================  ===========================================================================================
``produce``                record batches to partitions, pipelined
``fetch``                  record batches from partitions
``fetch_frames``           the bytes of its requests and answers
``offsets``                offsets of partitions and of consumer groups
``groups``                 consumer groups from outside: names, all offsets of one, commits to an idle one
``membership``             membership in a group: join, share out, heartbeat, leave
``transactions``           identities, partitions, offsets, ends
``describe_transactions``  descriptions by coordinators and leaders; markers that an operator writes
``two_phase``              InitProducerId for an id that may hold a prepared transaction, sent once
``topics``                 create, grow and describe topics, read and alter configurations
``acls``                   access rights of topics: list and create
``authorized_operations``  the operations that the caller may do, without writing (KIP-430)
``cluster_clock``          the cluster's time, compared with this machine's
=========================  ===========================================================================================
"""
