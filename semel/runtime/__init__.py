"""Long-running processes on Spark executors: started, watched, and started again. It knows nothing of who uses it.

==============  ======================================================================================================
``launcher``    a Spark job of one partition for each process; the session that runs them
``channel``     the driver's side of what driver and processes say to each other
``supervisor``  what runs where; what fails or falls silent is launched again
``process``     the side on the executor
==============  ======================================================================================================

A process is a function ``entry(process)``, named ``module:function``. It connects to the driver with the token of its
launch and is given its settings there: Spark sees an address and a token, never a configuration or a password. The
channel is not encrypted, as Spark's own is not by default: run it in a network that you trust.

Not promised: that a process of an earlier launch has ended when the next one begins. Whoever must know fences it.
"""
