"""The topology of an application.

===============  =====================================================================================================
``topology``     nodes, their names, and the sub-topologies that they form
``repartition``  topics between sub-topologies
``mermaid``      a flowchart of them
===============  =====================================================================================================
"""
