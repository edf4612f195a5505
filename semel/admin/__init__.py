"""Operators' commands. They need no owner of a transactional id. Each command has a module, named as in ``semel.cli``.

===================  =================================================================================================
``doctor``           ``semel doctor``: checks of what the cluster would refuse, without writing
``check``            a finding of the doctor
``doctor_brokers``   the doctor's checks of the brokers
``txn``              ``semel txn list, describe, abort, commit``: open transactions, and their waiting readers
``txn_heal``         ``semel txn heal``: a lost marker, written by an operator
``progress``         ``semel progress list, describe``: the newest committed progress of every prefix
``progress_reset``   ``semel progress reset``: progress forgotten, or set to other offsets
``progress_import``  ``semel progress import``: the checkpoint of Spark's own source, as progress
``progress_rename``  ``semel progress rename``: the progress of a prefix, moved to another
``lag``              lags of queries and readers, in offsets
``verify``           ``semel verify``: duplicates by id, and losses against a source
===================  =================================================================================================
"""
