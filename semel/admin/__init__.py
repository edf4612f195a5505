"""What operators do. No owner of a transactional id is needed. One module for each command, named as in ``semel.cli``.

===================  =================================================================================================
``doctor``           ``semel doctor``: what the cluster would refuse, checked without writing
``check``            a finding of the doctor
``doctor_brokers``   its look at the brokers
``txn``              ``semel txn list, describe, abort, commit``: open transactions, and who waits for them
``txn_heal``         ``semel txn heal``: a lost marker, written by hand
``progress``         ``semel progress list, describe``: the newest committed progress of every prefix
``progress_reset``   ``semel progress reset``: progress forgotten, or set to other offsets
``progress_import``  ``semel progress import``: the checkpoint of Spark's own source, as progress
``progress_rename``  ``semel progress rename``: the progress of one prefix, given to another
``lag``              how far queries are behind their sources, and readers behind what was written
``verify``           ``semel verify``: duplicates by id, and losses against a source
===================  =================================================================================================
"""
