"""JSON as Jackson writes it, Kafka Connect's library: keys of its topics are compared byte for byte."""

from __future__ import annotations

import json
import re

__all__ = ["escape_pairs", "jackson_text"]

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
#: Python writes these in small letters, Jackson in capitals.
_CONTROL = re.compile(r"\\u00[0-9a-f]{2}")
#: Characters of two UTF-16 units: Jackson escapes them, and no others above U+007F.
_PAIRED = re.compile("[\U00010000-\U0010ffff]")


def jackson_text(value: object) -> str:
    """Return a value as JSON without blanks, with nothing escaped but what Jackson escapes."""
    text = _encode(value)
    if "\\u00" in text:
        text = _CONTROL.sub(lambda match: match[0][:2] + match[0][2:].upper(), text)
    return text if text.isascii() else escape_pairs(text)


def escape_pairs(text: str) -> str:
    """Return JSON text with the characters above U+FFFF as two escapes each."""
    return _PAIRED.sub(_pair, text)


def _pair(match: re.Match[str]) -> str:
    high, low = divmod(ord(match[0]) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04X}\\u{0xDC00 + low:04X}"
