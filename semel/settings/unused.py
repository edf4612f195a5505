"""Names that are known and change nothing here: taken, and named once in a warning."""

from __future__ import annotations

import logging
from collections.abc import Iterable

__all__ = ["Names", "warn_of_unused"]

log = logging.getLogger("semel")

_warned: set[str] = set()


class Names:
    """Names in a text, with blanks between them. One that ends in a dot stands for all that begin so."""

    def __init__(self, text: str) -> None:
        words = text.split()
        self.exact = frozenset(word for word in words if not word.endswith("."))
        self._prefixes = tuple(word for word in words if word.endswith("."))

    def __contains__(self, name: str) -> bool:
        return name in self.exact or name.startswith(self._prefixes)


def warn_of_unused(whose: str, names: Iterable[str]) -> None:
    """Name them, once in a process. ``whose`` is the actor that they belong to."""
    text = f"these properties of {whose} change nothing here: {', '.join(sorted(names))}"
    if not text.endswith(": ") and text not in _warned:
        _warned.add(text)
        log.warning("%s", text)
