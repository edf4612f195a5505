"""The PostgreSQL of the tests: killed it comes back with what it had committed, and it runs wherever the wheel lies."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from semel.testing import postgres
from semel.testing.postgres import Postgres


@pytest.mark.parametrize("reachable", [True, False])
def test_it_is_killed_and_comes_back(monkeypatch: pytest.MonkeyPatch, reachable: bool) -> None:
    if not reachable:  # a wheel below a folder that only root may enter
        monkeypatch.setattr(postgres, "_reachable_by_others", lambda path: False)
    with Postgres() as server:
        engine = sa.create_engine(server.url)
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE kept (number INT)"))
            connection.execute(sa.text("INSERT INTO kept VALUES (7)"))
        server.kill()
        server.start()
        engine.dispose()
        with engine.connect() as connection:
            assert connection.execute(sa.text("SELECT number FROM kept")).scalars().all() == [7]
        engine.dispose()
