"""Numbers for Prometheus: one server, and a collector for each product, beside what it counts.

============  ========================================================================================================
``families``  a product's table of metrics, and the collector that shows their values at a scrape
``server``    the HTTP endpoint
============  ========================================================================================================

Both need the package ``prometheus-client``, which only the extra ``metrics`` brings: it is imported when it is used.
"""
