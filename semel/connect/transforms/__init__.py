"""Records changed, routed or left out on their way: Kafka Connect's transformations, of tables and of single records.

==============  ======================================================================================================
``chain``       what a connector was told of them, applied in order
``base``        what a transformation is
``columns``     keys or values of a table; ``record`` those of one record
``envelopes``   ExtractNewRecordState
``fields``      InsertField, ReplaceField, MaskField, ExtractField, ValueToKey, HoistField
``routing``     RegexRouter, Filter
``timestamps``  TimestampConverter
``predicates``  which records: TopicNameMatches, RecordIsTombstone, HasHeaderKey
==============  ======================================================================================================
"""

from __future__ import annotations

from semel.connect.transforms.chain import PREDICATES, TRANSFORMS, Chain, read_chain

__all__ = ["PREDICATES", "TRANSFORMS", "Chain", "read_chain"]
