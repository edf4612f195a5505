"""Records changed, routed or left out on their way: Kafka Connect's transformations, a table at a time.

==============  ======================================================================================================
``chain``       what a connector was told of them, applied in order
``base``        what a transformation is
``fields``      InsertField, ReplaceField, MaskField, ExtractField, ValueToKey, HoistField
``routing``     RegexRouter, Filter
``timestamps``  TimestampConverter
``predicates``  which records: TopicNameMatches, RecordIsTombstone, HasHeaderKey
==============  ======================================================================================================
"""

from __future__ import annotations

from semel.connect.transforms.chain import PREDICATES, TRANSFORMS, Chain, read_chain

__all__ = ["PREDICATES", "TRANSFORMS", "Chain", "read_chain"]
