"""Sessions: a member of a consumer group that reads, and writes in transactions with its positions (KIP-447).

==============  =======================================================================================================
``session``     ``Session``: batches of rows, commits, and what a rebalance does to them; start here
``reader``      the rows, from the group's offsets
``inputs``      rows that were read and not handed out, and which of them are next
``listener``    what an assignment means to those who keep something beside the rows
``producer``    the transactions, which keep no progress
``last_known``  how far partitions were read, and where they ended, for topics that are gone
``polls``       a warning about rows that take longer than the group waits
``expiry``      a warning about transactions that time out again and again
==============  =======================================================================================================
"""

from semel.transaction.session.listener import AssignmentListener
from semel.transaction.session.session import Session

__all__ = ["AssignmentListener", "Session"]
