"""The topology of an application.

===============  =====================================================================================================
``topology``     nodes, their names, and the sub-topologies that they form
``repartition``  topics between sub-topologies
``drawing``      a picture of them
===============  =====================================================================================================
"""
