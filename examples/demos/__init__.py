"""Demos beside ``semel demo``, each of them a `make` target: kills under load, and records that are counted.

=============  ====================================================
``connect``    ``make connect-demo``, with ``lake`` and ``worker``
``mirror``     ``make mirror-demo``
``streams``    ``make streams-demo``, with ``views``
``two_phase``  ``make twophase-demo``, with ``shop``
=============  ====================================================
"""
