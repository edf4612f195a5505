"""Errors of the database, in semel's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError, IntegrityError

from semel.errors import Retriable

__all__ = ["briefly", "database_errors", "is_broken", "is_refusal"]


@contextmanager
def database_errors(prefix: str) -> Iterator[None]:
    """Raise an error of the database in the block as :class:`Retriable`."""
    try:
        yield
    except DBAPIError as error:
        raise Retriable(
            f"the database does not answer the outbox {prefix!r} ({briefly(error)}). Nothing was written."
            " Look at the database, then call again.",
            tag="DATABASE_AWAY",
        ) from error


def is_broken(error: Exception) -> bool:
    """Return True if the connection cannot be used any more."""
    return isinstance(error, DBAPIError) and error.connection_invalidated


def is_refusal(error: Exception) -> bool:
    """Return True if the database has answered a COMMIT, and refused it: rows break a constraint that is deferred."""
    return isinstance(error, IntegrityError) and not error.connection_invalidated


def briefly(error: Exception) -> str:
    """Return the class of an error and the first line of its text, without its statement."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return f"{type(cause).__name__}: {str(cause).partition(chr(10))[0]:.150}"
