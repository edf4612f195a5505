"""Files of properties, in Java's form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import javaproperties

from semel.errors import ConfigError
from semel.settings.reader import NOTHING

__all__ = ["parse_properties", "read_properties"]


def read_properties(path: Path, nothing: str = NOTHING, title: str = "") -> dict[str, str]:
    """Read a file of properties. Raises :class:`ConfigError`, with none of its text, for a file that is not one.

    ``title`` stands before the path in the message: the option that names the file.
    """
    return _parsed(path.read_bytes, f"{title}{path}", nothing)


def parse_properties(text: bytes, title: str) -> dict[str, str]:
    """Parse the text of such a file. Raises the same errors."""
    return _parsed(lambda: text, title, NOTHING)


def _parsed(read: Callable[[], bytes], title: str, nothing: str) -> dict[str, str]:
    try:
        return dict(javaproperties.loads(read().decode()))
    except (OSError, ValueError) as error:  # its text is not in the message: it holds passwords
        raise ConfigError(
            f"{title} cannot be read: {type(error).__name__}. {nothing} Correct the path, or the file.",
            tag="PROPERTIES",
        ) from None
