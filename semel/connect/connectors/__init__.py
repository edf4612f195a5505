"""The connectors that semel brings.

==============  ======================================================================================================
``file``        ``FileStreamSource``: the lines of one file
``files``       ``FilesSource``: lines, JSON or CSV of all files that a pattern matches
``sql``         ``SqlSource``: rows of a database; ``sql_tables`` has its statements and how far they may read,
                ``sql_rows`` their values, ``sql_checks`` what is checked before
``singer``      ``SingerSource``: records of a Singer tap; ``singer_tap`` is its process,
                ``singer_schema`` the schemas of its streams
``postgres``    ``PostgresCdcSource``: changes of a database, from its log
``datagen``     ``DatagenSource``: numbered records
``sinks``       the connectors that write to a target
==============  ======================================================================================================
"""
