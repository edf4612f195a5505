"""Values to bytes, a column at a time, by the rules of Kafka Connect's converters.

=========  ==========================================================
``plain``  text and bytes, as they are
``json``   JSON, with its schema or without
=========  ==========================================================
"""

from __future__ import annotations

from semel.connect.converters.plain import BYTES, STRING, WITHOUT_EFFECT, Converter, check_plain

__all__ = ["BYTES", "STRING", "WITHOUT_EFFECT", "Converter", "check_plain"]
