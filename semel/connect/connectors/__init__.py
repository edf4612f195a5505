"""The connectors that semel brings.

==============  ======================================================================================================
``file``        ``FileStreamSource``: the lines of one file
``files``       ``FilesSource``: lines, JSON or CSV of all files that a pattern matches
``sql``         ``SqlSource``: rows of a database; ``sql_tables`` has its statements and how far they may read
``datagen``     ``DatagenSource``: numbered records
==============  ======================================================================================================
"""
