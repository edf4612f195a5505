"""The topology of an application.

===============  =====================================================================================================
``node``         nodes, and sub-topologies of them
``topology``     collects nodes, and knows their names, their topics, and the sub-topologies that they form
``repartition``  topics between sub-topologies
``record_order`` nodes at which rows go one by one
``mermaid``      a flowchart of them
===============  =====================================================================================================
"""
