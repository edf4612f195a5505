"""Errors for values that a serde does not write. A product says what they mean for its records."""

from __future__ import annotations

from typing import Any

__all__ = ["Mismatch", "MixedTypes", "NotText", "TooWide", "Unfit", "WrongType"]


class Unfit(ValueError):
    """A column has values that the serde does not write."""


class WrongType(Unfit):
    """The column has a type that the serde does not write."""

    def __init__(self, kind: Any) -> None:
        super().__init__(f"it is {kind}")
        self.kind = kind


class MixedTypes(Unfit):
    """Values have several types in one list or field, so that there is no schema."""


class TooWide(Unfit):
    """A number does not fit into the bits that the serde writes."""


class NotText(Unfit):
    """Bytes are not text in UTF-8."""

    def __init__(self, value: bytes) -> None:
        super().__init__(f"{value!r:.100} is not text in UTF-8")
        self.value = value


class Mismatch(Unfit):
    """A value does not fit its schema. ``what`` is the rest of a sentence about it."""

    def __init__(self, what: str) -> None:
        super().__init__(f"a value {what}")
        self.what = what

    def within(self, part: str) -> Mismatch:
        """Return the error about a part of a value as one about the value."""
        return Mismatch(f"does not fit: {part} {self.what}" if "does not fit: " not in self.what else self.what)
