"""Two-phase commit: prepare, write one durable decision, end (DESIGN section 1, rule 13; FLIP-319, KIP-939).

==============  ======================================================================================================
``producer``    ``TwoPhaseProducer``: one transactional id of this process for each transaction; start here
``unit``        one transaction: rows, then :meth:`~semel.transaction.two_phase.unit.Unit.prepare`
``prepared``    ``Prepared``: what is written down with the decision, and all that is needed to end it
``completion``  commit or abort what is prepared, from any process, as often as needed
``recovery``    commit what was decided, abort the rest: the first call of the next start
``metrics``     what waits for a decision, and how long, for Prometheus
==============  ======================================================================================================
"""
