"""Packages that only some parts need: a missing one is an error that says how to install it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from semel.errors import ConfigError

__all__ = ["needs_extras"]


@contextmanager
def needs_extras(what: str, extras: str, meaning: str = "Nothing was started.") -> Iterator[None]:
    """Turn a failed import into :class:`ConfigError` tagged MISSING_EXTRA.

    ``what`` needs these ``extras``, separated by commas. ``meaning`` says what that means for the data.
    """
    try:
        yield
    except ImportError as missing:
        raise ConfigError(
            f"{what} needs {missing.name}, which is not installed. {meaning} Run, in semel's checkout: pip install"
            f" '.[{extras}]'",
            tag="MISSING_EXTRA",
        ) from None
