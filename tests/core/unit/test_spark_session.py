"""The session of a command: what is refused before Spark starts."""

from __future__ import annotations

import pytest

from semel.errors import Unsupported
from semel.spark_session import spark_session


def test_spark_connect_is_refused_by_its_master() -> None:
    with pytest.raises(Unsupported, match=r"SPARK_CONNECT.*Nothing was started"):
        spark_session("semel", "sc://somewhere", {})


def test_spark_connect_is_refused_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://somewhere")
    with pytest.raises(Unsupported, match="SPARK_CONNECT"):
        spark_session("semel", None, {})
