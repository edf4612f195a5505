"""``semel progress``: ``commands`` lists, describes and resets; ``import_checkpoint`` takes over a checkpoint of
Spark's own source; ``rename`` moves a prefix.
"""
