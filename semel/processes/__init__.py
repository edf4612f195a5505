"""Long-running processes on Spark executors: started, watched, and started again. The package knows nothing of its
users.

==============  ======================================================================================================
``launcher``    a Spark job of one partition for each process; the session that runs them
``channel``     the driver's side of the messages between driver and processes
``supervisor``  launches processes, and launches lost ones again
``process``     the side on the executor
==============  ======================================================================================================

A process is a function ``entry(process)``, named ``module:function``. It connects to the driver with the token of its
launch, and gets its settings there: Spark sees an address and a token, never a configuration or a password. The channel
is not encrypted, like Spark's own by default: run it in a network that you trust.

Not promised: that a process of an earlier launch has ended when the next one begins. A caller that needs this must
fence it.
"""
