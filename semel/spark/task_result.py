"""The result of a writing task, on its way to the driver: its receipt, or the error that stopped it, as one row of JSON
(``docs/formats.md``).

No pickle: a task that refuses because it has another version of semel answers as well, and the driver must be able to
read that.
"""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from semel._version import __version__
from semel.errors import SemelError, named
from semel.records.arrays import joined
from semel.same_version import check_same_version
from semel.strict_json import is_version, of_kind, read_object, write_object
from semel.transaction.ticket import Receipt, read_receipt

__all__ = ["COLUMN", "decode_result", "encode_result"]

#: The one column of an answer.
COLUMN = "answer"
VERSION = 1


def encode_result(answer: Receipt | SemelError) -> pa.RecordBatch:
    """One row."""
    return pa.RecordBatch.from_arrays([joined([_encode(answer)], pa.binary())], [COLUMN])


def _encode(answer: Receipt | SemelError) -> bytes:
    if isinstance(answer, Receipt):
        return answer.encode()
    return write_object(
        {
            "v": VERSION,
            "semel": __version__,
            "error": answer.kind,
            "tag": answer.tag,
            "message": answer.message,
        }
    )


def decode_result(text: bytes) -> Receipt | SemelError:
    """Decode an answer: errors of every version, receipts of this one.

    Raises :class:`~semel.errors.DataLoss` for what is no answer, :class:`~semel.errors.ConfigError` for one in a form
    that is not known here.
    """
    # a text without an error is read again from its beginning: nothing of this reading may be held by then
    error = _error_in(text)
    return read_receipt(text) if error is None else error  # the first says what is wrong with it, where it is neither


def _error_in(text: bytes) -> SemelError | None:
    with suppress(ValueError, KeyError, TypeError):
        value = read_object(text)
        if "error" in value and is_version(value["v"], VERSION):
            return named(*(of_kind(str, value[name]) for name in ("error", "message", "tag")))
        if "error" in value:
            check_same_version(of_kind(str, value["semel"]), "the answer of a task")
    return None
