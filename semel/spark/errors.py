"""Errors across the border to Spark: ours given back from its text, and the way out of a query that is being stopped.

``awaitTermination`` raises Spark's own exception, which holds ours as text only (DESIGN 3): :func:`error` reads it.
What a foreachBatch callback raises after ``query.stop()`` decides how the end of the query looks: :class:`QueryStopped`
makes it a normal stop. Not promised: that any other exception raised during a stop looks like one.
"""

from __future__ import annotations

import re

from semel.errors import SemelError, from_text
from semel.spark.interpreter import wrong_python

__all__ = ["QueryStopped", "error", "first_sentence"]

#: Spark recognises the interrupt of ``query.stop()`` in a callback's exception by this text. It searches with a regular
#: expression that recurses once for each character behind "calling", so the text must be short: Spark's own error,
#: raised as it is, overflows the stack.
_AS_SPARK_SEES_IT = "py4j.protocol.Py4JJavaError: An error occurred while calling semel: java.lang.InterruptedException"

#: The last line of a traceback of Python's in a text of Spark's: what stands at its edge.
_RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(?P<what>\S.*)")


#: Spark looks for ``format("semel")`` with the Python that it starts, and it is not there, or not all of it.
_NOT_FOUND = re.compile(r"\[DATA_SOURCE_NOT_FOUND\].*\bsemel\b|\[SEMEL_WRONG_PYTHON\]")


def error(exception: BaseException) -> SemelError | None:
    """Our error in ``exception``, which Spark raised (``awaitTermination``, ``query.exception()``, ``load``); None
    where there is none of ours.
    """
    if isinstance(exception, SemelError):
        return exception
    text = str(exception)
    return from_text(text) or (wrong_python() if _NOT_FOUND.search(text) else None)


def first_sentence(exception: BaseException) -> str:
    """Return what happened, in one line: the first sentence of our error, or the exception of the user's Python
    function.
    """
    if isinstance(exception, SemelError):
        return str(exception).partition(". ")[0]
    raised = _RAISED.search(str(exception))
    if raised is not None:
        return f"your code raised {raised['what']:.300}"
    return f"{type(exception).__name__}: {str(exception).partition(chr(10))[0]:.300}"


class QueryStopped(Exception):
    """``query.stop()`` has interrupted a batch: nothing of it was committed, and Spark logs no commit of it.

    Raise it ``from None``, after the transaction was aborted, and only when the query is being stopped: a chained error
    would put its whole text into Spark's regular expression. Not a :class:`SemelError`: a stop that you asked for is
    no failure.
    """

    def __init__(self) -> None:
        super().__init__(_AS_SPARK_SEES_IT)
