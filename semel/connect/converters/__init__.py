"""Values to bytes, a column at a time, by the rules of Kafka Connect's converters.

=========  ==========================================================
``plain``  text and bytes, as they are
``json``   JSON, with its schema or without
=========  ==========================================================
"""

from __future__ import annotations

from semel.connect.converters.plain import BYTES, STRING, Converter

__all__ = ["BYTES", "STRING", "Converter"]
