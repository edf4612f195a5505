"""The id of a record: its key, a header, or a field of its JSON value, for a whole Arrow batch at once.

Ids are compared as bytes: a key or header as it is, a JSON string as its UTF-8, a JSON number as its text, so that the
number 7 and the key ``7`` are the same id. A record has no id if its key or header is null or missing, if its value is
no JSON, or if the path leads to no string or number.

Arrow's JSON reader is several times as fast as Python's, but needs one type for all rows. Other batches are read by
Python, value by value, with the same result: numbers beside strings, an index in the path, a value that is no JSON
object.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from semel.errors import ConfigError

__all__ = ["IdPlace"]

_PLAIN_PATH = re.compile(r"\$(?:\.[^\s.\[\]*?@()'\"]+|\[(?:0|[1-9][0-9]*)\])+")
_STEP = re.compile(r"\.([^.\[]+)|\[([0-9]+)\]")
#: Largest text for one block of Arrow's JSON reader. All rows of a batch are in one block.
_MAX_BLOCK = 1 << 30


@dataclass(frozen=True, slots=True)
class IdPlace:
    """The place of the id: ``key``, ``header`` with a name, or ``json`` with a path of names and indexes."""

    kind: str
    path: tuple[str | int, ...] = ()
    text: str = "key"

    @classmethod
    def parse(cls, text: str) -> IdPlace:
        """Parse ``key``, ``header:NAME`` or ``json:$.path``. Raise :class:`ConfigError` for anything else."""
        kind, _, rest = text.partition(":")
        if text == "key":
            return cls("key")
        if kind == "header" and rest:
            return cls(kind, (rest,), text)
        if kind == "json" and _PLAIN_PATH.fullmatch(rest):
            steps = (int(index) if index else name for name, index in _STEP.findall(rest))
            return cls(kind, tuple(steps), text)
        if kind == "json":
            raise ConfigError(
                f"{rest!r} is no plain JSON path: only names and indexes are followed, as in $.order.id or"
                " $.lines[0].id, and no wildcards, filters, slices, quotes or functions. Nothing was read. Name one"
                " place where each record carries its id.",
                tag="WRONG_VALUE",
            )
        raise ConfigError(
            f"{text!r} does not say where a record's id is. Nothing was read. Give key, header:NAME, or json:$.path"
            " of a field in the value.",
            tag="MISSING_OPTION",
        )

    @property
    def in_headers(self) -> bool:
        """True if the column ``headers`` is needed."""
        return self.kind == "header"

    def of(self, rows: Any) -> Any:
        """Return the ids of a record batch with the columns ``key``, ``value`` and maybe ``headers``: a binary array,
        null for no id.
        """
        if self.kind == "key":
            return rows.column("key")
        if self.kind == "header":
            return _header(rows.column("headers"), str(self.path[0]))
        return _json(rows.column("value"), self.path)


def _header(headers: Any, name: str) -> Any:
    """Return the last header of that name, as Kafka's ``lastHeader`` does."""
    pairs = headers.flatten()
    matches = pc.indices_nonzero(pc.equal(pairs.field("key"), name))
    rows = pc.list_parent_indices(headers).take(matches).to_numpy(zero_copy_only=False)
    last = np.full(len(headers), -1, np.int64)
    last[rows] = matches.to_numpy(zero_copy_only=False)  # the last of several wins: they are in order
    return pairs.field("value").take(pa.array(last, mask=last < 0))


def _json(values: Any, path: tuple[str | int, ...]) -> Any:
    if all(isinstance(step, str) for step in path):
        for leaf in (pa.string(), pa.int64()):
            fields = _by_arrow(values, tuple(map(str, path)), leaf)
            if fields is not None:
                return fields
    return pa.array([_by_python(value, path) for value in values.to_pylist()], pa.binary())


def _by_arrow(values: Any, path: tuple[str, ...], leaf: Any) -> Any | None:
    """Return the field as Arrow reads it. None if Arrow cannot, or if its rows may not match the values one to one.

    Each value begins and ends as an object, so each gives at least one row, and no two give one. So as many rows as
    values means one row each.
    """
    if not len(values) or values.null_count or not _objects(values):
        return None
    schema = pa.schema(
        [reduce(lambda kind, name: pa.field(name, pa.struct([kind])), reversed(path[:-1]), pa.field(path[-1], leaf))]
    )
    if values.nbytes >= _MAX_BLOCK:
        return None
    text = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n")[
        0
    ].as_buffer()
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=text.size + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore", newlines_in_values=True
            ),
        )
        if table.num_rows != len(values):
            return None
        column = table.combine_chunks().column(0)
        for name in path[1:]:
            column = pc.struct_field(column, name)
        texts = pa.concat_arrays(column.chunks).cast(pa.string())
        texts.validate(full=True)  # Arrow accepts bytes that are no UTF-8
    except pa.ArrowInvalid:
        return None
    return texts.cast(pa.binary())


def _objects(values: Any) -> bool:
    trimmed = pc.ascii_trim_whitespace(values.cast(pa.large_binary()).view(pa.large_string()))
    return bool(pc.all(pc.and_(pc.starts_with(trimmed, "{"), pc.ends_with(trimmed, "}"))).as_py())


def _by_python(value: bytes | None, path: tuple[str | int, ...]) -> bytes | None:
    try:
        node: Any = json.loads(value or b"", parse_float=str, parse_constant=_no_number)
        for step in path:
            node = _follow(node, step)
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    if isinstance(node, str):
        return node.encode("utf-8", "surrogatepass")
    return str(node).encode() if isinstance(node, int) and not isinstance(node, bool) else None


def _follow(node: Any, step: str | int) -> Any:
    if isinstance(step, int) is not isinstance(node, list):
        raise TypeError(step)
    return node[step]


def _no_number(_: str) -> None:
    """Refuse NaN and Infinity, which Python accepts."""
