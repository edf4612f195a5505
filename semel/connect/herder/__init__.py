"""The herder: what can be done with connectors, and what runs of it.

===================  =================================================================================================
``herder``           what can be done with connectors: it decides and writes it down
``lifecycle``        what runs, made equal to what is stored
``made_tasks``       the tasks that a connector makes of its configuration
``reports``          the states of tasks as their processes report them, and the answers to their questions
``fencing``          the fencing of all tasks before a new generation of them
``sink_offsets``     the offsets of sinks: those of their consumer groups
``connector_calls``  a connector's own code on the driver: it may block, and holds up nobody
``throughput``       how many records the tasks read, for the page and for metrics
===================  =================================================================================================
"""
