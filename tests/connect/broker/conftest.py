"""What the tests of Connect against a broker share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel.testing.postgres import Postgres
from tests.connect.support.reading import connected


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture
def table(postgres: Postgres, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).partition("[")[0]
    with connected(postgres) as connection:
        connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        connection.execute(
            f'CREATE TABLE "{name}" (id bigserial PRIMARY KEY, text text, at timestamp NOT NULL DEFAULT now())'
        )
    return name
