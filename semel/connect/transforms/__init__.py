"""Records changed, routed or left out on their way: Kafka Connect's transformations, of tables and of single records.

==============  ======================================================================================================
``chain``       what a connector was told of them, applied in order
``base``        what a transformation is
``columns``     keys or values of a table; ``record`` those of one record
``envelopes``   ExtractNewRecordState
``fields``      InsertField, ReplaceField, MaskField, ExtractField, Flatten, ValueToKey, HoistField
``headers``     InsertHeader, DropHeaders, HeaderFrom
``routing``     RegexRouter, Filter
``schemas``     Cast, SetSchemaMetadata
``timestamps``  TimestampConverter, TimestampRouter
``predicates``  which records: TopicNameMatches, RecordIsTombstone, HasHeaderKey
==============  ======================================================================================================
"""

from __future__ import annotations

from semel.connect.transforms.base import Transform
from semel.connect.transforms.chain import PREDICATES, TRANSFORMS, Chain, read_chain
from semel.connect.transforms.predicates import Predicate
from semel.connect.transforms.record import Data, Record

__all__ = ["PREDICATES", "TRANSFORMS", "Chain", "Data", "Predicate", "Record", "Transform", "read_chain"]
