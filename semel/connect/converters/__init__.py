"""Values to bytes, a column at a time, by the rules of Kafka Connect's converters.

=============  =======================================================================================================
``plain``      ``StringConverter`` and ``ByteArrayConverter``
``json``       JSON, with its schema or without
``numbers``    ``LongConverter``, ``IntegerConverter`` and the others of one kind of number
``java_text``  what Java's ``toString`` gives
``nested``     lists, and columns of several chunks
=============  =======================================================================================================
"""

from __future__ import annotations

from semel.connect.converters.numbers import NUMBERS
from semel.connect.converters.plain import BYTES, STRING, WITHOUT_EFFECT, Converter, check_plain

__all__ = ["BYTES", "NUMBERS", "STRING", "WITHOUT_EFFECT", "Converter", "check_plain"]
