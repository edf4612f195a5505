"""TCP proxy between clients and a broker, which loses, delays, repeats or cuts single requests and answers.

===============  =====================================================================================================
``fault_proxy``  its connections; ``FaultProxy``
``faults``       what it does to a request
``frames``       what it reads of requests
``addresses``    the addresses that it replaces in answers
===============  =====================================================================================================
"""
