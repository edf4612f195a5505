"""Fixtures of these tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.read.support.source_readers import Start
from tests.read.support.source_runs import Run, add
from tests.support.topics import create


@pytest.fixture
def run(servers: str) -> Iterator[Start]:
    started: list[Run] = []

    def start(log: list[str], **options: Any) -> Run:
        started.append(Run(servers, log, **options))
        return started[-1]

    yield start
    for one in started:
        one.stop()


# ---- what the options leave out


@pytest.fixture
def other(servers: str, topic: str) -> str:
    """A second topic beside the first: both have ten rows."""
    name = f"{topic}-other"
    for one in (topic, name):
        create(servers, one)
        add(servers, one, 0, 10)
    return name
