"""One file for each family of requests.

=========================  ===========================================================================================
``produce``                record batches to partitions, pipelined
``fetch``                  record batches from partitions
``offsets``                offsets of partitions and of consumer groups
``groups``                 consumer groups from outside: which there are, all offsets of one, offsets for an idle one
``membership``             being in a group: join, share out, heartbeat, leave
``transactions``           identities, partitions, offsets, ends
``describe_transactions``  what coordinators and leaders say of transactions; markers that an operator writes
``two_phase``              InitProducerId for an id that may hold a prepared transaction, sent once
``topics``                 create, grow and describe topics, read and alter configurations
``authorized_operations``  what the caller may do, asked without writing (KIP-430)
``cluster_clock``          the cluster's time against ours
=========================  ===========================================================================================
"""
