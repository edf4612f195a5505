"""A Spark job of tickets: each task writes with its ticket into one transaction, and hands back a receipt.

=========  ===========================================================================================================
``task``   in the task: its participant, and what it answers instead of failing
``run``    on the driver: the job's time, Spark's errors, the receipts of its tasks
``proof``  the proof that each task wrote once, and that nothing before was computed twice
=========  ===========================================================================================================

The sink and the mirror run such jobs. A task answers where others raise: Spark starts a failed task again, and a second
attempt may not write into a shared transaction (DESIGN rule 2).
"""
