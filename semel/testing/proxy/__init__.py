"""TCP proxy between clients and a broker, which loses, delays, repeats or cuts single requests and answers.

===============  =====================================================================================================
``fault_proxy``  its connections; ``FaultProxy``
``faults``       its effects on a request
``frames``       the parts of requests that it reads
``addresses``    the addresses that it replaces in answers
===============  =====================================================================================================
"""
