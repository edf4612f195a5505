"""The topology of an application.

===============  =====================================================================================================
``topology``     nodes, their names, and the sub-topologies that they form
``repartition``  topics between sub-topologies
``record_order`` nodes at which rows go one by one
``mermaid``      a flowchart of them
===============  =====================================================================================================
"""
