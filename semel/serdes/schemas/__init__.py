"""Kafka Connect's data model: what a value is, said by its schema and by nothing else.

==============  ======================================================================================================
``schema``      schemas and their fields
``struct``      structures, and values checked by their schema
``arrow``       the schema that a field of Arrow stands for, and the reverse
``runs``        values with schemas as columns of Arrow
``json_form``   schemas and values read from the JSON that ``JsonConverter`` writes
==============  ======================================================================================================

A value without a schema is what it is in Python: nothing is inferred for it.
"""

from __future__ import annotations

from semel.serdes.schemas.schema import Field, Schema, Type
from semel.serdes.schemas.struct import Struct

__all__ = ["Field", "Schema", "Struct", "Type"]
