"""``semel txn``: ``commands`` lists and aborts; ``heal`` writes lost markers; ``prepared`` ends prepared transactions;
``show`` prints for all.
"""
