"""The refusal of a word that is not there yet."""

from __future__ import annotations

from semel.errors import Unsupported

__all__ = ["later"]


def later(what: str, instead: str) -> Unsupported:
    """Return the error for a word that is not there; ``instead`` says what to do."""
    return Unsupported(f"{what}: not there yet. Nothing was read. {instead}.", tag="NOT_YET")
