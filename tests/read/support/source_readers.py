"""Readers of the source, called as Spark calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from tests.read.support.source_runs import Row, Run, rows_of, source

topic_numbers = count()

Start = Callable[..., Run]


def more(seen: list[Row], rows: Iterable[Row]) -> list[Row]:
    """What was seen, with these behind it."""
    seen.extend(rows)
    return seen


def batch_rows(servers: str, **options: Any) -> list[Row]:
    made = source(servers, options)
    reader = made.reader(made.schema())
    return rows_of(reader, list(reader.partitions()))
