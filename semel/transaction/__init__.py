"""Transactions that several processes write: one owner, any number of participants (DESIGN section 1).

====================  =================================================================================
``producer``          the owner of a transactional id; start here
``transaction``       one transaction of it: tickets, receipts, the order in which it ends
``participant``       whoever writes with a ticket, in any process
``ticket``            what travels between the two; which are out, and what came back of them
``given``             what callers name: refused where it names nothing
``outputs``           what a ticket says of the topics that are written
``retained``          whether their rows are still there, before a commit
``routing``           which partition a row goes to
``takeover``          fence, read, see markers: before the first transaction
``ending``            EndTxn, and what each answer means
``markers``           seen before the id is used again
``healing``           those that brokers have lost, written
``decision``          how a transaction had ended, by what it left behind
``group``             offsets of the consumer group: reserved, seen, and as progress says
``progress``          the record that says what a transaction did, and how it is settled
``progress_topic``    where that record is kept
``committed``         what it says, for somebody who does not own the id
``reset``             what it says, forgotten or set to other offsets by an operator
``standings``         how far everybody has come, for whoever is on call
``examination``       what a cluster would refuse, and why, before a query is started
``remedy``            the same, written by an operator
``lag``               how far a query is behind its sources, and readers behind what was written
``survey``            what stands open, who waits behind it, and its end by an operator
``ownership``         what the owner holds between requests; its threads, one at a time
``states``            where it stands, and the one table of moves
``naming``            transactional ids, parsed from the right
====================  =================================================================================
"""
