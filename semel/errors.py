"""One tree of errors, by what the caller must do (DESIGN section 6).

Every message says what happened, what it means for the data, and what to do, and starts with a stable tag such as
``[SEMEL_FENCED]``: Spark keeps only the text of an exception that stopped a query, and :func:`from_text`
(``semel.spark.error``) gives the class back from it. All of them survive pickling: they travel from executors to the
driver.
"""

from __future__ import annotations

import re
from typing import Self

__all__ = [
    "AbortAndRetry",
    "ConfigError",
    "DataLoss",
    "Fenced",
    "Retriable",
    "SemelError",
    "Unsupported",
    "from_text",
    "named",
]


class SemelError(Exception):
    """The root of everything that semel raises on purpose.

    ``tag`` is the stable name of the case, without the ``SEMEL_`` prefix that its text carries.
    """

    default_tag = "ERROR"
    #: The one topic and partition at fault, if it is known; the index is -1 for all of a topic. Lost by pickling.
    partition: tuple[str, int] | None = None

    def __init__(self, message: str, *, tag: str | None = None) -> None:
        self.message = message
        self.tag = tag or self.default_tag
        super().__init__(f"[SEMEL_{self.tag}] {message}")

    @property
    def kind(self) -> str:
        """The name of its class here: that of a subclass elsewhere means nothing to :func:`named`."""
        return next(cls.__name__ for cls in type(self).__mro__ if cls in (*_CLASSES, SemelError))

    def at(self, partition: tuple[str, int] | None) -> Self:
        """Set the partition at fault, and return this error."""
        self.partition = partition
        return self

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.tag)


class Retriable(SemelError):
    """Repeating the same request may help.

    Handled inside; callers see it only when the time for repeating is used up.
    """

    default_tag = "TIMEOUT"


class AbortAndRetry(SemelError):
    """The transaction is gone, and nothing of it will ever be visible: run the same work again in a new one."""

    default_tag = "ABORT_AND_RETRY"


class Fenced(SemelError):
    """Another owner has taken over this transactional id: stop. Going on would fight with a living successor."""

    default_tag = "FENCED"


class ConfigError(SemelError):
    """The request cannot be done as it was given: change the options or the data. Nothing was committed."""

    default_tag = "CONFIG"


class DataLoss(SemelError):
    """Rows are missing, doubled or undecidable unless a person decides: stop. The message says what and where."""

    default_tag = "DATA_LOSS"


class Unsupported(SemelError):
    """The broker, a feature of it, or this version of semel cannot do that. The message says which version can."""

    default_tag = "UNSUPPORTED"


_CLASSES: tuple[type[SemelError], ...] = (Retriable, AbortAndRetry, Fenced, ConfigError, DataLoss, Unsupported)
#: A message of several lines has each further one indented by four blanks; what Spark puts after it is not.
_TEXT = re.compile(r"semel\.errors\.(\w+): \[SEMEL_([A-Z0-9_]+)\] ([^\n]*(?:\n {4}[^\n]+)*)")


def _rebuild(cls: type[SemelError], message: str, tag: str) -> SemelError:
    return cls(message, tag=tag)


def named(name: str, message: str, tag: str) -> SemelError:
    """Return the error whose class has this name. Raise ``ValueError`` if no class of ours has it."""
    every: tuple[type[SemelError], ...] = (SemelError, *_CLASSES)
    classes = {cls.__name__: cls for cls in every}
    if name not in classes:
        raise ValueError(f"{name[:100]!r} is no error of semel")
    return classes[name](message, tag=tag)


def from_text(text: str) -> SemelError | None:
    """Give back the error whose text stands somewhere in ``text`` (a Java stack trace, a query's exception); None
    without one.

    The last one in the text is the cause nearest to where it was raised.
    """
    names = {cls.__name__: cls for cls in _CLASSES}
    matches = [match for match in _TEXT.finditer(text) if match.group(1) in names]
    if not matches:
        return None
    name, tag, message = matches[-1].groups()
    return names[name](message, tag=tag)
